"""Rules with stars: what they mean, and that none of them takes long."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostler.tools.commands import (
    SimpleCommand,
    find_forbidding_rule,
    find_uncovered,
    parse_command,
    part_is_read_only,
    rule_allows,
    rule_matches,
)
from ostler.tools.commands.rules.wildcards import compile_wildcards
from ostler.tools.commands.syntax.parsed import make_literal_word
from tests.support.examples import count_examples
from tests.support.tables import try_each

# A matcher that backtracks would not finish most of these.
HOSTILE = [
    ("echo " + "*a" * 12 + "b", "echo " + "a" * 100),
    ("echo " + "*a" * 30 + "b", "echo " + "a" * 3_000),
    ("echo " + "*a" * 4_000 + "b*", "echo " + "a" * 90_000),
    ("echo" + " *" * 30 + " b a", "echo" + " a" * 40_000),
    ("echo" + " * a" * 30 + " b a", "echo" + " a" * 40_000),
    ("echo" + " *a*" * 30 + " * b* a*", "echo" + " aaa" * 20_000),
    ("echo" + " * a*a*a" * 30 + " b *a", "echo" + " aaaa" * 18_000),
    ("echo" + " * a* *a" * 1_000 + " b *a", "echo" + " aaaa" * 18_000),
    ("echo" + " *" + " *a" * 2_000 + " b *a", "echo" + " aaaa" * 18_000),
    ("*" * 5_000 + "b*", "echo " + "a" * 90_000),
    ("*curl*http*wget*sh*|*", "echo '" + "curl http://example.com/x.sh \n" * 3_000 + "'"),
]  # fmt: skip
ORDINARY = [
    ("*rm*-rf*", ("echo", *["rm"] * 100_000)),
    ("git * push * --force *", ("git", "x", *["push"] * 100_000)),
    ("npm run * -- * --x", ("npm", "run", "x", *["--"] * 100_000, "x")),
    ("npm run * -- * --x*", ("npm", "run", "x", *["--"] * 100_000, "x")),
]
in_short_time = pytest.mark.timeout(30)


def compile_expression(words: tuple[str, ...], *, spanning: bool) -> re.Pattern[str]:
    """The reference: what a rule with stars means, as a regular expression."""
    within = "(?s:.*)" if spanning else "[^\0]*"
    pieces = [within.join(re.escape(piece) for piece in word.split("*")) for word in words]
    joined = "\0".join("(?s:.+)" if word == "*" else piece for word, piece in zip(words, pieces, strict=True))
    if words and words[-1] == "*" and len(words) > 1:
        joined = joined.removesuffix("\0(?s:.+)") + "(?:\0(?s:.*))?"
    return re.compile(joined)


few = st.text("ab", max_size=4)
odd = st.text("a*.\n\\[ ", max_size=4)
rules = st.lists(st.one_of(st.just("*"), st.text("ab**", max_size=5), odd), max_size=5).map(tuple)
commands = st.lists(st.one_of(few, odd), max_size=7).map(tuple)


@settings(max_examples=count_examples(1_000), deadline=None)
@given(rules, commands, st.booleans())
@example(("a", "*", "b"), ("a", "", "b"), False)
@example(("a", "*", "b"), ("a", "", "", "b"), False)
@example(("*", "a*b", "c", "*"), ("x", "ab", "d", "aab", "c"), False)
@example(("*", "a*", "*b", "c*"), ("x", "aa", "ab", "bb", "c"), False)
@example((), (), True)
def test_stars_mean_what_they_always_meant(rule: tuple[str, ...], words: tuple[str, ...], spanning: bool) -> None:
    meant = compile_expression(rule, spanning=spanning).fullmatch("\0".join(words)) is not None
    assert compile_wildcards(rule, spanning=spanning).matches(words) == meant


@st.composite
def rules_with_words(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A rule, and words that were made from it, so that most of them match."""
    rule = draw(rules)
    parts = [
        draw(st.sampled_from(["", "a", "b", "ab", "a\0b", "\0"])) if sign == "*" else sign for sign in "\0".join(rule)
    ]
    return rule, tuple("".join(parts).split("\0"))


@settings(max_examples=count_examples(1_000), deadline=None)
@given(rules_with_words(), st.booleans())
def test_what_is_made_from_a_rule_fits_as_it_always_did(
    made: tuple[tuple[str, ...], tuple[str, ...]], spanning: bool
) -> None:
    rule, words = made
    meant = compile_expression(rule, spanning=spanning).fullmatch("\0".join(words)) is not None
    assert compile_wildcards(rule, spanning=spanning).matches(words) == meant


@in_short_time
@pytest.mark.parametrize(("content", "command"), HOSTILE)
def test_no_rule_with_stars_takes_forever(content: str, command: str) -> None:
    parsed = parse_command(command)
    assert parsed.problem is None
    assert find_forbidding_rule(parsed, [content]) is None
    assert find_uncovered(parsed, [content], lambda part: False) != []
    assert not any(rule_matches(content, part) or rule_allows(content, part) for part in parsed.parts)


@in_short_time
@pytest.mark.parametrize(("content", "words"), ORDINARY)
def test_an_ordinary_rule_takes_no_longer_than_the_command_is_long(content: str, words: tuple[str, ...]) -> None:
    # Longer than a command can be: where the time grew with the square of the length, that took minutes.
    part = SimpleCommand("", tuple(map(make_literal_word, words)))
    assert not rule_matches(content, part)
    assert not rule_allows(content, part)


@in_short_time
def test_many_stars_still_find_what_they_are_looking_for() -> None:
    content = "echo " + "*a" * 500 + "b *"
    parsed = parse_command("echo " + "a" * 50_000 + "b x")
    assert find_forbidding_rule(parsed, [content]) == content
    assert find_uncovered(parsed, [content], part_is_read_only) == []


@try_each(
    ("content", "command"),
    [
        ("make * a*c", "make a abc"), ("make * a*c d", "make x ab ac d"), ("* x*:y *", "run xa xb:y z"),
        ("npm run * -- * --x", "npm run a -- b --x"), ("g*t push", "git push"),
        ("go test * *_test.go", "go test -v a_test.go"),
    ],
)  # fmt: skip
def test_a_star_within_a_word_and_one_for_words_are_found_together(content: str, command: str) -> None:
    (part,) = parse_command(command).parts
    assert rule_allows(content, part)
    assert rule_matches(content, part)


@pytest.mark.parametrize(
    ("content", "command"),
    [
        ("make * a*c", "make x ab c"), ("make * a*c d", "make x ac e d"), ("* x*:y *", "run x a:y z"),
        ("g*t push", "g t push"),
    ],
)  # fmt: skip
def test_a_star_within_a_word_does_not_allow_what_goes_over_words(content: str, command: str) -> None:
    (part,) = parse_command(command).parts
    assert not rule_allows(content, part)

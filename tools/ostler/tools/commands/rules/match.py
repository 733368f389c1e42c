"""`Bash(content)` rules: what they allow, and what they catch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, cast

from ostler.tools.commands.rules.content import (
    Contents,
    RuleWords,
    allowing_contents,
    forbidding_contents,
    rule_words,
    with_bare_name,
)
from ostler.tools.commands.rules.wildcards import stars
from ostler.tools.commands.safety.program_table import data
from ostler.tools.commands.safety.transparent_wrappers import past_harmless
from ostler.tools.commands.safety.wrappers import (
    all_inside,
    all_resolved,
    is_undecided,
    programs_in,
    unwrapped,
)
from ostler.tools.commands.syntax.parsed import Part, Reading, Redirection

_SOCKETS: Final = ("/dev/tcp/", "/dev/udp/")
_DECLARING: Final = frozenset({"export", "declare", "typeset", "readonly", "local"})
Answer = Literal["yes", "no", "maybe"]
Why = Literal["rule", "redirection"]


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A part that no allow rule covers; `redirection`: a rule covers the command, but not the file that it writes."""

    part: Part
    why: Why


def rule_allows(content: str, part: Part) -> bool:
    """Whether an allow rule covers one simple command. Files that it writes are judged elsewhere."""
    rule = rule_words(content)
    return any(_allows(rule, candidate) for candidate in _candidates(part))


def _candidates(part: Part) -> tuple[tuple[str, ...], ...]:
    """The words that an allow rule may cover, inside of harmless wrappers and with them; none where no rule may."""
    inner = past_harmless(part)
    if inner is None or not inner.tokens or "function" in part.inside:
        return ()
    words, own = inner.literal_words, part.literal_words
    if words is None or not _assignments_are_harmless(part) or _opens_socket(part):
        return ()
    return (words,) if not own or own is words else (words, own)


def rule_matches(content: str, part: Part) -> bool:
    """Whether a deny or ask rule catches one simple command, or anything that runs inside it."""
    rule = with_bare_name(rule_words(content))
    return any(_caught(rule, inner) == "yes" for inner in unwrapped(part))


def judge_allow(
    reading: Reading, contents: Sequence[str] | Contents, read_only: Callable[[Part], bool]
) -> list[Uncovered]:
    """The parts that neither are read-only nor covered by one of the rules; empty: the command is allowed.

    What is not fully understood, or defines a function, is covered by nothing.
    """
    if reading.problem is not None or any("function" in part.inside for part in reading.parts):
        return [Uncovered(part, "rule") for part in reading.parts] or [Uncovered(Part(reading.command, ()), "rule")]
    known = contents if isinstance(contents, Contents) else allowing_contents(contents)
    whole = known.as_line(reading.command) is not None
    found = [_uncovered(part, known, read_only, whole=whole) for part in reading.parts]
    return [uncovered for uncovered in found if uncovered is not None]


def first_help(reading: Reading, contents: Contents) -> str | None:
    """The first allow rule that covers the whole line, or any part of it."""
    line = contents.as_line(reading.command)
    candidates = [words for part in reading.parts for words in _candidates(part)]
    named: frozenset[str | None] = frozenset(words[0] for words in candidates)
    found = (content for content, rule in contents.about(named) if any(_allows(rule, words) for words in candidates))
    part = next(found, None)
    both = [content for content in (line, part) if content is not None]
    return min(both, key=contents.texts.index, default=None)


def judge_match(reading: Reading, contents: Sequence[str] | Contents) -> str | None:
    """The first deny or ask rule that catches any part."""
    known = contents if isinstance(contents, Contents) else forbidding_contents(contents)
    inner = all_inside(reading)
    for content, rule in known.about(programs_in(reading)):
        if any(_caught(rule, part) == "yes" for part in inner):
            return content
    # A rule that was written as a whole line catches that line, whatever stands in it.
    return known.as_line(reading.command)


def undecided(reading: Reading, contents: Sequence[str] | Contents) -> bool:
    """Whether one of these deny or ask rules may catch it, which only the run decides: then a person is asked."""
    known = contents if isinstance(contents, Contents) else forbidding_contents(contents)
    if not known.texts:
        return False
    if not all_resolved(reading):
        return True
    inner = all_inside(reading)
    return any(_caught(rule, part) == "maybe" for _, rule in known.about(programs_in(reading)) for part in inner)


def sets_dangerous_variable(part: Part) -> bool:
    """Whether it assigns a variable that decides what runs."""
    names = [name for name, _ in part.assignments]
    if part.words and part.words[0] in _DECLARING:
        names += [word.partition("=")[0] for word in part.literal_words or () if "=" in word]
    return any(_is_dangerous(name) for name in names)


def _uncovered(part: Part, contents: Contents, read_only: Callable[[Part], bool], *, whole: bool) -> Uncovered | None:
    if not part.tokens:
        harmless = _assignments_are_harmless(part) and not _opens_socket(part)
        covered = whole or harmless
    else:
        # Whether it only reads is asked last: that may be a look at the disk.
        covered = whole or _is_allowed(part, contents) or read_only(part)
    if not covered:
        return Uncovered(part, "rule")
    if any(found.writes for found in part.redirections):
        return Uncovered(part, "redirection")
    return None


def _is_allowed(part: Part, contents: Contents) -> bool:
    candidates = _candidates(part)
    named: frozenset[str | None] = frozenset(words[0] for words in candidates)
    return bool(candidates) and any(_allows(rule, words) for _, rule in contents.about(named) for words in candidates)


def _assignments_are_harmless(part: Part) -> bool:
    return not sets_dangerous_variable(part) and all(value is not None for _, value in part.assignments)


def _opens_socket(part: Part) -> bool:
    """A redirection to `/dev/tcp`, to a name that only the run decides, or of text that does."""
    return any(
        (found.target.kind in {"unknown", "glob"} and not found.operator.startswith("<<"))
        or found.target.text.startswith(_SOCKETS)
        for found in part.redirections
        if not found.copies
    )


@cache
def _dangerous() -> tuple[frozenset[str], tuple[str, ...]]:
    names: list[str] = data("variables.toml")["dangerous"]
    return (
        frozenset(name for name in names if not name.endswith("*")),
        tuple(name[:-1] for name in names if name.endswith("*")),
    )


def _is_dangerous(name: str) -> bool:
    exact, beginnings = _dangerous()
    return name.upper() in exact or name.upper().startswith(beginnings)


def _allows(rule: RuleWords, words: tuple[str, ...]) -> bool:
    match rule.form:
        case "exact":
            return words == rule.words
        case "prefix":
            return words[: len(rule.words)] == rule.words
        case "pattern":
            return stars(rule.words, spanning=False).fit(words)


def _caught(rule: RuleWords, part: Part) -> Answer:
    if not part.tokens or (part.tokens[0].kind == "unknown" and not is_undecided(part)):
        return "no"
    words = part.words
    known = words.index(None) if None in words else len(words)
    if rule.form == "prefix":
        return _begins(rule.words, words)
    if known == len(words):
        literal = cast("tuple[str, ...]", words)
        fits = literal == rule.words if rule.form == "exact" else stars(rule.words, spanning=True).fit(literal)
        return "yes" if fits else "no"
    if rule.form == "exact":
        return "maybe" if words[:known] == rule.words[:known] else "no"
    return _may_match(rule.words, [word for word in words[:known] if word is not None])


def _begins(rule: tuple[str, ...], words: tuple[str | None, ...]) -> Answer:
    for place, wanted in enumerate(rule):
        if place >= len(words):
            return "no"
        if words[place] is None:
            return "maybe"
        if words[place] != wanted:
            return "no"
    return "yes"


def _may_match(rule: tuple[str, ...], known: list[str]) -> Answer:
    """Whether a pattern may match what begins with these words."""
    for place, wanted in enumerate(rule):
        if place >= len(known) or "*" in wanted:
            return "maybe"
        if known[place] != wanted:
            return "no"
    return "maybe"


def names_its_files(reading: Reading) -> bool:
    """Whether each file that a redirection writes is known beforehand: neither an expansion nor a folder hides it."""
    return all(_is_absolute(found) or _is_relative(found) for found in _writing(reading))


def named_absolutely(reading: Reading) -> frozenset[str]:
    """The files, written by redirections, that are the same wherever the command runs; `~` is not filled in."""
    if any(map(sets_dangerous_variable, reading.parts)):
        # With another HOME, `~` is another folder.
        return frozenset()
    return frozenset(found.target.text for found in _writing(reading) if _is_absolute(found))


def _writing(reading: Reading) -> Iterator[Redirection]:
    return (found for part in reading.parts for found in part.redirections if found.writes)


def _is_absolute(found: Redirection) -> bool:
    return found.target.kind == "home" or (found.target.kind == "literal" and found.target.text.startswith("/"))


def _is_relative(found: Redirection) -> bool:
    return found.target.kind == "literal" and bool(found.target.text) and found.folders is not None

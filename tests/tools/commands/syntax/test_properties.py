"""What must hold of any command: generated ones, compared with what bash and shfmt see."""

import re

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ostler.tools.commands import (
    find_file_accesses,
    find_forbidding_rule,
    find_uncovered,
    is_fully_resolved,
    is_read_only,
    may_be_forbidden,
    parse_command,
    part_is_read_only,
    suggest_rules,
)
from ostler.tools.commands.safety.program_table import load_programs
from ostler.tools.commands.syntax.words import read_word
from tests.support.examples import count_examples
from tests.tools.commands.generated_commands import (
    bash_accepts,
    expand_with_bash,
    list_nodes,
    list_shfmt_calls,
    needs_shfmt,
    parse_with_shfmt,
    plain_commands,
    reading_text,
    shell_text,
    whole_words,
    words,
)
from tests.tools.commands.safety.test_program_table import PASSES

ordinary = settings(max_examples=count_examples(150), deadline=None, derandomize=False)
costly = settings(max_examples=count_examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
HARMLESS_NODES = {None, "CallExpr", "BinaryCmd", "Lit", "SglQuoted", "DblQuoted"}

anything = st.one_of(st.text(max_size=60), shell_text, st.binary(max_size=40).map(lambda data: data.decode("latin-1")))


@ordinary
@given(anything)
def test_reading_and_judging_never_raise(command: str) -> None:
    parsed = parse_command(command)
    is_read_only(parsed, "/nowhere")
    find_uncovered(parsed, ["npm test:*", "a*b"], part_is_read_only)
    find_forbidding_rule(parsed, ["rm:*"])
    may_be_forbidden(parsed, ["rm:*"])
    is_fully_resolved(parsed)
    suggest_rules(parsed)
    find_file_accesses(parsed, "/nowhere")


@costly
@given(plain_commands(whole_words))
def test_everything_generated_as_plain_is_plain_and_accepted_by_bash(command: str) -> None:
    # The tree loses a lone dash before such a redirection, shfmt does not: it counts as not understood.
    assume(" - 2>" not in command)
    parsed = parse_command(command)
    assert parsed.problem is None
    assert parsed.plain
    assert bash_accepts(command)


@needs_shfmt
@costly
@given(st.one_of(plain_commands(whole_words), plain_commands(words, 3)))
def test_a_plain_command_is_split_as_shfmt_splits_it(command: str) -> None:
    parsed = parse_command(command)
    if parsed.problem is not None:
        # The parser fails on some escapes: it reports a problem, and the command is not plain.
        assert not parsed.plain
        return
    tree = parse_with_shfmt(command)
    assert tree is not None
    assert [[word.source for word in part.tokens] for part in parsed.parts] == list_shfmt_calls(tree, command)


@costly
@given(st.lists(words, min_size=1, max_size=60))
def test_literal_words_are_what_bash_makes_of_them(sources: list[str]) -> None:
    read = [(source, read_word(source).literal) for source in sources]
    literal = [(source, word) for source, word in read if word is not None]
    assert not literal or expand_with_bash([source for source, _ in literal]) == [word for _, word in literal]


@costly
@given(st.lists(shell_text, min_size=20, max_size=20))
def test_whatever_is_plain_is_accepted_by_bash(commands: list[str]) -> None:
    for command in commands:
        if parse_command(command).plain:
            assert bash_accepts(command), command


@needs_shfmt
@costly
@given(st.lists(reading_text, min_size=15, max_size=15))
@example(["ls | \\ls", "l's'"])
def test_whatever_is_read_only_holds_nothing_but_simple_commands_of_the_table(commands: list[str]) -> None:
    for command in commands:
        if not is_read_only(parse_command(command), "/nowhere").ok:
            continue
        tree = parse_with_shfmt(command)
        assert tree is not None, command
        assert {node.get("Type") for node in list_nodes(tree["Stmts"])} <= HARMLESS_NODES, command
        assert not any(
            node.get("Background") or node.get("Negated") or node.get("Assigns") for node in list_nodes(tree)
        )
        # As bash takes it: `\ls` and `l's'` are ls.
        words = [re.sub(r"[\\'\"]", "", call[0]) for call in list_shfmt_calls(tree, command)]
        assert set(words) <= load_programs().keys(), command


TAKE_TEXT = (
    "echo", "test", "[", "printf", "diff", "cat", "sort", "wc", "head", "tail", "basename", "dirname", "cmp", "comm",
    "column", "cut", "join", "nl", "paste", "uniq",
)  # fmt: skip
"""Programs that a substitution may stand behind."""
EXPANSIONS = ["$x", "${x}", "${x@P}", "$(ls)", "`ls`", "$((x))", "$'\\x41'", '$"a"', "{a,$b}", "{a..c}", "~user",
    "<(ls)", '"$x"',
              "$IFS", "[[:alpha:]]", "-*", "a=~", ">f", "<>f", ">>f", "<<<$x", "&",
              "$[1]", '"`ls`"', "--no-such-flag"]  # fmt: skip


@ordinary
@given(st.sampled_from([command for command in PASSES if not command.startswith(TAKE_TEXT)]),
       st.sampled_from(EXPANSIONS))  # fmt: skip
def test_nothing_with_an_expansion_substitution_or_unknown_flag_is_read_only(command: str, more: str) -> None:
    if "--" not in command.split():
        assert not is_read_only(parse_command(f"{command} {more}"), "/nowhere").ok


@ordinary
@given(
    st.sampled_from(PASSES),
    st.sampled_from("\x00\x01\x08\x0b\x0c\r\x1b\x7f\x85\u00a0\u2028\u200b\u202e\ufeff"),
    st.data(),
)
def test_nothing_with_a_control_or_invisible_character_is_read_only(
    command: str, character: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(command)))
    assert not is_read_only(parse_command(command[:place] + character + command[place:]), "/nowhere").ok


@ordinary
@given(st.text("abcdefghijklmnopqrstuvwxyz-_", min_size=1, max_size=10))
def test_no_unknown_program_is_read_only(name: str) -> None:
    if name not in load_programs():
        assert not is_read_only(parse_command(f"{name} x"), "/nowhere").ok


@ordinary
@given(shell_text, st.sampled_from(["; ", "\n", " && ", " | "]))
def test_a_denied_command_is_caught_or_undecided_whatever_stands_before_it(before: str, separator: str) -> None:
    parsed = parse_command(f"{before}{separator}rm x")
    caught = find_forbidding_rule(parsed, ["rm:*"]) or may_be_forbidden(parsed, ["rm:*"])
    # Inside quotes, a comment or a heredoc it is text, and then bash does not run it either.
    assert caught or not _would_run(f"{before}{separator}rm x")


def _would_run(command: str) -> bool:
    quoted = any(character in command for character in "'\"#\\") or "<<" in command
    return not quoted and bash_accepts(command)

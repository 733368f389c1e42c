"""Matching many rules at once gives the same result as matching each of them alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.tools.commands import (
    ParsedCommand,
    find_forbidding_rule,
    find_helping_rule,
    find_uncovered,
    index_allow_rules,
    index_forbid_rules,
    may_be_forbidden,
    parse_command,
    part_is_read_only,
    rule_allows,
    rule_matches,
)
from tests.support.examples import count_examples
from tests.tools.commands.generated_commands import plain_commands, shell_text
from tests.tools.commands.safety.test_program_table import ASKS, PASSES

FORBIDDING = [
    "rm:*", "git push:*", "git log", "/usr/bin/sudo:*", "* --force", "cat f*", "./x:*", "*", "ls && cat f", "l*:*",
    "bash -c *", " echo  x ", "npm test", "npm test:*", "grep * f", "'q':*", "a.b", "",
]  # fmt: skip
ALLOWING = [
    "ls:*", "git *", "git log:*", "npm test", "timeout 5 ls", "./x:*", "/bin/rm x", "g* x", "cat a b", "'q' *", "a.b:*",
    " ls -la ", "ls && cat f", "npm run build:*", "echo:*", "X=1 make",
]  # fmt: skip
MORE_COMMANDS = [
    "sudo rm -rf x", "/bin/rm x", "timeout 5 ls", "timeout 5 rm x", "ls && cat f", "echo  x", "$X y", "git $X",
    "npm test -x", "bash -c 'rm x'", "find . -exec rm {} ;", "X=1 make", "git -C x push", "ls 'x", "f() { ls; }",
    "nice ls", "> f", "",
]  # fmt: skip
commands = st.one_of(st.sampled_from([*PASSES, *ASKS, *MORE_COMMANDS]), plain_commands(most=4), shell_text)


def find_catching_content(parsed: ParsedCommand, contents: list[str]) -> str | None:
    by_part = (text for text in contents if any(rule_matches(text, part) for part in parsed.parts))
    as_line = (text for text in contents if text.strip() == parsed.command.strip())
    return next(by_part, next(as_line, None))


def find_helping_content(parsed: ParsedCommand, contents: list[str]) -> str | None:
    for text in contents:
        if text.strip() == parsed.command.strip() or any(rule_allows(text, part) for part in parsed.parts):
            return text
    return None


@settings(max_examples=count_examples(300), deadline=None)
@given(commands, st.lists(st.sampled_from(FORBIDDING), max_size=8))
def test_the_first_rule_that_forbids_is_found_among_many(command: str, contents: list[str]) -> None:
    parsed, prepared = parse_command(command), index_forbid_rules(contents)
    assert (
        find_forbidding_rule(parsed, prepared)
        == find_forbidding_rule(parsed, contents)
        == find_catching_content(parsed, contents)
    )
    alone = any(may_be_forbidden(parsed, [text]) for text in contents)
    assert may_be_forbidden(parsed, prepared) == may_be_forbidden(parsed, contents) == alone


@settings(max_examples=count_examples(300), deadline=None)
@given(commands, st.lists(st.sampled_from(ALLOWING), max_size=8))
def test_the_first_rule_that_helps_is_found_among_many(command: str, contents: list[str]) -> None:
    parsed, prepared = parse_command(command), index_allow_rules(contents)
    assert find_helping_rule(parsed, prepared) == find_helping_content(parsed, contents)
    uncovered = find_uncovered(parsed, prepared, part_is_read_only)
    assert uncovered == find_uncovered(parsed, contents, part_is_read_only)
    if not uncovered and not all(map(part_is_read_only, parsed.parts)) and all(part.tokens for part in parsed.parts):
        assert find_helping_rule(parsed, prepared) is not None


def test_whether_a_part_only_reads_is_not_asked_where_a_rule_covers_it() -> None:
    asked: list[str] = []

    def read_only(part: object) -> bool:
        asked.append(str(part))
        return False

    assert find_uncovered(parse_command("npm test && npm test -x"), ["npm test:*"], read_only) == []
    assert asked == []


def test_a_program_that_is_not_known_is_compared_with_every_rule() -> None:
    assert may_be_forbidden(parse_command("$X y"), index_forbid_rules(["rm:*"]))
    assert find_forbidding_rule(parse_command("$X y"), index_forbid_rules(["rm x", "$X y"])) == "$X y"

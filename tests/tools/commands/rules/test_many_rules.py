"""Many rules at once say what each of them says alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.tools.commands import (
    Reading,
    allowing_contents,
    first_help,
    forbidding_contents,
    judge_allow,
    judge_match,
    part_is_read_only,
    read_command,
    rule_allows,
    rule_matches,
    undecided,
)
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
MORE = [
    "sudo rm -rf x", "/bin/rm x", "timeout 5 ls", "timeout 5 rm x", "ls && cat f", "echo  x", "$X y", "git $X",
    "npm test -x", "bash -c 'rm x'", "find . -exec rm {} ;", "X=1 make", "git -C x push", "ls 'x", "f() { ls; }",
    "nice ls", "> f", "",
]  # fmt: skip
commands = st.one_of(st.sampled_from([*PASSES, *ASKS, *MORE]), plain_commands(most=4), shell_text)


def one_that_catches(reading: Reading, contents: list[str]) -> str | None:
    by_part = (text for text in contents if any(rule_matches(text, part) for part in reading.parts))
    as_line = (text for text in contents if text.strip() == reading.command.strip())
    return next(by_part, next(as_line, None))


def one_that_helps(reading: Reading, contents: list[str]) -> str | None:
    for text in contents:
        if text.strip() == reading.command.strip() or any(rule_allows(text, part) for part in reading.parts):
            return text
    return None


@settings(max_examples=300, deadline=None)
@given(commands, st.lists(st.sampled_from(FORBIDDING), max_size=8))
def test_the_first_rule_that_forbids_is_found_among_many(command: str, contents: list[str]) -> None:
    reading, prepared = read_command(command), forbidding_contents(contents)
    assert judge_match(reading, prepared) == judge_match(reading, contents) == one_that_catches(reading, contents)
    alone = any(undecided(reading, [text]) for text in contents)
    assert undecided(reading, prepared) == undecided(reading, contents) == alone


@settings(max_examples=300, deadline=None)
@given(commands, st.lists(st.sampled_from(ALLOWING), max_size=8))
def test_the_first_rule_that_helps_is_found_among_many(command: str, contents: list[str]) -> None:
    reading, prepared = read_command(command), allowing_contents(contents)
    assert first_help(reading, prepared) == one_that_helps(reading, contents)
    uncovered = judge_allow(reading, prepared, part_is_read_only)
    assert uncovered == judge_allow(reading, contents, part_is_read_only)
    if not uncovered and not all(map(part_is_read_only, reading.parts)) and all(part.tokens for part in reading.parts):
        assert first_help(reading, prepared) is not None


def test_whether_a_part_only_reads_is_not_asked_where_a_rule_covers_it() -> None:
    asked: list[str] = []

    def read_only(part: object) -> bool:
        asked.append(str(part))
        return False

    assert judge_allow(read_command("npm test && npm test -x"), ["npm test:*"], read_only) == []
    assert asked == []


def test_a_program_that_is_not_known_is_compared_with_every_rule() -> None:
    assert undecided(read_command("$X y"), forbidding_contents(["rm:*"]))
    assert judge_match(read_command("$X y"), forbidding_contents(["rm x", "$X y"])) == "$X y"

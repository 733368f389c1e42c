"""What Grep shows of its matches: limits, columns, groups, counts, and nothing that rules hide."""

import os
from typing import Any

import pytest

from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from tests.support.tool_calls import Session
from tests.tools.search.search_files import grep, put_file

pytestmark = pytest.mark.anyio


GLOB, GREP = Glob(), Grep()


# What Grep shows.


async def test_250_is_the_limit_of_every_mode_and_the_cut_is_said_last(session: Session) -> None:
    for number in range(260):
        put_file(session, f"{number:03}.txt")
    for mode in ("files_with_matches", "count", "content"):
        output = (await session.expect_result(GREP, pattern="hit", output_mode=mode)).output
        lines = GREP.render(output)[0]["text"].split("\n")
        assert len(lines) == 251
        assert lines[-1] == "(cut after 250; go on with offset 250, or search for less)"
        assert (output.mode, output.num_files, output.applied_limit, output.applied_offset) == (mode, 250, 250, None)
        rest = (await session.expect_result(GREP, pattern="hit", output_mode=mode, offset=250)).output
        assert (rest.num_files, rest.applied_limit, rest.applied_offset) == (10, None, 250)
        assert "(" not in GREP.render(rest)[0]["text"]


async def test_past_the_last_match_there_are_no_more(session: Session) -> None:
    put_file(session, "a.txt")
    assert await grep(session, offset=5) == "No more matches"


async def test_lines_around_a_match_are_shown_in_content_mode_only(session: Session) -> None:
    put_file(session, "a.txt", "1\n2\nhit\n4\n5\n")
    for mode, shown in (("files_with_matches", "a.txt"), ("count", "a.txt:1")):
        assert await grep(session, **{"output_mode": mode, "-C": 1, "-A": 2, "-B": 2, "context": 1}) == shown
    both = "a.txt-2-2\na.txt:3:hit\na.txt-4-4"
    assert await grep(session, output_mode="content", context=1) == both
    assert await grep(session, **{"output_mode": "content", "-C": 1, "context": 2}) == both
    assert await grep(session, **{"output_mode": "content", "-C": 1, "-A": 2}) == f"{both}\na.txt-5-5"


async def test_the_output_counts_lines_and_matches(session: Session) -> None:
    put_file(session, "a.txt", "hit\nno\nhit\n")
    put_file(session, "b.txt", "hit")
    output = (await session.expect_result(GREP, **{"pattern": "hit", "output_mode": "content", "-A": 1})).output
    assert (output.num_lines, output.num_matches, output.num_files) == (5, 3, 2)
    assert output.filenames == ["a.txt", "b.txt"]
    assert output.content == "a.txt:1:hit\na.txt-2-no\na.txt:3:hit\n--\nb.txt:1:hit"


async def test_a_line_is_cut_after_500_columns(session: Session) -> None:
    put_file(session, "a.txt", "hit" + "x" * 496 + "\n" + "hit" + "y" * 500 + "\n")
    first, second = (await grep(session, output_mode="content")).split("\n")
    assert first == "a.txt:1:hit" + "x" * 496
    assert second == "a.txt:2:hit" + "y" * 497 + " [... omitted end of long line]"


@pytest.mark.parametrize("letter", ["ä", "漢", "🐎"])
async def test_columns_are_characters_in_every_script(session: Session, letter: str) -> None:
    put_file(session, "a.txt", f"hit{letter * 497}\nhit{letter * 498}\nhit{letter * 3000}\n")
    first, second, third = (await grep(session, output_mode="content")).split("\n")
    assert first == f"a.txt:1:hit{letter * 497}"
    assert second == f"a.txt:2:hit{letter * 497} [... omitted end of long line]"
    assert third == f"a.txt:3:hit{letter * 497} [... omitted end of long line]"


# Patterns that end with a line: ripgrep ends its own lines another way then.


@pytest.mark.parametrize("pattern", ["hit$", "hit"])
async def test_files_that_rules_hide_do_not_appear_whatever_the_pattern_is(session: Session, pattern: str) -> None:
    for name in ("a.txt", "secret/k.txt", "z.txt"):
        put_file(session, name, "x\nhit\nx\nx\nx\nhit\nx\n")
    session.change_view(may_read=lambda path: not path.startswith(str(session.folder / "secret")))
    shown = await grep(session, pattern=pattern, output_mode="content", **{"-C": 1})
    groups = ["{0}-1-x\n{0}:2:hit\n{0}-3-x", "{0}-5-x\n{0}:6:hit\n{0}-7-x"]
    assert shown == "\n--\n".join(group.format(name) for name in ("a.txt", "z.txt") for group in groups)
    output = (await session.expect_result(GREP, pattern=pattern, output_mode="content", **{"-C": 1})).output
    assert output.filenames == ["a.txt", "z.txt"]
    for mode in ("files_with_matches", "count"):
        assert "secret" not in await grep(session, pattern=pattern, output_mode=mode)


async def test_hidden_matches_leave_no_trace_between_groups(session: Session) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        put_file(session, name, "hit\nx\n")
    session.change_view(may_read=lambda path: path.endswith("a.txt") or os.path.isdir(path))
    assert await grep(session, output_mode="content", **{"-A": 1}) == "a.txt:1:hit\na.txt-2-x"


@pytest.mark.parametrize("pattern", ["hit$", "hit"])
async def test_groups_are_kept_apart_from_an_offset_on(session: Session, pattern: str) -> None:
    put_file(session, "a.txt", "hit\nx\ny\ny\nhit\nx\ny\n")
    given: dict[str, Any] = {"pattern": pattern, "output_mode": "content", "-A": 1}
    assert await grep(session, **given) == "a.txt:1:hit\na.txt-2-x\n--\na.txt:5:hit\na.txt-6-x"
    assert await grep(session, **given, offset=1) == "a.txt-2-x\n--\na.txt:5:hit\na.txt-6-x"
    assert await grep(session, **given, offset=2) == "a.txt:5:hit\na.txt-6-x"
    cut = await grep(session, **given, head_limit=3)
    assert cut.splitlines()[:4] == ["a.txt:1:hit", "a.txt-2-x", "--", "a.txt:5:hit"]
    assert "cut after 3; go on with offset 3" in cut


async def test_counts_are_numbers_whatever_the_pattern_is(session: Session) -> None:
    put_file(session, "a.txt", "hit\r\nhit\n")
    put_file(session, "b.txt", "hit\n")
    assert await grep(session, pattern="hit$", output_mode="count") == "a.txt:2\nb.txt:1"


async def test_a_binary_file_is_told_of_whatever_the_pattern_is(session: Session) -> None:
    path = put_file(session, "b.bin", b"hit\n" + b"\0" * 100 + b"\nhit\n")
    for pattern in ("hit", "hit$"):
        shown = await grep(session, pattern=pattern, path=str(path), output_mode="content")
        assert "b.bin: a binary file, of which no more is shown" in shown


async def test_a_number_that_is_too_large_is_told_its_bounds(session: Session) -> None:
    words = (await session.expect_failure(GREP, pattern="x", **{"-A": 10**12})).message
    assert words == "-A is 1000000000000, but must be from 0 to 2147483647."

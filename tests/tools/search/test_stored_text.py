"""Grep in a persisted result is the same Grep."""

import time
from typing import Any

import pytest

from ostler.tools.call_subject import find_subject
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import TextSubject
from ostler.tools.search import ripgrep
from ostler.tools.search.grep import Grep, GrepOutput
from ostler.tools.tool import Allow, Failure, ToolResult
from tests.support.stored_results import StoredResults, call_with_results
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
GREP = Grep()
BUILD = "start\nwarning: unused x\ncompiling ü\nerror: no y\nhelp: add y\nError: no z\nend"


async def run_grep(session: Session, whole: str, given: dict[str, Any]) -> GrepOutput:
    ran = await call_with_results(session, GREP, StoredResults({"r_1": whole}), {"path": "result://r_1", **given})
    assert isinstance(ran, ToolResult), ran
    output: GrepOutput = ran.output
    return output


async def grep_text(session: Session, **given: Any) -> str:
    return await grep_text_in(session, BUILD, **given)


async def grep_text_in(session: Session, whole: str, /, **given: Any) -> str:
    return "".join(block["text"] for block in GREP.render(await run_grep(session, whole, given)))


async def grep_failure_message(session: Session, **given: Any) -> str:
    ran = await call_with_results(session, GREP, StoredResults({"r_1": BUILD}), {"path": "result://r_1", **given})
    assert isinstance(ran, Failure), ran
    return ran.message


async def test_content_is_shown_under_the_name_of_the_result(session: Session) -> None:
    assert await grep_text(session, pattern="error", output_mode="content") == "result://r_1:4:error: no y"
    shown = await grep_text(session, **{"pattern": "error", "output_mode": "content", "-i": True, "-n": False})
    assert shown == "result://r_1:error: no y\nresult://r_1:Error: no z"


async def test_context_lines_stand_around_the_match(session: Session) -> None:
    shown = await grep_text(session, **{"pattern": "^error", "output_mode": "content", "-B": 1, "-A": 1})
    assert shown == "result://r_1-3-compiling ü\nresult://r_1:4:error: no y\nresult://r_1-5-help: add y"
    shown = await grep_text(session, **{"pattern": "start|end", "output_mode": "content", "-C": 1})
    assert shown.split("\n")[2] == "--"


async def test_the_other_modes_name_the_result_and_count_its_lines(session: Session) -> None:
    assert await grep_text(session, pattern="no [yz]") == "result://r_1"
    assert await grep_text(session, pattern="no [yz]", output_mode="count") == "result://r_1:2"
    output = await run_grep(session, BUILD, {"pattern": "no [yz]", "output_mode": "count"})
    assert (output.num_files, output.num_matches, output.filenames) == (1, 2, ["result://r_1"])


async def test_limit_and_offset_page_through(session: Session) -> None:
    whole = "".join(f"hit {number}\n" for number in range(10))
    given = {"pattern": "hit", "output_mode": "content", "head_limit": 2}
    assert await grep_text_in(session, whole, **given) == (
        "result://r_1:1:hit 0\nresult://r_1:2:hit 1\n(cut after 2; go on with offset 2, or search for less)"
    )
    assert (await grep_text_in(session, whole, **given, offset=8)) == "result://r_1:9:hit 8\nresult://r_1:10:hit 9"
    assert await grep_text_in(session, whole, **given, offset=10) == "No more matches"


async def test_no_match_is_no_error(session: Session) -> None:
    assert await grep_text(session, pattern="nothing") == "No matches found"
    assert await grep_text_in(session, "", pattern="x") == "No matches found"


async def test_a_match_may_reach_across_lines_and_pieces(session: Session) -> None:
    shown = await grep_text(session, pattern="unused.*no y", output_mode="content", multiline=True)
    assert [line.split(":")[2] for line in shown.split("\n")] == ["2", "3", "4"]


async def test_what_a_command_printed_is_text_whatever_stands_in_it(session: Session) -> None:
    assert (
        await grep_text_in(session, "a\0b\nhit\0 x\n", pattern="hit", output_mode="content") == "result://r_1:2:hit\0 x"
    )


async def test_long_lines_are_cut(session: Session) -> None:
    shown = await grep_text_in(session, "y" * 3000 + "\n", pattern="y", output_mode="content")
    assert len(shown) < 600


async def test_a_regex_error_is_told_word_for_word(session: Session) -> None:
    assert "unclosed group" in await grep_failure_message(session, pattern="a(b")


async def test_an_unknown_result_and_a_choice_of_files_are_errors(session: Session) -> None:
    assert await grep_failure_message(session, pattern="x", path="result://r_2") == "There is no result 'r_2'."
    assert await grep_failure_message(session, pattern="x", path="result://../../etc/passwd") == (
        "There is no result '../../etc/passwd'."
    )
    assert "a result is none" in await grep_failure_message(session, pattern="x", glob="*.py")
    assert "a result is none" in await grep_failure_message(session, pattern="x", type="py")


async def test_without_results_none_is_found(session: Session) -> None:
    failed = await session.expect_failure(GREP, pattern="x", path="result://r_1")
    assert failed.message == "There is no result 'r_1': no results are kept here."


async def test_a_result_needs_no_permission_and_is_no_place(session: Session) -> None:
    assert isinstance(await session.check(GREP, pattern="x", path="result://r_1"), Allow)
    given = GREP.parse({"pattern": "x", "path": "result://r_1"})
    assert await find_subject(GREP, given, session.view) == TextSubject("result://r_1")


async def test_the_tools_that_write_refuse_results() -> None:
    assert "persisted result" in (paths.check_path("result://r_1") or "")


async def test_a_pattern_that_explodes_elsewhere_is_harmless(session: Session) -> None:
    began = time.monotonic()
    assert await grep_text_in(session, "a" * 50_000, pattern="(a+)+$b") == "No matches found"
    assert time.monotonic() - began < 10


async def test_a_search_that_takes_too_long_is_stopped(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "TIME_LIMIT", 0.0)
    kept = StoredResults({"r_1": "x\n" * 2_000_000}, piece_chars=65_536)
    given = {"path": "result://r_1", "pattern": "nothing|x", "output_mode": "content", "offset": 1_000_000}
    ran = await call_with_results(session, GREP, kept, given)
    assert isinstance(ran, ToolResult)
    assert ran.output.timed_out
    assert ripgrep.STOPPED_NOTE in GREP.render(ran.output)[0]["text"]

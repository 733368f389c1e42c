"""Glob and Grep, clause by clause, where no other test says it; and files of every sort under them."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.tool import AnyTool
from tests.support.disks import plain_user
from tests.support.tool_calls import Session, until

pytestmark = pytest.mark.anyio
GLOB, GREP = Glob(), Grep()
VERSION_CONTROL = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"]


def put(session: Session, name: str, data: bytes | str = "hit\n") -> Path:
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def found(session: Session, pattern: str, path: str | None = None) -> list[str]:
    names: list[str] = (await session.done(GLOB, pattern=pattern, path=path)).output.filenames
    return sorted(names)


async def grep(session: Session, **given: Any) -> str:
    return await session.text(GREP, **{"pattern": "hit", **given})


# Places.


@pytest.mark.parametrize("folder", VERSION_CONTROL)
async def test_every_version_control_is_left_out_unless_it_is_named(session: Session, folder: str) -> None:
    put(session, f"{folder}/config.txt")
    put(session, "deep/a.txt")
    put(session, f"deep/{folder}/b.txt")
    assert await found(session, "**/*.txt") == ["deep/a.txt"]
    assert await found(session, f"{folder}/*.txt") == [f"{folder}/config.txt"]
    assert await found(session, f"**/{folder}/*.txt") == [f"{folder}/config.txt", f"deep/{folder}/b.txt"]
    for mode in ("files_with_matches", "count", "content"):
        assert folder not in await grep(session, output_mode=mode)
    assert await grep(session, path=folder) == f"{folder}/config.txt"


async def test_names_are_relative_to_the_sessions_folder_and_absolute_outside_of_it(session: Session) -> None:
    put(session, "src/a.txt")
    outside = session.folder.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("hit\n")
    assert await found(session, "*.txt", "src") == ["src/a.txt"]
    assert await grep(session, path="src") == "src/a.txt"
    assert await found(session, "*.txt", str(outside)) == [f"{outside}/b.txt"]
    assert await grep(session, path=str(outside), output_mode="content") == f"{outside}/b.txt:1:hit"


async def test_the_output_of_glob_says_how_many_and_how_long(session: Session) -> None:
    put(session, "a.txt")
    put(session, ".hidden/b.txt")
    output = (await session.done(GLOB, pattern="*.txt")).output
    assert (output.num_files, output.truncated, output.timed_out) == (2, False, False)
    assert output.duration_ms >= 0
    assert set(output.filenames) == {"a.txt", ".hidden/b.txt"}


async def test_what_is_ignored_is_found_by_its_own_name_in_every_kind_of_pattern(session: Session) -> None:
    put(session, ".gitignore", "build/\n*.log\n")
    put(session, "build/out.js")
    put(session, "debug.log")
    for pattern in ("**/*.js", "*.{js,log}", "[a-z]*.log"):
        assert await found(session, pattern) == []
    assert await found(session, "**/build/*.js") == ["build/out.js"]
    assert await found(session, "debug.log") == ["debug.log"]


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_a_missing_path_names_what_is_close_and_a_link_where_it_leads(session: Session, tool: AnyTool) -> None:
    put(session, "source/a.txt")
    failure = await session.failure(tool, pattern="a", path="sourc")
    assert f"The path {session.folder}/sourc does not exist. Close to it: {session.folder}/source." == failure.message
    link = session.folder / "link"
    link.symlink_to("nowhere")
    failure = await session.failure(tool, pattern="a", path="link")
    assert failure.message == f"{link} is a link to nowhere, which does not exist."


async def test_at_most_three_names_are_offered_the_closest_first(session: Session) -> None:
    for name in ("sources", "source", "source-code", "source2", "sources3", "other"):
        put(session, f"{name}/a.txt")
    failure = await session.failure(GREP, pattern="a", path="sourc")
    names = failure.message.partition("Close to it: ")[2].removesuffix(".").split(", ")
    assert len(names) == 3
    assert names[0] == f"{session.folder}/source"


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_no_name_is_offered_that_a_rule_hides_or_that_is_outside(session: Session, tool: AnyTool) -> None:
    put(session, "token1")
    put(session, "../outside/token1")
    session.inside(may_read=lambda path: "token1" not in path)
    assert "token1" not in (await session.failure(tool, pattern="a", path="token")).message
    session.inside(may_read=None)
    assert "token1" in (await session.failure(tool, pattern="a", path="token")).message
    assert "token1" not in (await session.failure(tool, pattern="a", path="../outside/token")).message


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_a_loop_of_links_is_said_to_lead_nowhere(session: Session, tool: AnyTool) -> None:
    loop = session.folder / "loop"
    loop.symlink_to("loop")
    assert (await session.failure(tool, pattern="a", path="loop")).message == (
        f"{loop} is a link to loop, which leads nowhere."
    )


# What Grep shows.


async def test_250_is_the_limit_of_every_mode_and_the_cut_is_said_last(session: Session) -> None:
    for number in range(260):
        put(session, f"{number:03}.txt")
    for mode in ("files_with_matches", "count", "content"):
        output = (await session.done(GREP, pattern="hit", output_mode=mode)).output
        lines = GREP.render(output)[0]["text"].split("\n")
        assert len(lines) == 251
        assert lines[-1] == "(cut after 250; go on with offset 250, or search for less)"
        assert (output.mode, output.num_files, output.applied_limit, output.applied_offset) == (mode, 250, 250, None)
        rest = (await session.done(GREP, pattern="hit", output_mode=mode, offset=250)).output
        assert (rest.num_files, rest.applied_limit, rest.applied_offset) == (10, None, 250)
        assert "(" not in GREP.render(rest)[0]["text"]


async def test_past_the_last_match_there_are_no_more(session: Session) -> None:
    put(session, "a.txt")
    assert await grep(session, offset=5) == "No more matches"


async def test_lines_around_a_match_are_shown_in_content_mode_only(session: Session) -> None:
    put(session, "a.txt", "1\n2\nhit\n4\n5\n")
    for mode, shown in (("files_with_matches", "a.txt"), ("count", "a.txt:1")):
        assert await grep(session, **{"output_mode": mode, "-C": 1, "-A": 2, "-B": 2, "context": 1}) == shown
    both = "a.txt-2-2\na.txt:3:hit\na.txt-4-4"
    assert await grep(session, output_mode="content", context=1) == both
    assert await grep(session, **{"output_mode": "content", "-C": 1, "context": 2}) == both
    assert await grep(session, **{"output_mode": "content", "-C": 1, "-A": 2}) == f"{both}\na.txt-5-5"


async def test_the_output_counts_lines_and_matches(session: Session) -> None:
    put(session, "a.txt", "hit\nno\nhit\n")
    put(session, "b.txt", "hit")
    output = (await session.done(GREP, **{"pattern": "hit", "output_mode": "content", "-A": 1})).output
    assert (output.num_lines, output.num_matches, output.num_files) == (5, 3, 2)
    assert output.filenames == ["a.txt", "b.txt"]
    assert output.content == "a.txt:1:hit\na.txt-2-no\na.txt:3:hit\n--\nb.txt:1:hit"


async def test_a_match_stays_in_its_line_and_in_its_case_unless_said_otherwise(session: Session) -> None:
    put(session, "a.txt", "one\nTwo\n")
    assert await grep(session, pattern="one.*Two") == "No matches found"
    assert await grep(session, pattern="two") == "No matches found"
    assert await grep(session, pattern="one.*Two", multiline=True) == "a.txt"
    assert await grep(session, **{"pattern": "two", "-i": True}) == "a.txt"


async def test_a_line_is_cut_after_500_columns(session: Session) -> None:
    put(session, "a.txt", "hit" + "x" * 496 + "\n" + "hit" + "y" * 500 + "\n")
    first, second = (await grep(session, output_mode="content")).split("\n")
    assert first == "a.txt:1:hit" + "x" * 496
    assert second == "a.txt:2:hit" + "y" * 497 + " [... omitted end of long line]"


@pytest.mark.parametrize("letter", ["ä", "漢", "🐎"])
async def test_columns_are_characters_in_every_script(session: Session, letter: str) -> None:
    put(session, "a.txt", f"hit{letter * 497}\nhit{letter * 498}\nhit{letter * 3000}\n")
    first, second, third = (await grep(session, output_mode="content")).split("\n")
    assert first == f"a.txt:1:hit{letter * 497}"
    assert second == f"a.txt:2:hit{letter * 497} [... omitted end of long line]"
    assert third == f"a.txt:3:hit{letter * 497} [... omitted end of long line]"


# Files of every sort.


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
async def test_encodings_with_a_mark_are_searched_as_what_they_are(session: Session, codec: str) -> None:
    put(session, "a.txt", "grün hit\r\nnein".encode(codec))
    assert await grep(session, output_mode="content") == "a.txt:1:grün hit"


async def test_old_encodings_are_searched_and_shown_as_well_as_can_be(session: Session) -> None:
    put(session, "a.txt", b"gr\xfcn hit\n")
    assert await grep(session, output_mode="content") == "a.txt:1:gr\ufffdn hit"


async def test_a_file_without_a_line_end_and_one_of_carriage_returns_are_searched(session: Session) -> None:
    put(session, "a.txt", "no\nhit")
    put(session, "b.txt", "hit\rhit\r")
    assert await grep(session, output_mode="content") == "a.txt:2:hit\nb.txt:1:hit\rhit"


async def test_the_end_of_a_line_stands_before_its_carriage_return(session: Session) -> None:
    put(session, "a.txt", "one hit\r\ntwo hits\r\n")
    put(session, "b.txt", "hit\n")
    assert await grep(session, pattern="hit$", output_mode="content") == "a.txt:1:one hit\nb.txt:1:hit"
    assert await grep(session, pattern="^one hit$.*hits$", multiline=True) == "a.txt"
    # Who looks for the carriage return itself finds it.
    for pattern in ("hit\\r$", "hit\r", r"hit\x0d$"):
        assert await grep(session, pattern=pattern) == "a.txt"


@pytest.mark.parametrize("glob", ["*.py,*.ts", "*.py, *.ts", "*.py *.ts", "sub/*.py,*.ts,*.py"])
async def test_several_patterns_of_names_stand_beside_each_other(session: Session, glob: str) -> None:
    for name in ("sub/a.py", "b.ts", "c.js", ".gitignore", "ignored.py"):
        put(session, name, "ignored.py\n" if name == ".gitignore" else "hit\n")
    assert await grep(session, glob=glob, output_mode="content") == "b.ts:1:hit\nsub/a.py:1:hit"
    assert await grep(session, glob="!*.py,!*.ts,!.*", output_mode="content") == "c.js:1:hit"
    put(session, "one, two.ts")
    assert await grep(session, glob="one, two.ts") == "one, two.ts"
    assert (await session.failure(GREP, pattern="hit", glob="*.py,[z-a]")).message == "[z-a] is no set of characters."


async def test_a_binary_file_that_matches_is_said_to(session: Session) -> None:
    put(session, "late.bin", b"hit 1\n" + b"x\n" * 100_000 + b"\0\nhit 2\n")
    put(session, "named.bin", b"\0\1hit\n")
    put(session, "text.txt", "hit\n")
    no_more = "a binary file, of which no more is shown"
    shown = await grep(session, output_mode="content")
    assert shown == f"late.bin:1:hit 1\nlate.bin: {no_more}\ntext.txt:1:hit"
    assert await grep(session, output_mode="content", path="named.bin") == f"named.bin: {no_more}"
    assert await grep(session, output_mode="content", path="named.bin", pattern="none") == "No matches found"


async def test_one_line_of_fifty_megabytes_is_searched_and_shown_in_part(session: Session) -> None:
    put(session, "a.txt", b"x" * 25_000_000 + b"hit" + b"x" * 25_000_000)
    assert await grep(session) == "a.txt"
    assert len(await grep(session, output_mode="content")) < 700


async def test_a_pattern_that_explodes_takes_time_but_not_the_memory(session: Session) -> None:
    put(session, "a.txt", "x" * 5_000_000)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(grep, session, pattern="(?:x{1,500}){1,50}y"))
        await until(lambda: any(each.cpu_times().user > 2.5 for each in searches()))
        # 64 MB for each of its threads, and what it needs for itself; without a bound it was a gigabyte with two.
        most = 150_000_000 + (os.cpu_count() or 1) * 80_000_000
        assert max(each.memory_info().rss for each in searches()) < most
        group.cancel_scope.cancel()
    await until(lambda: not searches())


def searches() -> list[psutil.Process]:
    """What runs of ripgrep, as children of this process."""
    running = psutil.process_iter(["name", "ppid"])
    return [each for each in running if (each.info["name"], each.info["ppid"]) == ("rg", os.getpid())]


async def test_a_sparse_file_of_two_gigabytes_is_searched_in_bounds(session: Session) -> None:
    path = put(session, "sparse", "hit\n")
    os.truncate(path, 2 * 1024**3)
    put(session, "a.txt")
    assert await grep(session, path="a.txt") == "a.txt"
    assert "a.txt" in await grep(session)
    assert await found(session, "sp*") == ["sparse"]


async def test_a_name_with_line_ends_is_one_name_and_speaks_for_no_other(session: Session) -> None:
    """What stands after its line end looks like the whole path of a file that may be read."""
    put(session, f"hidden\n{session.folder}/open.txt", "hit\n")
    put(session, "open.txt", "no\n")
    session.inside(may_read=lambda path: "hidden" not in path)
    for mode in ("files_with_matches", "count", "content"):
        assert await grep(session, output_mode=mode) == "No matches found"
    session.inside(may_read=None)
    output = (await session.done(GREP, pattern="hit", output_mode="content")).output
    assert output.filenames == [f"hidden\n{session.folder}/open.txt"]


async def test_a_file_that_may_not_be_read_is_passed_over(session: Session) -> None:
    put(session, "a.txt")
    (session.folder / "gone").symlink_to("nowhere")
    os.mkfifo(session.folder / "pipe")
    assert await grep(session) == "a.txt"
    assert await found(session, "*") == ["a.txt"]


async def test_a_place_that_may_not_be_looked_into_is_no_place_without_a_match(tmp_path: Path) -> None:
    # Here already: what the first input loads may lie where a plain user cannot look.
    GREP.parse({"pattern": "x"})
    GLOB.parse({"pattern": "x"})
    with plain_user() as folder:
        session = Session(folder, tmp_path / "outputs")
        shut, file = put(session, "shut/a.txt").parent, put(session, "file.txt")
        file.chmod(0)
        for mode in (0, 0o400):
            shut.chmod(mode)
            for tool, given in (
                (GREP, {"pattern": "hit", "path": "shut"}),
                (GLOB, {"pattern": "*", "path": "shut"}),
                (GLOB, {"pattern": "shut/*"}),
            ):
                failure = await session.failure(tool, **given)
                assert failure.message == f"{shut} cannot be searched: Permission denied."
        failure = await session.failure(GREP, pattern="hit", path="shut/a.txt")
        assert failure.message == f"{shut}/a.txt cannot be searched: Permission denied."
        failure = await session.failure(GREP, pattern="hit", path="file.txt")
        assert failure.message == f"{file} cannot be searched: Permission denied."
        shut.chmod(0o700)


@pytest.mark.parametrize("given", [{"pattern": "x" * 10_000_000}, {"pattern": "x", "path": "y" * 10_000_000}])
@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_ten_megabytes_of_input_are_refused_in_a_few_words(
    session: Session, tool: AnyTool, given: dict[str, str]
) -> None:
    failure = await session.failure(tool, **given)
    assert "too long" in failure.message
    assert len(failure.message) < 200


async def test_an_empty_pattern_of_names_is_refused(session: Session) -> None:
    assert (await session.failure(GLOB, pattern="")).message == "The pattern is empty: `**` finds every file."


# Patterns that end with a line: ripgrep ends its own lines another way then.


@pytest.mark.parametrize("pattern", ["hit$", "hit"])
async def test_files_that_rules_hide_do_not_appear_whatever_the_pattern_is(session: Session, pattern: str) -> None:
    for name in ("a.txt", "secret/k.txt", "z.txt"):
        put(session, name, "x\nhit\nx\nx\nx\nhit\nx\n")
    session.inside(may_read=lambda path: not path.startswith(str(session.folder / "secret")))
    shown = await grep(session, pattern=pattern, output_mode="content", **{"-C": 1})
    groups = ["{0}-1-x\n{0}:2:hit\n{0}-3-x", "{0}-5-x\n{0}:6:hit\n{0}-7-x"]
    assert shown == "\n--\n".join(group.format(name) for name in ("a.txt", "z.txt") for group in groups)
    output = (await session.done(GREP, pattern=pattern, output_mode="content", **{"-C": 1})).output
    assert output.filenames == ["a.txt", "z.txt"]
    for mode in ("files_with_matches", "count"):
        assert "secret" not in await grep(session, pattern=pattern, output_mode=mode)


async def test_hidden_matches_leave_no_trace_between_groups(session: Session) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        put(session, name, "hit\nx\n")
    session.inside(may_read=lambda path: path.endswith("a.txt") or os.path.isdir(path))
    assert await grep(session, output_mode="content", **{"-A": 1}) == "a.txt:1:hit\na.txt-2-x"


@pytest.mark.parametrize("pattern", ["hit$", "hit"])
async def test_groups_are_kept_apart_from_an_offset_on(session: Session, pattern: str) -> None:
    put(session, "a.txt", "hit\nx\ny\ny\nhit\nx\ny\n")
    given: dict[str, Any] = {"pattern": pattern, "output_mode": "content", "-A": 1}
    assert await grep(session, **given) == "a.txt:1:hit\na.txt-2-x\n--\na.txt:5:hit\na.txt-6-x"
    assert await grep(session, **given, offset=1) == "a.txt-2-x\n--\na.txt:5:hit\na.txt-6-x"
    assert await grep(session, **given, offset=2) == "a.txt:5:hit\na.txt-6-x"
    cut = await grep(session, **given, head_limit=3)
    assert cut.splitlines()[:4] == ["a.txt:1:hit", "a.txt-2-x", "--", "a.txt:5:hit"]
    assert "cut after 3; go on with offset 3" in cut


async def test_counts_are_numbers_whatever_the_pattern_is(session: Session) -> None:
    put(session, "a.txt", "hit\r\nhit\n")
    put(session, "b.txt", "hit\n")
    assert await grep(session, pattern="hit$", output_mode="count") == "a.txt:2\nb.txt:1"


async def test_a_binary_file_is_told_of_whatever_the_pattern_is(session: Session) -> None:
    path = put(session, "b.bin", b"hit\n" + b"\0" * 100 + b"\nhit\n")
    for pattern in ("hit", "hit$"):
        shown = await grep(session, pattern=pattern, path=str(path), output_mode="content")
        assert "b.bin: a binary file, of which no more is shown" in shown


async def test_what_has_no_end_is_not_searched(session: Session) -> None:
    os.mkfifo(session.folder / "pipe")
    for tool, given in ((GREP, {"pattern": "x", "path": "pipe"}), (GLOB, {"pattern": "*", "path": "pipe"})):
        assert "a device, a pipe or a socket" in (await session.failure(tool, **given)).message
    assert "a device, a pipe or a socket" in (await session.failure(GREP, pattern="x", path="/dev/zero")).message


async def test_a_number_that_is_too_large_is_told_its_bounds(session: Session) -> None:
    words = (await session.failure(GREP, pattern="x", **{"-A": 10**12})).message
    assert words == "-A is 1000000000000, but must be from 0 to 2147483647."

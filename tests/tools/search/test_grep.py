"""Grep: real ripgrep, within limits."""

import contextlib
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from ostler.tools.search import ripgrep
from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.tool import Allow, AnyTool, AskFirst, Failure, Refuse
from tests.support.tool_calls import Session, poll_until
from tests.tools.search.search_files import glob_sorted, grep, put_file

pytestmark = pytest.mark.anyio
GREP = Grep()


def fill_folder(session: Session, files: dict[str, str]) -> None:
    """Writes files, each newer than the one before."""
    for age, (name, content) in enumerate(files.items(), 1):
        path = session.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, (age * 1000, age * 1000))


async def grep_text(session: Session, **given: Any) -> str:
    return await session.expect_text(GREP, **given)


async def test_files_are_listed_the_newest_first(session: Session) -> None:
    fill_folder(session, {"a.py": "hit", "b.py": "miss", "src/c.py": "hit"})
    assert await grep_text(session, pattern="hit") == "src/c.py\na.py"


async def test_content_shows_path_line_and_text(session: Session) -> None:
    fill_folder(session, {"a.py": "one\nhit 1\nthree\n", "b.py": "hit 2\n"})
    assert await grep_text(session, pattern="hit", output_mode="content") == "a.py:2:hit 1\nb.py:1:hit 2"
    given = {"pattern": "hit", "output_mode": "content", "-n": False}
    assert await grep_text(session, **given) == "a.py:hit 1\nb.py:hit 2"


async def test_context_lines_stand_around_the_match(session: Session) -> None:
    fill_folder(session, {"a.py": "1\n2\nhit\n4\n5\n6\n7\n8\nhit\n"})
    shown = await grep_text(session, **{"pattern": "hit", "output_mode": "content", "-C": 1})
    assert shown == "a.py-2-2\na.py:3:hit\na.py-4-4\n--\na.py-8-8\na.py:9:hit"
    shown = await grep_text(session, **{"pattern": "hit", "output_mode": "content", "-B": 1, "-A": 0})
    assert shown == "a.py-2-2\na.py:3:hit\n--\na.py-8-8\na.py:9:hit"


async def test_counts_are_told_by_file(session: Session) -> None:
    fill_folder(session, {"a.py": "hit\nhit\n", "b.py": "hit\n", "c.py": ""})
    output = (await session.expect_result(GREP, pattern="hit", output_mode="count")).output
    assert output.content == "a.py:2\nb.py:1"
    assert (output.num_matches, output.num_files) == (3, 2)


async def test_no_match_is_no_error_and_does_not_repeat_the_pattern(session: Session) -> None:
    assert await grep_text(session, pattern="nothing") == "No matches found"


async def test_a_regex_error_is_told_word_for_word(session: Session) -> None:
    failure = await session.expect_failure(GREP, pattern="a(b")
    assert "regex parse error" in failure.message
    assert "unclosed group" in failure.message
    assert "unrecognized file type" in (await session.expect_failure(GREP, pattern="a", type="klingon")).message


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(session: Session) -> None:
    fill_folder(session, {"a.txt": "--pre=bash\n", "--files": "-v\n"})
    assert await grep_text(session, pattern="--pre=bash") == "a.txt"
    assert await grep_text(session, pattern="-v", path="--files") == "--files"


async def test_limit_and_offset_page_through(session: Session) -> None:
    fill_folder(session, {"a.txt": "".join(f"hit {number}\n" for number in range(10))})
    output = (await session.expect_result(GREP, pattern="hit", output_mode="content", head_limit=3)).output
    assert output.content == "a.txt:1:hit 0\na.txt:2:hit 1\na.txt:3:hit 2"
    assert output.applied_limit == 3
    shown = await grep_text(session, pattern="hit", output_mode="content", head_limit=3, offset=6)
    assert shown.startswith("a.txt:7:hit 6\n")
    assert "offset 9" in shown
    output = (await session.expect_result(GREP, pattern="hit", output_mode="content", head_limit=3, offset=7)).output
    assert output.applied_limit is None
    assert (
        await session.expect_result(GREP, pattern="hit", output_mode="content", head_limit=0)
    ).output.num_lines == 10


async def test_an_offset_counts_the_lines_of_all_files_that_are_wanted(session: Session) -> None:
    lines = "".join(f"hit {number}\n" for number in range(10_000))
    fill_folder(session, {"a.txt": lines, "b.py": lines, "c.txt": lines, "d\ne.txt": lines})
    common = {"pattern": "hit", "output_mode": "content", "glob": "*.txt", "head_limit": 2}
    for offset, shown in {
        9_998: "a.txt:9999:hit 9998\na.txt:10000:hit 9999\n",
        9_999: "a.txt:10000:hit 9999\nc.txt:1:hit 0\n",
        19_999: "c.txt:10000:hit 9999\nd\ne.txt:1:hit 0\n",
    }.items():
        assert (await grep_text(session, **common, offset=offset)).startswith(shown)
    assert await grep_text(session, **common, offset=30_000) == "No more matches"
    common = {"pattern": "hit 99[25]5", "output_mode": "content", "glob": "a.txt", "-C": 1}
    assert await grep_text(session, **common, offset=4) == "a.txt:9956:hit 9955\na.txt-9957-hit 9956"


async def test_a_dense_match_is_stopped_at_the_limit(session: Session) -> None:
    fill_folder(session, {"big.txt": "hit\n" * 5_000_000})
    started = time.monotonic()
    output = (await session.expect_result(GREP, pattern="hit", output_mode="content")).output
    assert output.num_lines == 250
    assert time.monotonic() - started < 2


async def test_case_multiline_type_and_glob(session: Session) -> None:
    fill_folder(session, {"a.py": "Hit\nme\n", "b.js": "hit\n", "src/deep/c.js": "hit\n", "src/d.ts": "hit\n"})
    assert await grep_text(session, **{"pattern": "HIT", "-i": True, "type": "py"}) == "a.py"
    assert await grep_text(session, pattern="Hit.*me", multiline=True) == "a.py"
    assert await grep_text(session, pattern="hit", glob="*.js") == "src/deep/c.js\nb.js"
    assert await grep_text(session, pattern="hit", glob="src/**/*.{js,ts}") == "src/d.ts\nsrc/deep/c.js"
    assert await grep_text(session, pattern="hit", glob="src/*.*") == "src/d.ts"
    assert await grep_text(session, pattern="hit", glob="!*.js") == "src/d.ts"
    assert await grep_text(session, pattern="hit", glob="*.js", type="js", path="src") == "src/deep/c.js"


async def test_ignored_files_and_version_control_are_left_out_also_with_a_glob(session: Session) -> None:
    fill_folder(
        session, {"dist/a.js": "hit", "app.js": "hit", "debug.js": "hit", ".git/x.js": "hit", ".hidden/b.js": "hit"}
    )
    (session.folder / ".gitignore").write_text("dist/\ndebug.js\n")
    assert await grep_text(session, pattern="hit") == ".hidden/b.js\napp.js"
    assert await grep_text(session, pattern="hit", glob="*.js") == ".hidden/b.js\napp.js"
    assert await grep_text(session, pattern="hit", glob="**/*") == ".hidden/b.js\napp.js"


async def test_long_lines_are_cut(session: Session) -> None:
    fill_folder(session, {"a.min.js": "x" * 100_000 + "hit\n"})
    shown = await grep_text(session, pattern="hit|x", output_mode="content")
    assert len(shown) < 700


async def test_a_users_ripgrep_settings_change_nothing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "ripgreprc"
    settings.write_text("--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    fill_folder(session, {"a.txt": "hit\n"})
    assert await grep_text(session, pattern="hit") == "a.txt"


async def test_links_are_not_followed_and_outside_is_asked_for(session: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("hit")
    (session.folder / "link").symlink_to(outside)
    assert await grep_text(session, pattern="hit") == "No matches found"
    assert isinstance(await session.check(GREP, pattern="hit", path="link"), AskFirst)
    assert isinstance(await session.check(GREP, pattern="hit", path="/etc"), AskFirst)
    assert isinstance(await session.check(GREP, pattern="hit"), Allow)


async def test_the_daemons_own_folder_is_left_out(session: Session) -> None:
    fill_folder(session, {"home/token": "hit", "a": "hit"})
    session.change_view(home=str(session.folder / "home"))
    assert await grep_text(session, pattern="hit") == "a"
    assert isinstance(await session.check(GREP, pattern="hit", path="home"), Refuse)


async def test_a_link_that_turns_after_the_permission_is_not_followed(session: Session, tmp_path: Path) -> None:
    link = session.folder / "link"
    tools: list[tuple[AnyTool, dict[str, str]]] = [
        (GREP, {"pattern": "a", "path": "link"}),
        (Glob(), {"pattern": "*", "path": "link"}),
    ]
    for tool, given in tools:
        link.symlink_to(session.folder)
        context, parsed = session.make_context(), tool.parse(given)
        assert isinstance(await tool.check_permission(parsed, context), Allow)
        link.unlink()
        link.symlink_to(tmp_path)
        assert isinstance(await tool.run(parsed, context), Failure)
        link.unlink()


async def test_one_file_can_be_searched(session: Session) -> None:
    fill_folder(session, {"src/a.py": "hit\n"})
    assert await grep_text(session, pattern="hit", path="src/a.py", output_mode="content") == "src/a.py:1:hit"


async def test_a_session_in_a_worktree_of_ours_searches_it(session: Session) -> None:
    fill_folder(session, {".ostler/worktrees/x/a.py": "hit\n", "b.py": "hit\n"})
    assert await grep_text(session, pattern="hit") == "b.py"
    tree = str(session.folder / ".ostler/worktrees/x")
    session.change_view(folder=tree, shell_folder=tree, roots=(tree,))
    assert await grep_text(session, pattern="hit") == "a.py"


async def test_a_search_without_a_path_begins_where_the_session_is(session: Session) -> None:
    fill_folder(session, {"src/deep/a.py": "hit\n", "b.py": "hit\n"})
    session.change_view(shell_folder=str(session.folder / "src"))
    assert await grep_text(session, pattern="hit") == "deep/a.py"
    assert await grep_text(session, pattern="hit", path="deep") == "deep/a.py"
    assert (await session.expect_result(Glob(), pattern="*.py")).output.filenames == ["deep/a.py"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pattern": "a", "path": "nowhere"}, "does not exist"),
        ({"pattern": "a\0"}, "NUL"),
        ({"pattern": "a", "-A": -1}, "-A"),
        ({"pattern": "a", "head_limit": -1}, "head_limit"),
        ({"pattern": "a", "offset": 1_000_001}, "offset is 1000001, but must be at most 1000000"),
        ({"pattern": "a" * 5_000_000}, "too long"),
    ],
)
async def test_bad_input_is_a_clear_failure(session: Session, given: dict[str, Any], words: str) -> None:
    failure = await session.call(GREP, given)
    assert isinstance(failure, Failure)
    assert words in failure.message


def test_the_schema_has_the_names_that_models_know(session: Session) -> None:
    names = GREP.input_schema(session.view)["properties"]
    assert set(names) == {
        "pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "context", "-n", "-i", "head_limit",
        "offset", "multiline",
    }  # fmt: skip


GLOB = Glob()


def list_ripgrep_processes() -> list[psutil.Process]:
    """The ripgrep processes that are children of this process."""
    # Not with psutil, which looks at all processes of the machine: this is asked again and again.
    # A thread, or a child, may end meanwhile.
    pids: list[str] = []
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids += children.read_text().split()
    found: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(pid))
            found += [process] if process.name() == "rg" else []
    return found


async def test_a_match_stays_in_its_line_and_in_its_case_unless_said_otherwise(session: Session) -> None:
    put_file(session, "a.txt", "one\nTwo\n")
    assert await grep(session, pattern="one.*Two") == "No matches found"
    assert await grep(session, pattern="two") == "No matches found"
    assert await grep(session, pattern="one.*Two", multiline=True) == "a.txt"
    assert await grep(session, **{"pattern": "two", "-i": True}) == "a.txt"


# Files of every sort.


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
async def test_encodings_with_a_mark_are_searched_as_what_they_are(session: Session, codec: str) -> None:
    put_file(session, "a.txt", "grün hit\r\nnein".encode(codec))
    assert await grep(session, output_mode="content") == "a.txt:1:grün hit"


async def test_old_encodings_are_searched_and_shown_as_well_as_can_be(session: Session) -> None:
    put_file(session, "a.txt", b"gr\xfcn hit\n")
    assert await grep(session, output_mode="content") == "a.txt:1:gr\ufffdn hit"


async def test_a_file_without_a_line_end_and_one_of_carriage_returns_are_searched(session: Session) -> None:
    put_file(session, "a.txt", "no\nhit")
    put_file(session, "b.txt", "hit\rhit\r")
    assert await grep(session, output_mode="content") == "a.txt:2:hit\nb.txt:1:hit\rhit"


async def test_the_end_of_a_line_stands_before_its_carriage_return(session: Session) -> None:
    put_file(session, "a.txt", "one hit\r\ntwo hits\r\n")
    put_file(session, "b.txt", "hit\n")
    assert await grep(session, pattern="hit$", output_mode="content") == "a.txt:1:one hit\nb.txt:1:hit"
    assert await grep(session, pattern="^one hit$.*hits$", multiline=True) == "a.txt"
    # Who looks for the carriage return itself finds it.
    for pattern in ("hit\\r$", "hit\r", r"hit\x0d$"):
        assert await grep(session, pattern=pattern) == "a.txt"


@pytest.mark.parametrize("glob", ["*.py,*.ts", "*.py, *.ts", "*.py *.ts", "sub/*.py,*.ts,*.py"])
async def test_several_patterns_of_names_stand_beside_each_other(session: Session, glob: str) -> None:
    for name in ("sub/a.py", "b.ts", "c.js", ".gitignore", "ignored.py"):
        put_file(session, name, "ignored.py\n" if name == ".gitignore" else "hit\n")
    assert await grep(session, glob=glob, output_mode="content") == "b.ts:1:hit\nsub/a.py:1:hit"
    assert await grep(session, glob="!*.py,!*.ts,!.*", output_mode="content") == "c.js:1:hit"
    put_file(session, "one, two.ts")
    assert await grep(session, glob="one, two.ts") == "one, two.ts"
    assert (
        await session.expect_failure(GREP, pattern="hit", glob="*.py,[z-a]")
    ).message == "[z-a] is no set of characters."


async def test_a_binary_file_that_matches_is_said_to(session: Session) -> None:
    put_file(session, "late.bin", b"hit 1\n" + b"x\n" * 100_000 + b"\0\nhit 2\n")
    put_file(session, "named.bin", b"\0\1hit\n")
    put_file(session, "text.txt", "hit\n")
    no_more = "a binary file, of which no more is shown"
    shown = await grep(session, output_mode="content")
    assert shown == f"late.bin:1:hit 1\nlate.bin: {no_more}\ntext.txt:1:hit"
    assert await grep(session, output_mode="content", path="named.bin") == f"named.bin: {no_more}"
    assert await grep(session, output_mode="content", path="named.bin", pattern="none") == "No matches found"


async def test_one_line_of_fifty_megabytes_is_searched_and_shown_in_part(session: Session) -> None:
    put_file(session, "a.txt", b"x" * 25_000_000 + b"hit" + b"x" * 25_000_000)
    assert await grep(session) == "a.txt"
    assert len(await grep(session, output_mode="content")) < 700


async def test_a_pattern_that_explodes_takes_time_but_not_the_memory(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An eighth of the bound: without one, the memory would be much more than that within a second.
    assert "--dfa-size-limit=64M" in ripgrep._BASE_OPTIONS
    bounded = tuple(option.replace("=64M", "=8M") for option in ripgrep._BASE_OPTIONS)
    monkeypatch.setattr(ripgrep, "_BASE_OPTIONS", bounded)
    put_file(session, "a.txt", "x" * 5_000_000)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(grep, session, pattern="(?:x{1,500}){1,50}y"))
        await poll_until(lambda: any(each.cpu_times().user > 0.8 for each in list_ripgrep_processes()))
        # 8 MB for the thread that has the file, and what it needs for itself; without a bound it is 130 MB by now.
        assert max(each.memory_info().rss for each in list_ripgrep_processes()) < 75_000_000
        group.cancel_scope.cancel()
    await poll_until(lambda: not list_ripgrep_processes())


async def test_a_sparse_file_of_two_gigabytes_is_searched_in_bounds(session: Session) -> None:
    path = put_file(session, "sparse", "hit\n")
    os.truncate(path, 2 * 1024**3)
    put_file(session, "a.txt")
    assert await grep(session, path="a.txt") == "a.txt"
    assert "a.txt" in await grep(session)
    assert await glob_sorted(session, "sp*") == ["sparse"]


async def test_a_file_that_may_not_be_read_is_passed_over(session: Session) -> None:
    put_file(session, "a.txt")
    (session.folder / "gone").symlink_to("nowhere")
    os.mkfifo(session.folder / "pipe")
    assert await grep(session) == "a.txt"
    assert await glob_sorted(session, "*") == ["a.txt"]

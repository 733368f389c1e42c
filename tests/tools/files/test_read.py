"""Read: what is shown, what is refused, what is remembered."""

import os
import socket
from pathlib import Path

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.fs.text_file import hash_bytes
from ostler.tools.tool import Allow, AskFirst, Failure, Refuse
from tests.support.tool_calls import Session, put_file, read_file

pytestmark = pytest.mark.anyio
READ = Read()


def write_file(session: Session, name: str, content: str | bytes) -> str:
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


async def test_lines_are_numbered_like_cat(session: Session) -> None:
    path = write_file(session, "a.txt", "one\n\n\tthree")
    assert await session.expect_text(READ, file_path=path) == "     1\tone\n     2\t\n     3\t\tthree"


async def test_a_part_is_shown_with_the_way_on(session: Session) -> None:
    path = write_file(session, "a.txt", "".join(f"line {number}\n" for number in range(1, 101)))
    shown = await session.expect_text(READ, file_path=path, offset=10, limit=2)
    assert shown == "    10\tline 10\n    11\tline 11\n(89 more lines; go on with offset 12)"


async def test_two_thousand_lines_are_shown_by_default(session: Session) -> None:
    path = write_file(session, "a.txt", "x\n" * 5000)
    output = (await session.expect_result(READ, file_path=path)).output
    assert (output.num_lines, output.start_line, output.total_lines) == (2000, 1, 5000)


async def test_a_long_line_is_cut_and_marked(session: Session) -> None:
    path = write_file(session, "a.txt", "é" * 300_000 + "\nnext\n")
    lines = (await session.expect_result(READ, file_path=path)).output.content.split("\n")
    assert lines[0].startswith("é" * 2000 + "…")
    assert "cut after 2000" in lines[0]
    assert lines[1] == "next"


async def test_a_window_far_into_a_large_file_is_right(session: Session) -> None:
    path = write_file(session, "a.txt", "".join(f"{number:0100}\n" for number in range(1, 50_001)))
    output = (await session.expect_result(READ, file_path=path, offset=49_999, limit=10)).output
    assert [int(line) for line in output.content.split("\n")] == [49_999, 50_000]
    assert output.total_lines == 50_000


async def test_an_empty_file_and_an_offset_past_the_end_get_a_warning(session: Session) -> None:
    assert "empty" in await session.expect_text(READ, file_path=write_file(session, "empty", ""))
    shown = await session.expect_text(READ, file_path=write_file(session, "short", "a\nb\n"), offset=3)
    assert "only 2 lines" in shown


async def test_what_is_no_file_is_refused(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(session.folder)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("door")
        for path, words in {
            str(session.folder): "folder",
            str(session.folder / "pipe"): "FIFO",
            str(session.folder / "door"): "socket",
            "/dev/zero": "device",
            "/dev/stdin": "stream",
            "/proc/self/fd/0": "stream",
        }.items():
            assert words in (await session.expect_failure(READ, file_path=path)).message


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "~/a.txt", "", "a\0b", "/a\0b"])
async def test_a_path_that_is_not_absolute_is_refused(session: Session, path: str) -> None:
    assert (await session.expect_failure(READ, file_path=path)).code == 8


async def test_a_missing_file_names_what_is_close(session: Session) -> None:
    write_file(session, "settings.py", "")
    failure = await session.expect_failure(READ, file_path=str(session.folder / "setting.py"))
    assert failure.code == 1
    assert str(session.folder / "settings.py") in failure.message
    failure = await session.expect_failure(READ, file_path=str(session.folder / "no" / "such" / "file"))
    assert str(session.folder) + "." in failure.message


async def test_a_loop_of_links_and_a_name_too_long_are_failures(session: Session) -> None:
    (session.folder / "loop").symlink_to("loop")
    assert "cannot be read" in (await session.expect_failure(READ, file_path=str(session.folder / "loop"))).message
    assert "cannot be read" in (await session.expect_failure(READ, file_path="/" + "x" * 5000)).message


async def test_more_than_the_tokens_allow_is_an_error_that_says_how_to_go_on(session: Session) -> None:
    path = write_file(session, "a.txt", ("x" * 1000 + "\n") * 2000)
    failure = await session.expect_failure(READ, file_path=path)
    assert "25000 tokens" in failure.message
    assert "offset" in failure.message
    assert (await session.expect_result(READ, file_path=path, limit=50)).output.num_lines == 50


async def test_reads_are_remembered_under_the_real_path_and_merged(session: Session) -> None:
    path = write_file(session, "a.txt", "x\n" * 100)
    (session.folder / "link").symlink_to(path)
    await session.expect_result(READ, file_path=path, offset=1, limit=10)
    await session.expect_result(READ, file_path=str(session.folder / "link"), offset=11, limit=10)
    await session.expect_result(READ, file_path=path, offset=50, limit=1)
    read = session.reads.by_path[path]
    assert read.ranges == ((1, 20), (50, 50))
    assert read.partial
    await session.expect_result(READ, file_path=path)
    assert not session.reads.by_path[path].partial


async def test_the_same_lines_of_an_unchanged_file_are_not_shown_again(session: Session) -> None:
    path = write_file(session, "a.txt", "a\nb\nc\n")
    await session.expect_result(READ, file_path=path, limit=2)
    assert (await session.expect_result(READ, file_path=path, limit=1)).output.kind == "file_unchanged"
    assert (await session.expect_result(READ, file_path=path)).output.kind == "text"
    write_file(session, "a.txt", "a\nb\nd\n")
    os.utime(path, ns=(1, 1))
    assert (await session.expect_result(READ, file_path=path)).output.content == "a\nb\nd"


async def test_a_changed_file_is_seen_anew(session: Session) -> None:
    path = write_file(session, "a.txt", "x\n" * 10)
    await session.expect_result(READ, file_path=path, limit=5)
    write_file(session, "a.txt", "y\n" * 10)
    os.utime(path, ns=(1, 1))
    await session.expect_result(READ, file_path=path, offset=6)
    assert session.reads.by_path[path].ranges == ((6, 10),)


async def test_reading_is_allowed_inside_the_roots_and_asked_for_outside(session: Session, tmp_path: Path) -> None:
    inside = write_file(session, "a.txt", "a")
    outside = tmp_path / "project-two"
    outside.mkdir()
    (outside / "a.txt").write_text("a")
    (session.folder / "way-out").symlink_to(outside)
    assert isinstance(await session.check(READ, file_path=inside), Allow)
    for path in (outside / "a.txt", session.folder / "way-out" / "a.txt", session.folder / ".." / "project-two/a.txt"):
        check = await session.check(READ, file_path=str(path))
        assert isinstance(check, AskFirst)
        assert not check.safety


async def test_a_link_that_turns_after_the_permission_is_not_followed(session: Session, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    link = session.folder / "link"
    link.symlink_to(write_file(session, "a.txt", "a"))
    context, given = session.make_context(), READ.parse({"file_path": str(link)})
    assert isinstance(await READ.check_permission(given, context), Allow)
    link.unlink()
    link.symlink_to(tmp_path / "secret")
    result = await READ.run(given, context)
    assert isinstance(result, Failure)
    assert session.reads.by_path == {}


async def test_the_daemons_own_folder_is_refused_even_inside_the_roots(session: Session) -> None:
    path = write_file(session, "home/token", "secret")
    session.change_view(home=str(session.folder / "home"))
    assert isinstance(await session.check(READ, file_path=path), Refuse)


async def test_the_summary_names_file_and_lines() -> None:
    assert READ.summary(READ.parse({"file_path": "/a"})) == "Read /a"
    assert READ.summary(READ.parse({"file_path": "/a", "offset": 5, "limit": 10})) == "Read /a (lines 5-14)"


WRITE = Write()


EDIT = Edit()


NOTEBOOK = NotebookEdit()


# Read.


async def test_a_file_that_was_only_touched_is_shown_again(session: Session) -> None:
    path = await read_file(session, "a.txt", "a\n")
    assert (await session.expect_result(READ, file_path=path)).output.kind == "file_unchanged"
    os.utime(path, ns=(1, 1))
    assert (await session.expect_result(READ, file_path=path)).output.kind == "text"


async def test_what_is_remembered_of_a_read_is_time_size_digest_and_lines(session: Session) -> None:
    path = put_file(session, "a.txt", "a\nb\nc\n")
    await session.expect_result(READ, file_path=path, offset=2, limit=1)
    read, status = session.reads.by_path[path], os.stat(path)
    assert (read.mtime_ns, read.size) == (status.st_mtime_ns, 6)
    assert read.digest == hash_bytes(b"a\nb\nc\n")
    assert (read.ranges, read.total_lines, read.partial) == (((2, 2),), 3, True)


async def test_an_empty_or_past_read_shows_nothing_and_says_why(session: Session) -> None:
    empty = (await session.expect_result(READ, file_path=put_file(session, "empty"))).output
    assert (empty.kind, empty.content, empty.num_lines, empty.total_lines) == ("text", "", 0, 0)
    past = (await session.expect_result(READ, file_path=put_file(session, "a", "a\nb"), offset=9)).output
    assert (past.content, past.num_lines, past.start_line, past.total_lines) == ("", 0, 9, 2)
    assert past.warning


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/tty", "/proc/self/fd/2", "relative.txt"])
async def test_what_no_permission_could_make_readable_is_refused_before_anybody_is_asked(
    session: Session, path: str
) -> None:
    assert await READ.validate(READ.parse({"file_path": path}), session.make_context()) is not None


@pytest.mark.parametrize("link", ["/dev/zero", "/dev/tty", "/dev/stdin"])
async def test_a_device_is_refused_also_behind_a_link(session: Session, link: str) -> None:
    path = session.folder / "harmless.txt"
    path.symlink_to(link)
    assert isinstance(await session.call(READ, {"file_path": str(path)}), Failure)
    assert session.reads.by_path == {}


@pytest.mark.parametrize("data", [b"old\0\1\2\n", b"abc\0def\0", b"one\0three\0seven\0"])
async def test_bytes_with_a_nul_here_and_there_are_no_text(session: Session, data: bytes) -> None:
    path = put_file(session, "a.dat", data)
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message == f"{path} is a binary file ({len(data)} bytes), which cannot be read as text."

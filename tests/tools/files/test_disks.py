"""Full or read-only disks and files of other users: a message, the old content intact, and nothing left behind."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing import large_edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.fs import atomic_write
from ostler.tools.tool import AnyTool
from tests.support.disks import become_plain_user, fill, make_read_only, mount_small_disk
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT, NOTEBOOK = Read(), Write(), Edit(), NotebookEdit()
LONG = "x" * 40_000
CELL = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": ["old"]}
TOOLS = {"Write": WRITE, "Edit": EDIT, "NotebookEdit": NOTEBOOK}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Session]:
    """A session whose folder is a disk of 64 KiB."""
    with mount_small_disk(tmp_path.resolve() / "disk") as place:
        yield Session(place, tmp_path / "outputs")


def prepare_change(name: str, folder: Path, new: str = LONG) -> tuple[AnyTool, Path, dict[str, Any]]:
    """A file, and a call that changes it."""
    if name == "NotebookEdit":
        path = folder / "a.ipynb"
        path.write_text(json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        return NOTEBOOK, path, {"notebook_path": str(path), "cell_id": "c", "new_source": new}
    path = folder / "a.txt"
    path.write_text("old\n" * 1000 + "last")
    if name == "Write":
        return WRITE, path, {"file_path": str(path), "content": new}
    return EDIT, path, {"file_path": str(path), "old_string": "last", "new_string": new}


def list_files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("name", TOOLS)
async def test_a_full_disk_is_said_and_the_old_content_stays_whole(disk: Session, name: str) -> None:
    tool, path, given = prepare_change(name, disk.folder)
    await disk.expect_result(READ, file_path=str(path), limit=2000)
    filler = fill(disk.folder)
    before, names = path.read_bytes(), list_files(disk.folder)
    failure = await disk.expect_failure(tool, **given)
    assert failure.message == f"{path} cannot be written: No space left on device."
    assert path.read_bytes() == before
    assert list_files(disk.folder) == names
    # With room again, the same call works: the session knows the file as it is.
    filler.unlink()
    await disk.expect_result(tool, **given)
    assert LONG in path.read_text()


@pytest.mark.parametrize("name", TOOLS)
async def test_a_disk_that_can_only_be_read_is_said_and_nothing_changes(disk: Session, name: str) -> None:
    tool, path, given = prepare_change(name, disk.folder)
    await disk.expect_result(READ, file_path=str(path), limit=2000)
    before, names = path.read_bytes(), list_files(disk.folder)
    make_read_only(disk.folder)
    failure = await disk.expect_failure(tool, **given)
    assert failure.message == f"{path} cannot be written: Read-only file system."
    assert (path.read_bytes(), list_files(disk.folder)) == (before, names)


async def test_a_new_file_on_a_full_or_closed_disk_is_a_failure_and_makes_no_file(disk: Session) -> None:
    filler = fill(disk.folder)
    for tool, given in ((WRITE, {"content": LONG}), (EDIT, {"old_string": "", "new_string": LONG})):
        failure = await disk.expect_failure(tool, file_path=str(disk.folder / "new.txt"), **given)
        assert "No space left on device" in failure.message
        assert list_files(disk.folder) == ["filler"]
    filler.unlink()
    make_read_only(disk.folder)
    failure = await disk.expect_failure(WRITE, file_path=str(disk.folder / "deep" / "new.txt"), content="x")
    assert "Read-only file system" in failure.message
    assert list_files(disk.folder) == []


async def test_folders_that_were_made_for_a_file_go_when_there_is_no_room_for_it(disk: Session) -> None:
    (disk.folder / "old").mkdir()
    filler = fill(disk.folder)
    path = disk.folder / "old" / "new" / "deep" / "a.txt"
    failure = await disk.expect_failure(WRITE, file_path=str(path), content=LONG)
    assert "No space left on device" in failure.message
    assert sorted(disk.folder.rglob("*")) == [filler, disk.folder / "old"]
    filler.unlink()
    await disk.expect_result(WRITE, file_path=str(path), content=LONG)


async def test_a_file_that_has_to_be_written_where_it_is_stays_whole_on_a_full_disk(
    disk: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_write, "_can_keep_owner", lambda older: False)
    tool, path, given = prepare_change("Write", disk.folder)
    await disk.expect_result(READ, file_path=str(path), limit=2000)
    fill(disk.folder)
    before = path.read_bytes()
    assert "No space left on device" in (await disk.expect_failure(tool, **given)).message
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", TOOLS)
async def test_what_a_plain_user_may_not_read_is_refused_in_words(tmp_path: Path, name: str) -> None:
    with become_plain_user() as folder:
        session = Session(folder, tmp_path / "outputs")
        tool, path, given = prepare_change(name, folder)
        path.chmod(0)
        failure = await session.expect_failure(READ, file_path=str(path))
        assert failure.message == f"{path} cannot be read: Permission denied."
        assert (await session.expect_failure(tool, **given)).message == f"{path} cannot be written: Permission denied."


@pytest.mark.parametrize("name", TOOLS)
async def test_in_a_folder_that_takes_nothing_of_ours_a_file_stays_as_it_is(tmp_path: Path, name: str) -> None:
    with become_plain_user() as folder:
        session = Session(folder, tmp_path / "outputs")
        tool, path, given = prepare_change(name, folder)
        await session.expect_result(READ, file_path=str(path), limit=2000)
        before, names = path.read_bytes(), list_files(folder)
        folder.chmod(0o555)
        failure = await session.expect_failure(tool, **given)
        assert failure.message == f"{path} cannot be written: Permission denied."
        assert (path.read_bytes(), list_files(folder)) == (before, names)
        folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
async def test_a_file_of_somebody_else_is_written_by_a_plain_user_and_stays_theirs(tmp_path: Path) -> None:
    with become_plain_user() as folder:
        path = folder / "a.txt"
        path.write_text("long content\n")
        os.seteuid(0)
        os.chown(path, 1234, 2345)
        path.chmod(0o666)
        os.seteuid(folder.stat().st_uid)
        session = Session(folder, tmp_path / "outputs")
        await session.expect_result(READ, file_path=str(path))
        await session.expect_result(WRITE, file_path=str(path), content="short\n")
        assert path.read_text() == "short\n"
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
        assert list_files(folder) == ["a.txt"]


@pytest.mark.parametrize("name", TOOLS)
async def test_a_loop_of_links_is_a_failure_for_every_tool_that_writes(session: Session, name: str) -> None:
    tool, path, given = prepare_change(name, session.folder)
    path.unlink()
    path.symlink_to(path.name)
    failure = await session.expect_failure(tool, **given)
    assert failure.message == f"{path} cannot be written: Too many levels of symbolic links."
    assert list_files(session.folder) == [path.name]


async def test_a_notebook_whose_name_is_too_long_is_a_failure_in_words(session: Session) -> None:
    path = session.folder / f"{'x' * 300}.ipynb"
    failure = await session.expect_failure(NOTEBOOK, notebook_path=str(path), cell_id="c", new_source="x")
    assert "name too long" in failure.message


@pytest.mark.parametrize("data", [b"old\0\0\1\2\n", b"\x89PNG\r\n\x1a\nold", b"%PDF-1.7 old"])
async def test_what_is_no_text_is_neither_edited_nor_written_over(session: Session, data: bytes) -> None:
    path = session.folder / "a.txt"
    path.write_bytes(data)
    for tool, given in ((WRITE, {"content": "new"}), (EDIT, {"old_string": "old", "new_string": "new"})):
        failure = await session.expect_failure(tool, file_path=str(path), **given)
        assert "cannot be read as text" in failure.message
    assert path.read_bytes() == data


async def test_a_line_of_fifty_megabytes_without_an_end_is_edited(
    session: Session, monkeypatch: pytest.MonkeyPatch, forked_edit_program: str
) -> None:
    monkeypatch.setattr(large_edit, "_PROGRAM", forked_edit_program)
    path = session.folder / "a.txt"
    path.write_bytes(b"x" * 25_000_000 + b"needle" + b"x" * 25_000_000)
    await session.expect_result(READ, file_path=str(path))
    session.change_view("acceptEdits")  # nobody is asked, so it is not planned for an ask
    shown = await session.expect_text(EDIT, file_path=str(path), old_string="needle", new_string="thread")
    assert len(shown) < 10_000
    assert path.stat().st_size == 50_000_006
    with path.open("rb") as file:
        file.seek(25_000_000)
        assert file.read(7) == b"threadx"


@pytest.mark.parametrize("name", ["Edit", "NotebookEdit"])
async def test_ten_megabytes_of_input_are_taken(session: Session, name: str) -> None:
    tool, path, given = prepare_change(name, session.folder, "y" * 10_000_000)
    await session.expect_result(READ, file_path=str(path), limit=2000)
    ran = await session.expect_result(tool, **given)
    assert len("".join(block["text"] for block in tool.render(ran.output))) < 30_000
    assert "y" * 10_000_000 in path.read_text()


async def test_ten_megabytes_that_are_not_in_the_file_are_a_failure_soon(session: Session) -> None:
    _, path, _ = prepare_change("Edit", session.folder)
    await session.expect_result(READ, file_path=str(path), limit=2000)
    failure = await session.expect_failure(EDIT, file_path=str(path), old_string="z\n" * 5_000_000, new_string="")
    assert (failure.code, len(failure.message) < 1000) == (5, True)


@pytest.mark.parametrize("tool", [READ, WRITE, EDIT, NOTEBOOK], ids=lambda tool: tool.name)
async def test_a_path_of_ten_megabytes_is_a_failure(session: Session, tool: AnyTool) -> None:
    path = "/" + "x" * 10_000_000 + ".ipynb" * (tool is NOTEBOOK)
    more = {
        "Write": {"content": ""},
        "Edit": {"old_string": "a", "new_string": "b"},
        "NotebookEdit": {"cell_id": "c", "new_source": ""},
    }
    key = "notebook_path" if tool is NOTEBOOK else "file_path"
    failure = await session.expect_failure(tool, **{key: path}, **more.get(tool.name, {}))
    assert "name too long" in failure.message
    assert len(failure.message) < 1000


async def test_a_path_of_ten_megabytes_to_what_another_tool_changes_is_a_failure_in_a_few_words(
    session: Session,
) -> None:
    path = "/" + "x" * 10_000_000
    failures = [
        await session.expect_failure(WRITE, file_path=f"{path}.ipynb", content=""),
        await session.expect_failure(EDIT, file_path=f"{path}.ipynb", old_string="a", new_string="b"),
        await session.expect_failure(NOTEBOOK, notebook_path=path, cell_id="c", new_source=""),
    ]
    assert [(failure.code, len(failure.message) < 1000) for failure in failures] == [(8, True), (8, True), (9, True)]


async def test_utf_16_of_more_than_64_megabytes_is_refused_by_its_encoding(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_bytes(b"\xff\xfe" + b"a\0" * (32 * 1024 * 1024))
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == f"{path} is too large for its encoding (UTF-16-LE, more than 64.0 MB)."


@pytest.mark.parametrize("codec", ["utf-8", "cp1252"])
async def test_a_file_that_grows_without_end_while_it_is_read_is_given_up(
    session: Session, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    path = session.folder / "a.txt"
    path.write_bytes("grün\n".encode(codec) * 10_000)
    await session.expect_result(READ, file_path=str(path), limit=1)
    for module in ("files.reading.line_reader", "fs.text_file"):
        monkeypatch.setattr(f"ostler.tools.{module}.MAX_FILE_BYTES", 20_000)
    # The size as it was before the file grew: small.
    fstat = os.fstat

    def before(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        return os.stat_result((*status[:6], min(status.st_size, 1000), *status[7:]))

    monkeypatch.setattr(os, "fstat", before)
    given = {"old_string": "gr", "new_string": "gl", "replace_all": True}
    failure = await session.expect_failure(EDIT, file_path=str(path), **given)
    assert (failure.code, failure.message) == (10, f"{path} does not end within 1 GiB.")
    if codec == "utf-8":  # other encodings are read as a whole, with a limit of their own
        os.utime(path, ns=(1, 1))
        assert (await session.expect_failure(READ, file_path=str(path))).message == f"{path} does not end within 1 GiB."


@pytest.mark.parametrize("name", TOOLS)
async def test_a_file_that_was_made_read_only_stays_as_it_is(tmp_path: Path, name: str) -> None:
    with become_plain_user() as folder:
        session = Session(folder, tmp_path / "outputs")
        tool, path, given = prepare_change(name, folder, "new")
        old = path.read_bytes()
        await session.expect_result(READ, file_path=str(path))
        path.chmod(0o444)
        failed = await session.expect_failure(tool, **given)
        assert "Permission denied" in failed.message
        assert (path.read_bytes(), os.listdir(folder)) == (old, [path.name])
        path.chmod(0o644)
        await session.expect_result(tool, **given)
        assert path.read_bytes() != old

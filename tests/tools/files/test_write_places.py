"""Where files can and cannot be written, and what is said about it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.protocol.session import Mode
from ostler.tools.files.edit import Edit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.tool import AskFirst, Failure
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT = Read(), Write(), Edit()


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Files of this process cannot grow past so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_disk_without_room_is_a_failure_that_leaves_the_file_as_it_was(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("old\n")
    await session.expect_result(READ, file_path=str(path))
    with limit_file_size(1000):
        failure = await session.expect_failure(WRITE, file_path=str(path), content="x" * 100_000)
    assert "cannot be written: " in failure.message
    assert path.read_text() == "old\n"
    assert [each.name for each in session.folder.iterdir()] == ["a.txt"]


async def test_a_place_that_takes_no_files_is_a_failure(session: Session) -> None:
    failure = await session.expect_failure(WRITE, file_path="/proc/sys/nothing/here", content="x")
    assert "cannot be written: " in failure.message


async def test_a_path_that_is_too_long_is_a_failure_in_words(session: Session) -> None:
    for path in (session.folder / ("x" * 300), session.folder / "/".join(["y" * 200] * 30)):
        failure = await session.expect_failure(WRITE, file_path=str(path), content="x")
        assert "name too long" in failure.message
        assert (await session.expect_failure(EDIT, file_path=str(path), old_string="a", new_string="b")).message
    assert list(session.folder.iterdir()) == []


async def test_the_longest_name_that_there_can_be_is_written(session: Session) -> None:
    path = session.folder / ("日" * 85)  # 255 bytes
    await session.expect_result(WRITE, file_path=str(path), content="a")
    await session.expect_result(WRITE, file_path=str(path), content="b")
    assert path.read_text() == "b"


async def test_a_link_to_a_name_that_is_not_utf_8_is_refused(session: Session) -> None:
    target = session.folder / os.fsdecode(b"gr\xfcn")
    target.write_text("old")
    link = session.folder / "link"
    link.symlink_to(target)
    failure = await session.expect_failure(EDIT, file_path=str(link), old_string="old", new_string="new")
    assert "not UTF-8" in failure.message
    failure.message.encode()
    check = await session.check(WRITE, file_path=str(link), content="new")
    assert isinstance(check, AskFirst)
    check.message.encode()


@pytest.mark.parametrize("tool", [WRITE, EDIT], ids=["Write", "Edit"])
async def test_a_notebook_is_sent_to_notebook_edit(session: Session, tool: Write | Edit) -> None:
    given = {"content": "{}"} if tool is WRITE else {"old_string": "a", "new_string": "b"}
    path = session.folder / "a.ipynb"
    path.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    failure = await session.expect_failure(tool, file_path=str(path), **given)
    assert failure.code == 9
    assert "NotebookEdit" in failure.message


async def test_write_uses_the_number_of_edit_for_what_is_too_large(session: Session) -> None:
    path = session.folder / "sparse"
    with path.open("wb") as file:
        file.truncate(1024**3 + 1)
    assert (await session.expect_failure(WRITE, file_path=str(path), content="x")).code == 10
    result = await WRITE.run(WRITE.parse({"file_path": str(path), "content": "x"}), session.make_context())
    assert isinstance(result, Failure)
    assert result.code == 10


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_a_path_of_another_machine_always_asks_and_is_not_looked_at_before(session: Session, mode: Mode) -> None:
    session.change_view(mode=mode)
    (session.folder / "a.txt").write_text("never read\n")
    path = f"/{session.folder}/a.txt"  # on this system it leads here, so that looking at it would be noticed
    given = WRITE.parse({"file_path": path, "content": "x"})
    assert await WRITE.validate(given, session.make_context()) is None
    check = await WRITE.check_permission(given, session.make_context())
    assert isinstance(check, AskFirst)
    assert check.safety
    assert check.diff is None
    assert WRITE.is_destructive(given)
    # Allowed, it is looked at like any other.
    failure = await WRITE.run(given, session.make_context())
    assert isinstance(failure, Failure)
    assert failure.code == 2


async def test_a_path_of_another_machine_does_not_lead_into_the_daemons_own_folder(session: Session) -> None:
    session.change_view(mode="bypassPermissions", home=str(session.folder / "home"))
    given = WRITE.parse({"file_path": f"/{session.folder}/home/token", "content": "x"})
    failure = await WRITE.run(given, session.make_context())
    assert isinstance(failure, Failure)
    assert failure.code == 7
    assert not (session.folder / "home").exists()


async def test_a_path_with_backslashes_is_relative_here(session: Session) -> None:
    assert (await session.expect_failure(WRITE, file_path="\\\\host\\share\\a.txt", content="x")).code == 8


async def test_attributes_of_the_file_stay(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("a\n")
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no attributes")
    await session.expect_result(READ, file_path=str(path))
    await session.expect_result(WRITE, file_path=str(path), content="b\n")
    assert os.getxattr(path, "user.origin") == b"here"


async def test_line_ends_are_written_as_they_are_given(session: Session) -> None:
    path = session.folder / "a.txt"
    await session.expect_result(WRITE, file_path=str(path), content="a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n"
    await session.expect_result(WRITE, file_path=str(path), content="a\nb\n")
    assert path.read_bytes() == b"a\nb\n"


async def test_what_a_person_changed_is_said_to_the_model_and_to_clients(session: Session) -> None:
    context = replace(session.make_context(), changed_by_person=True)
    path = str(session.folder / "a.txt")
    given = WRITE.parse({"file_path": path, "content": "a\n"})
    ran = await WRITE.run(given, context)
    assert not isinstance(ran, Failure)
    assert ran.output.user_modified
    assert WRITE.render(ran.output)[0]["text"].endswith("(The person changed the text before it was written.)")


async def test_an_existing_file_is_not_lost_when_its_folder_goes(session: Session, tmp_path: Path) -> None:
    """The folder is there when the call is checked, and gone when it runs: it is made again."""
    path = session.folder / "sub" / "a.txt"
    path.parent.mkdir()
    context = session.make_context()
    given = WRITE.parse({"file_path": str(path), "content": "x"})
    assert await WRITE.validate(given, context) is None
    await WRITE.check_permission(given, context)
    path.parent.rmdir()
    assert not isinstance(await WRITE.run(given, context), Failure)
    assert path.read_text() == "x"


@pytest.mark.parametrize("exists", [False, True])
async def test_a_path_that_ends_as_a_folder_makes_no_file(session: Session, exists: bool) -> None:
    folder = session.folder / "dir"
    if exists:
        folder.mkdir()
    for failure in (
        await session.expect_failure(WRITE, file_path=f"{folder}/", content="x"),
        await session.expect_failure(EDIT, file_path=f"{folder}/", old_string="", new_string="x"),
    ):
        assert failure.message == f"{folder}/ ends with a slash, as folders do: give the path of a file."
    assert folder.exists() == exists

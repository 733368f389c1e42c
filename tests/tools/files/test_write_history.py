"""The old content is stored before the new one is written, and changes made in between are not overwritten."""

import anyio
import pytest

from ostler.tools.context import ToolContext
from ostler.tools.files.edit import Edit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.fs.text_file import hash_bytes
from ostler.tools.services import OlderFile
from ostler.tools.tool import Failure, ToolResult
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT = Read(), Write(), Edit()


class HeldHistory:
    """Keeps contents in memory, and returns only when it is released."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, bytes | None]] = []
        self.older: list[OlderFile | None] = []
        self.keep_requested = anyio.Event()
        self.released = anyio.Event()

    async def keep(self, path: str, older: OlderFile | None) -> None:
        self.kept.append((path, None if older is None else older.content()))
        self.older.append(older)
        self.keep_requested.set()
        await self.released.wait()


class FailingHistory:
    """Fails as on a full disk."""

    async def keep(self, path: str, older: OlderFile | None) -> None:
        raise RuntimeError("the disk is full")


def make_released_history() -> HeldHistory:
    history = HeldHistory()
    history.released.set()
    return history


def build_context(session: Session, history: HeldHistory | FailingHistory) -> ToolContext:
    return session.make_context(history=history)


async def test_the_file_is_what_it_was_until_its_content_is_stored(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("old\n")
    await session.expect_result(READ, file_path=str(path))
    history = HeldHistory()
    results: list[object] = []

    async def run() -> None:
        given = {"file_path": str(path), "old_string": "old", "new_string": "new"}
        results.append(await session.call(EDIT, given, build_context(session, history)))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await history.keep_requested.wait()
            assert path.read_text() == "old\n"
            assert [each.name for each in session.folder.iterdir()] == ["a.txt"]
            history.released.set()
    assert isinstance(results[0], ToolResult)
    assert history.kept == [(str(path), b"old\n")]
    assert path.read_text() == "new\n"


async def test_what_cannot_be_kept_is_not_changed(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("old\n")
    await session.expect_result(READ, file_path=str(path))
    with pytest.raises(RuntimeError, match="full"):
        await session.call(WRITE, {"file_path": str(path), "content": "new"}, build_context(session, FailingHistory()))
    assert path.read_text() == "old\n"


async def test_a_new_file_is_kept_as_one_that_was_not_there(session: Session) -> None:
    history = make_released_history()
    path = str(session.folder / "new.txt")
    await session.call(WRITE, {"file_path": path, "content": "x"}, build_context(session, history))
    assert history.kept == [(path, None)]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
async def test_the_bytes_that_are_kept_are_those_of_the_file(session: Session, codec: str) -> None:
    path = session.folder / "a.txt"
    path.write_bytes("eine grüne Wiese\r\nund noch eine\n".encode(codec))
    path.chmod(0o640)
    data = path.read_bytes()
    await session.expect_result(READ, file_path=str(path))
    history = make_released_history()
    given = {"file_path": str(path), "old_string": "grüne", "new_string": "große"}
    assert isinstance(await session.call(EDIT, given, build_context(session, history)), ToolResult)
    assert history.kept == [(str(path), data)]
    (older,) = history.older
    assert older is not None
    assert (older.size, older.digest, older.mode & 0o777) == (len(data), hash_bytes(data), 0o640)
    assert path.read_bytes() == "eine große Wiese\r\nund noch eine\n".encode(codec)


async def test_a_call_that_fails_keeps_nothing(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("old\n")
    history = make_released_history()
    given = WRITE.parse({"file_path": str(path), "content": "new"})
    assert isinstance(await WRITE.run(given, build_context(session, history)), Failure)
    assert history.kept == []


async def test_what_changed_while_the_old_content_was_stored_is_not_written_over(session: Session) -> None:
    file = session.folder / "a.txt"
    file.write_text("old\n")
    await session.expect_result(READ, file_path=str(file))

    class ChangesFile(HeldHistory):
        async def keep(self, path: str, older: OlderFile | None) -> None:
            file.write_text("somebody else's\n")

    failure = await session.call(
        WRITE, {"file_path": str(file), "content": "new"}, build_context(session, ChangesFile())
    )
    assert isinstance(failure, Failure)
    assert failure.code == 3
    assert file.read_text() == "somebody else's\n"


async def test_what_was_created_while_nothing_was_stored_is_not_written_over(session: Session) -> None:
    file = session.folder / "a.txt"

    class ChangesFile(HeldHistory):
        async def keep(self, path: str, older: OlderFile | None) -> None:
            file.write_text("somebody else's\n")

    failure = await session.call(
        WRITE, {"file_path": str(file), "content": "new"}, build_context(session, ChangesFile())
    )
    assert isinstance(failure, Failure)
    assert failure.code == 3
    assert file.read_text() == "somebody else's\n"
    assert [each.name for each in session.folder.iterdir()] == ["a.txt"]

"""What a turn keeps of files: stored when `keep` returns, and compressed off the event loop."""

import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.ids import TurnId, new_session_id
from ostler.protocol.shapes import Usage
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.session import file_history as engine_history
from ostler.server.engine.session.file_history import TurnFiles
from ostler.server.events.event_log import EventLog
from ostler.storage import Store, Tx, open_store
from ostler.storage.repositories import file_history
from ostler.tools.fs.text_file import hash_bytes
from ostler.tools.services import OlderFile
from tests.storage.records import build_session_record
from tests.support.driver import Harness
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE, edit, read

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()


def make_turn_files(log: EventLog, turn: str = "t_1", session_id: str | None = None) -> TurnFiles:
    owner: Any = session_id or new_session_id()
    return TurnFiles(Journal(log, owner, owner, Usage(), lambda error: None), TurnId(turn))


def make_older_file(content: bytes, read: Callable[[], bytes] | None = None) -> OlderFile:
    return OlderFile(0o100644, len(content), hash_bytes(content), read or (lambda: content))


async def list_snapshots(store: Store, kept: TurnFiles) -> list[file_history.FileSnapshot]:
    return await store.read(lambda db: db.file_history.list_by_sessions([kept.journal.session_id]))


async def test_a_content_is_read_and_packed_on_a_thread_and_only_where_it_is_needed(store: Store) -> None:
    log = EventLog(store)
    threads: list[threading.Thread] = []

    def read() -> bytes:
        threads.append(threading.current_thread())
        return b"content"

    first = make_turn_files(log)
    await first.keep("/a", make_older_file(b"content", read))
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
    await first.keep("/a", make_older_file(b"content", read))  # kept by this turn already
    await first.keep("/b", make_older_file(b"content", read))  # stored already
    await make_turn_files(log).keep("/c", make_older_file(b"content", read))
    assert len(threads) == 1
    assert [row.path for row in await list_snapshots(store, first)] == ["/a", "/b"]


async def test_when_it_returns_another_connection_finds_it(store: Store) -> None:
    kept = make_turn_files(EventLog(store))
    await kept.keep("/a", make_older_file(b"content"))
    (row,) = await list_snapshots(store, kept)
    packed = await store.read(lambda db: db.file_history.load_content(row.digest or ""))
    assert packed is not None
    assert file_history.unpack(packed) == b"content"


async def test_a_content_that_goes_just_when_it_was_found_is_brought_again(store: Store) -> None:
    other = build_session_record(new_session_id())

    class Log(EventLog):
        async def read(self, work: Any) -> Any:
            found = await super().read(work)

            def delete(tx: Tx) -> None:
                tx.sessions.delete(other)

            await self.write(delete)
            return found

    await make_turn_files(EventLog(store), session_id=other.id).keep("/a", make_older_file(b"content"))
    kept = make_turn_files(Log(store))
    await kept.keep("/b", make_older_file(b"content"))
    (row,) = await list_snapshots(store, kept)
    assert await store.read(lambda db: db.file_history.load_content(row.digest or "")) is not None


async def test_of_a_file_over_the_limit_nothing_is_read(store: Store) -> None:
    def read() -> bytes:
        raise AssertionError("nobody needs it")

    kept = make_turn_files(EventLog(store))
    size = engine_history.MAX_FILE_BYTES + 1
    await kept.keep("/large", OlderFile(0o100644, size, "digest", read))
    await kept.keep("/new", None)
    found = [(row.path, row.size, row.digest, row.left_out) for row in await list_snapshots(store, kept)]
    assert found == [("/large", size, None, "too_large"), ("/new", 0, None, None)]


async def test_what_a_session_keeps_is_bounded_and_the_oldest_turn_goes_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine_history.MAX_SESSION_BYTES == 200 * 1024 * 1024
    monkeypatch.setattr(engine_history, "MAX_SESSION_BYTES", 5_000)
    session_id = new_session_id()
    turns = [make_turn_files(EventLog(store), f"t_{number}", session_id) for number in range(3)]
    for kept in turns:
        await kept.keep("/a", make_older_file(os.urandom(2_000)))
    assert [row.left_out for row in await list_snapshots(store, turns[0])] == ["no_room", None, None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


# What clients are told.


def test_clients_are_told_of_a_change_with_its_patch_and_the_output_of_the_call(harness: Harness, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("one\ntwo\n")
    driver = harness.open_session(
        message(read(path)), message(edit(path, "two", "2")), DONE, folder=folder, mode="acceptEdits"
    )
    driver.run_turn()
    call = driver.list_event_data("tool.completed")[-1]["call"]
    patch = f"--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert driver.list_event_data("file.changed") == [{"path": str(path), "patch": patch, "call_id": call["call_id"]}]
    output = call["output"]
    assert (output["kind"], output["original"], output["replace_all"]) == ("update", "one\ntwo\n", False)
    assert (output["old_string"], output["new_string"], output["user_modified"]) == ("two", "2", False)
    assert output["structured_patch"][0]["lines"] == [" one", "-two", "+2"]

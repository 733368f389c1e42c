"""File history: a content is stored once, within a limit, and deleted with its session."""

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId, TurnId, new_session_id
from ostler.storage import Snapshot, Store
from ostler.storage.repositories import file_history
from ostler.storage.repositories.file_history import ContentGone, FileSnapshot, StoredState
from ostler.storage.sqlite.database import open_database
from tests.storage.records import build_session_record, write
from tests.support.repository import DATABASES
from tests.support.rows import select_value

pytestmark = pytest.mark.anyio
PLENTY = 10_000_000
ONE, TWO = TurnId("t_1"), TurnId("t_2")


def build_snapshot(session_id: SessionId, turn_id: TurnId, path: str, content: bytes | None) -> FileSnapshot:
    if content is None:
        return FileSnapshot(session_id, turn_id, path, None)
    return FileSnapshot(session_id, turn_id, path, 0o644, len(content), sha256(content).hexdigest())


async def keep(
    store: Store, session_id: SessionId, turn_id: TurnId, path: str, content: bytes | None, limit: int = PLENTY
) -> FileSnapshot:
    kept = build_snapshot(session_id, turn_id, path, content)
    packed = None if content is None else file_history.pack(content)
    await write(store, lambda tx: tx.file_history.keep(kept, packed, limit))
    return kept


async def list_snapshots(store: Store, *session_ids: SessionId) -> list[FileSnapshot]:
    return await store.read(lambda db: db.file_history.list_by_sessions(session_ids))


async def count_contents(store: Store) -> int:
    return await store.read(lambda snapshot: int(select_value(snapshot, "SELECT count(*) FROM file_contents")))


async def load_content(store: Store, kept: FileSnapshot) -> bytes | None:
    packed = await store.read(lambda db: db.file_history.load_content(kept.digest or ""))
    return None if packed is None else file_history.unpack(packed)


def make_incompressible_bytes(number: int, size: int = 1000) -> bytes:
    """Bytes that compression does not make smaller."""
    return b"".join(sha256(f"{number}/{part}".encode()).digest() for part in range(size // 32))


async def test_what_a_file_held_comes_back_as_it_was(store: Store) -> None:
    session = new_session_id()
    kept = await keep(store, session, ONE, "/a", b"\xff\x00 bytes, not text\r\n" * 1000)
    assert await list_snapshots(store, session) == [kept]
    assert await load_content(store, kept) == b"\xff\x00 bytes, not text\r\n" * 1000
    assert await store.read(lambda db: db.file_history.sum_packed_bytes(session)) < 1000


async def test_only_the_first_change_of_a_turn_is_kept_and_each_turn_has_its_own(store: Store) -> None:
    session = new_session_id()
    first = await keep(store, session, ONE, "/a", b"first")
    await keep(store, session, ONE, "/a", b"second")
    third = await keep(store, session, TWO, "/a", b"third")
    assert await list_snapshots(store, session) == [first, third]
    assert await count_contents(store) == 2


async def test_a_file_that_was_not_there_is_kept_as_that(store: Store) -> None:
    session = new_session_id()
    await keep(store, session, ONE, "/new", None)
    (kept,) = await list_snapshots(store, session)
    assert (kept.mode, kept.digest, kept.left_out) == (None, None, None)
    assert await count_contents(store) == 0


async def test_the_same_content_is_stored_once_and_goes_with_the_last_that_names_it(store: Store) -> None:
    one, two = build_session_record(new_session_id()), build_session_record(new_session_id())
    kept = await keep(store, one.id, ONE, "/a", b"same")
    await keep(store, one.id, ONE, "/b", b"same")
    await keep(store, two.id, TWO, "/c", b"same")
    assert await count_contents(store) == 1
    await write(store, lambda tx: tx.sessions.delete(one))
    assert await list_snapshots(store, one.id) == []
    assert await load_content(store, kept) == b"same"
    await write(store, lambda tx: tx.sessions.delete(two))
    assert await count_contents(store) == 0


async def test_a_content_that_is_known_need_not_be_brought_again(store: Store) -> None:
    session = new_session_id()
    kept = await keep(store, session, ONE, "/a", b"same")
    again = build_snapshot(session, TWO, "/a", b"same")
    assert await store.read(lambda db: db.file_history.check_stored(kept)) == StoredState(
        has_snapshot=True, has_content=True
    )
    assert await store.read(lambda db: db.file_history.check_stored(again)) == StoredState(
        has_snapshot=False, has_content=True
    )
    await write(store, lambda tx: tx.file_history.keep(again, None, PLENTY))
    assert len(await list_snapshots(store, session)) == 2
    other = build_snapshot(session, TWO, "/b", b"other")
    assert await store.read(lambda db: db.file_history.check_stored(other)) == StoredState(
        has_snapshot=False, has_content=False
    )
    with pytest.raises(ContentGone):
        await write(store, lambda tx: tx.file_history.keep(other, None, PLENTY))
    assert len(await list_snapshots(store, session)) == 2


async def test_the_oldest_turns_make_room_and_that_is_noted(store: Store) -> None:
    session, other = new_session_id(), new_session_id()
    turns = [TurnId(f"t_{number}") for number in range(4)]
    elsewhere = await keep(store, other, ONE, "/x", make_incompressible_bytes(0))
    for number, turn in enumerate(turns):
        await keep(store, session, turn, "/a", make_incompressible_bytes(number), limit=2500)
    found = await list_snapshots(store, session)
    assert [(kept.turn_id, kept.left_out) for kept in found] == [
        ("t_0", "no_room"),
        ("t_1", "no_room"),
        ("t_2", None),
        ("t_3", None),
    ]
    assert all((kept.digest is None) == (kept.left_out is not None) for kept in found)
    assert await load_content(store, elsewhere) == make_incompressible_bytes(0)
    assert await count_contents(store) == 3


async def test_a_turn_that_is_too_much_by_itself_keeps_what_it_changed_first(store: Store) -> None:
    session = new_session_id()
    for number in range(4):
        await keep(store, session, ONE, f"/{number}", make_incompressible_bytes(number), limit=2500)
    assert [kept.left_out for kept in await list_snapshots(store, session)] == [None, None, "no_room", "no_room"]


async def test_what_a_session_and_its_agents_kept_comes_in_the_order_of_time(store: Store) -> None:
    root, agent = new_session_id(), new_session_id()
    await keep(store, agent, TWO, "/a", b"before all")
    await keep(store, root, ONE, "/a", b"after the agent")
    await keep(store, agent, TWO, "/b", b"last")
    assert [kept.path for kept in await list_snapshots(store, root, agent)] == ["/a", "/a", "/b"]
    assert [kept.session_id for kept in await list_snapshots(store, root, agent)] == [agent, root, agent]


def test_history_of_a_stored_database_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    old = sqlite3.connect(path)
    old.executescript((DATABASES / "version_0003.sql").read_text())
    old.close()
    opened = open_database(path)
    (session_id,) = opened.connection.execute("SELECT id FROM sessions").fetchone()
    snapshot = Snapshot(opened.connection)
    (kept,) = snapshot.file_history.list_by_sessions([session_id])
    assert (kept.path, kept.mode) == ("/kept", 0o100644)
    packed = snapshot.file_history.load_content(kept.digest or "")
    assert packed is not None
    assert file_history.unpack(packed) == b"a\n"
    opened.connection.close()

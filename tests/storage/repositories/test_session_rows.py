"""The rows of a session are deleted with it, store each text once, and give their pages back to the file system."""

import sqlite3
from pathlib import Path

import pytest

from ostler.protocol.errors import SessionNotFound
from ostler.protocol.ids import (
    CallId,
    Cursor,
    SessionId,
    TodoId,
    TurnId,
    new_result_id,
    new_session_id,
)
from ostler.protocol.shapes import Message, Usage
from ostler.protocol.todo import Todo
from ostler.storage import Scope, Snapshot, Store, Tx, open_store
from ostler.storage.repositories import (
    file_history,
    idempotency,
    processes,
    sessions,
)
from ostler.storage.repositories.tasks import TaskRecord
from tests.storage.records import (
    NOW,
    build_ask,
    build_call,
    build_message,
    build_session_record,
    build_task,
    build_turn,
    write,
)
from tests.support.repository import DATABASES
from tests.support.rows import reach_connection, select_value

pytestmark = pytest.mark.anyio


def list_session_tables(snapshot: Snapshot) -> list[str]:
    db = reach_connection(snapshot)
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        name for name in names if any(column[1] == "session_id" for column in db.execute(f"PRAGMA table_info({name})"))
    ]


def fill_session_tables(tx: Tx, session: sessions.SessionRecord) -> None:
    """Writes a row into every table that can belong to a session."""
    tx.sessions.put(session)
    stored_message = build_message(session.id, "secret")
    tx.messages.add(stored_message)
    tx.messages.clear_results(session.id, {"toolu_secret": "secret"})
    tx.turns.put(build_turn(session.id), "secret")
    tx.calls.put(build_call(session.id, call_id=f"{stored_message.id}#0"))
    tx.asks.open_ask(build_ask(session.id, session.root_id), tx.next_cursor)
    tx.tasks.put(TaskRecord(build_task(session.id, f"b{session.id[2:]}")))
    tx.usage.add(session.id, None, "m", Usage(input_tokens=1))
    tx.results.put(new_result_id(), session.id, "secret", tool="Bash")
    tx.drafts.put(stored_message)
    tx.drafts.extend(session.id, [(0, b'"secret"')])
    tx.steers.add(session.id, TurnId("t_1"), [{"type": "text", "text": "secret"}])
    tx.states.put(session.id, {"system": "secret"})
    tx.states.put_read(session.id, "/secret", {})
    tx.todos.put(session.id, 2, [Todo(id=TodoId("1"), subject="secret")])
    kept = file_history.FileSnapshot(session.id, TurnId("t_1"), "/secret", 0o644, 6, "digest of secret")
    tx.file_history.keep(kept, file_history.pack(b"secret"), 1000)
    tx.processes.add(processes.ProcessRecord(len(session.id), session.id, session.id, CallId(f"{stored_message.id}#0")))
    tx.idempotency.claim(idempotency.Key("session/create", session.id, "d"), session.id)
    tx.append("message.completed", Scope(session.id, session.root_id), reference=stored_message.id)


async def test_deleting_a_session_leaves_no_row_of_it_in_any_table(store: Store) -> None:
    gone, kept = build_session_record(new_session_id()), build_session_record(new_session_id())
    child = build_session_record(new_session_id(), root_id=kept.id, parent_id=kept.id)
    for one in (gone, kept, child):
        await write(store, lambda tx, one=one: fill_session_tables(tx, one))
    tables = await store.read(list_session_tables)
    assert len(tables) >= 9

    async def rows(session_id: SessionId) -> list[int]:
        count = "SELECT count(*) FROM {} WHERE session_id = ?"
        return await store.read(
            lambda snapshot: [select_value(snapshot, count.format(table), session_id) for table in tables]
        )

    for one in (gone, kept, child):  # the test would prove nothing if a table had been forgotten
        assert all(await rows(one.id))
    for one in (gone, child):
        await write(store, lambda tx, one=one: tx.sessions.delete(one))
        assert not any(await rows(one.id))
        with pytest.raises(SessionNotFound):
            await store.read(lambda snapshot: snapshot.sessions.get(one.id))  # noqa: B023
    assert all(await rows(kept.id))
    left = await store.read(lambda snapshot: select_value(snapshot, "SELECT count(*) FROM result_pieces"))
    assert left == 1


async def test_an_event_refers_to_its_message_instead_of_copying_it(store: Store) -> None:
    session_id = new_session_id()
    long = build_message(session_id, "x" * 100_000)

    def work(tx: Tx) -> None:
        tx.messages.add(long)
        tx.append("message.completed", Scope(session_id, session_id), reference=long.id)

    await write(store, work)
    size = await store.read(
        lambda snapshot: select_value(snapshot, "SELECT sum(length(coalesce(data_json, ''))) FROM events")
    )
    assert size == 0
    (event,), _ = await store.read(lambda db: db.events.list_page(Cursor(0), [session_id], 10))
    assert len(event.data) > 100_000


async def test_a_message_shares_what_its_calls_printed_and_a_fork_keeps_it(store: Store) -> None:
    source, fork = new_session_id(), new_session_id()
    content = [{"type": "text", "text": "printed " * 1000}]
    done = build_call(source, "completed").model_copy(update={"content": content})
    shape = {"id": "m_2", "session_id": source, "role": "user", "created_at": NOW}
    results_of = [
        {"type": "tool_result", "tool_use_id": "same", "content": content},
        {"type": "tool_result", "tool_use_id": "other", "content": "replaced since", "is_error": True},
    ]
    brought = Message.model_validate({**shape, "content": results_of})

    def work(tx: Tx) -> None:
        tx.calls.put(done)
        tx.messages.add(brought, {"same": done.call_id})
        tx.messages.copy(source, fork, None)

    await write(store, work)
    lean = "SELECT length(content_json) FROM messages WHERE session_id = ?"
    assert await store.read(lambda snapshot: select_value(snapshot, lean, source)) < 300
    (found,) = (await store.read(lambda db: db.messages.list_page(source, 0, 10))).messages
    assert found == brought
    await write(store, lambda tx: tx.sessions.delete(build_session_record(source)))
    (forked,) = (await store.read(lambda db: db.messages.list_page(fork, 0, 10))).messages
    assert forked.content == brought.content


async def test_freed_pages_go_back_to_the_file_system(store: Store) -> None:
    session = build_session_record(new_session_id())

    def work(tx: Tx) -> None:
        tx.sessions.put(session)
        import random

        for _ in range(40):
            text = random.randbytes(100_000).hex()  # what does not compress well
            tx.results.put(new_result_id(), session.id, text, tool="Bash")

    await write(store, work)
    await store.writer.submit(lambda tx: None, lambda appended: None)
    full = await store.read(lambda snapshot: select_value(snapshot, "PRAGMA page_count"))
    await write(store, lambda tx: tx.sessions.delete(session))
    rounds = 1
    while await write(store, lambda tx: tx.free_pages.give_back()):
        rounds += 1
    assert rounds < 10
    assert await store.read(lambda snapshot: select_value(snapshot, "PRAGMA page_count")) < full / 2


async def test_a_database_that_cannot_give_pages_back_is_not_asked_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    plain = sqlite3.connect(path)
    plain.executescript((DATABASES / "version_0001.sql").read_text())
    plain.close()
    store = open_store(path, pending_limit=100)
    session = build_session_record(new_session_id())

    def fill_and_delete(tx: Tx) -> None:
        tx.sessions.put(session)
        tx.results.put(new_result_id(), session.id, "".join(map(str, range(200_000))), tool="Bash")

    await write(store, fill_and_delete)
    await write(store, lambda tx: tx.sessions.delete(session))
    assert not await write(store, lambda tx: tx.free_pages.give_back())
    await store.close()

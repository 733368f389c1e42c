"""One repository per noun: what goes in comes out, and what belongs to a session goes with it."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol import times
from ostler.protocol.errors import SessionNotFound
from ostler.protocol.ids import (
    AskId,
    CallId,
    ClientId,
    Cursor,
    ResultId,
    SessionId,
    TaskId,
    TurnId,
    new_ask_id,
    new_message_id,
    new_result_id,
    new_session_id,
    new_turn_id,
)
from ostler.protocol.shapes import Ask, Call, Message, Task, Turn, Usage
from ostler.storage import (
    Scope,
    Store,
    Tx,
    asks,
    calls,
    clients,
    events,
    idempotency,
    messages,
    open_store,
    results,
    sessions,
    tasks,
    trust,
    turns,
    usage,
)

pytestmark = pytest.mark.anyio

NOW = "2026-01-01T00:00:00.000Z"


async def write(store: Store, work: Any) -> Any:
    return await store.writer.submit(work, lambda appended: None)


def record(session_id: SessionId, **more: Any) -> sessions.SessionRecord:
    given: dict[str, Any] = {
        "root_id": session_id,
        "cwd": "/",
        "model": "rehearsal",
        "provider": "rehearsal",
        "mode": "default",
        "on_ask": "ask",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return sessions.SessionRecord(session_id, **{**given, **more})


def turn(session_id: str, status: str = "running") -> Turn:
    return Turn.model_validate({"id": new_turn_id(), "session_id": session_id, "status": status, "cursor": 1})


def message(session_id: str, text: str) -> Message:
    content = [{"type": "text", "text": text}]
    return Message.model_validate(
        {"id": new_message_id(), "session_id": session_id, "role": "user", "content": content, "created_at": NOW}
    )


def call(session_id: str, status: str = "queued", call_id: str = "m_1#0") -> Call:
    return Call.model_validate(
        {
            "call_id": call_id,
            "tool_use_id": "t",
            "session_id": session_id,
            "tool": "Bash",
            "input": {},
            "status": status,
        }
    )


def ask(session_id: str, root_id: str | None = None) -> Ask:
    return Ask.model_validate(
        {
            "id": new_ask_id(),
            "session_id": session_id,
            "root_id": root_id or session_id,
            "kind": "permission",
            "status": "open",
            "choices": ["allow", "deny"],
            "opened_at": NOW,
        }
    )


def task(session_id: str, task_id: str, status: str = "running") -> Task:
    return Task.model_validate(
        {"id": task_id, "type": "local_bash", "status": status, "session_id": session_id, "started_at": NOW}
    )


async def test_a_session_comes_back_as_it_was(store: Store) -> None:
    session_id = new_session_id()
    stored = record(
        session_id, title="ü", directories=("/a",), metadata={"x": [1]}, options={"tools": "full"}, trusted=True
    )
    await write(store, lambda tx: sessions.put(tx.connection, stored))
    assert await store.read(lambda db: sessions.get(db, session_id)) == stored


async def test_turns_know_which_is_current_and_which_are_unfinished(store: Store) -> None:
    session_id = new_session_id()
    running, queued = turn(session_id), turn(session_id, "queued")

    def work(tx: Tx) -> None:
        turns.put(tx.connection, running, "do it")
        turns.put(tx.connection, queued, [{"type": "text", "text": "then this"}])

    await write(store, work)
    assert await store.read(lambda db: turns.current(db, session_id)) == running
    assert await store.read(turns.unfinished_sessions) == [session_id]
    assert await store.read(lambda db: turns.input_of(db, running.id)) == "do it"
    for one in (running, queued):
        ended = one.model_copy(update={"status": "ended", "reason": "completed"})
        await write(store, lambda tx, ended=ended: turns.update(tx.connection, ended))
    assert await store.read(lambda db: turns.current(db, session_id)) is None
    assert await store.read(turns.unfinished_sessions) == []
    found = await store.read(lambda db: turns.find(db, running.id))
    assert found is not None
    assert found.reason == "completed"
    assert [one.id for one in await store.read(lambda db: turns.of_session(db, session_id))] == [running.id, queued.id]
    assert await store.read(lambda db: turns.find(db, TurnId("t_none"))) is None


async def test_calls_know_which_are_unfinished(store: Store) -> None:
    session_id = new_session_id()
    first, second = call(session_id, call_id="m_1#0"), call(session_id, call_id="m_1#1")

    def work(tx: Tx) -> None:
        calls.put(tx.connection, first)
        calls.put(tx.connection, second)
        calls.put(tx.connection, first.model_copy(update={"status": "completed", "output": {"a": 1}}))

    await write(store, work)
    assert await store.read(lambda db: calls.unfinished(db, session_id)) == [second]
    done = await store.read(lambda db: calls.find(db, CallId("m_1#0")))
    assert done is not None
    assert done.output == {"a": 1}


async def test_an_ask_is_settled_once_whoever_is_faster(store: Store) -> None:
    session_id = new_session_id()
    opened = ask(session_id)
    await write(store, lambda tx: asks.open_ask(tx.connection, opened))
    assert await store.read(lambda db: asks.open_in(db, session_id)) == [opened]
    yes = opened.model_copy(update={"status": "resolved", "answer": {"choice": "allow"}})
    no = opened.model_copy(update={"status": "resolved", "answer": {"choice": "deny"}})
    assert await write(store, lambda tx: asks.settle(tx.connection, yes))
    assert not await write(store, lambda tx: asks.settle(tx.connection, no))
    found = await store.read(lambda db: asks.find(db, opened.id))
    assert found is not None
    assert found.answer == {"choice": "allow"}
    assert await store.read(lambda db: asks.open_in(db, session_id)) == []
    assert await store.read(lambda db: asks.find(db, AskId("k_none"))) is None


async def test_tasks_know_what_was_running(store: Store) -> None:
    session_id = new_session_id()

    def work(tx: Tx) -> None:
        tasks.put(tx.connection, task(session_id, "b1"))
        tasks.put(tx.connection, task(session_id, "b2", "completed"))

    await write(store, work)
    assert [one.id for one in await store.read(tasks.unfinished)] == ["b1"]
    assert [one.id for one in await store.read(lambda db: tasks.of_session(db, session_id))] == ["b1", "b2"]
    found = await store.read(lambda db: tasks.find(db, TaskId("b2")))
    assert found is not None
    assert found.status == "completed"


async def test_money_is_summed_without_rounding_and_unknown_prices_stay_unknown(store: Store) -> None:
    priced, unpriced = new_session_id(), new_session_id()

    def work(tx: Tx) -> None:
        for _ in range(10):
            usage.add(tx.connection, priced, None, "m", Usage(input_tokens=1, output_tokens=2, cost_usd="0.1"))
        usage.add(tx.connection, unpriced, None, "m", Usage(input_tokens=1, cost_usd="0.1"))
        usage.add(tx.connection, unpriced, None, "other", Usage(input_tokens=1, cost_usd=None))

    await write(store, work)
    totals = await store.read(lambda db: usage.totals(db, [priced, unpriced, SessionId("s_none")]))
    assert totals[priced] == Usage(input_tokens=10, output_tokens=20, cost_usd="1.0")
    assert (totals[unpriced].input_tokens, totals[unpriced].cost_usd) == (2, None)
    assert totals[SessionId("s_none")] == Usage()


@pytest.mark.parametrize("text", ["", "short", "ü🐎" * 50_000, "x" * 65_536, "x" * 65_537, "a\0b", "\ud800 lone"])
async def test_a_result_comes_back_by_range(store: Store, text: str) -> None:
    session_id, result_id = new_session_id(), new_result_id()
    stored = await write(store, lambda tx: results.put(tx.connection, result_id, session_id, text, tool="Bash"))
    wanted = text.replace("\ud800", "?")
    assert await store.read(lambda db: results.find(db, result_id)) == stored
    assert stored.total_chars == len(text)
    assert stored.total_bytes == len(wanted.encode())
    assert await store.read(lambda db: results.read(db, result_id, 0, len(text) + 1)) == wanted
    assert await store.read(lambda db: results.read(db, result_id, 65_530, 20)) == wanted[65_530:65_550]
    assert await store.read(lambda db: results.read(db, result_id, len(text) + 5, 10)) == ""
    assert await store.read(lambda db: results.find(db, ResultId("r_none"))) is None


async def test_trust_is_bound_to_a_digest_and_can_be_revoked(store: Store) -> None:
    granted = trust.TrustRecord("/project", "digest", NOW, ClientId("c_1"))
    await write(store, lambda tx: trust.grant(tx.connection, granted))
    assert await store.read(lambda db: trust.find(db, "/project")) == granted
    assert await store.read(trust.every) == [granted]
    assert await write(store, lambda tx: trust.revoke(tx.connection, "/project"))
    assert not await write(store, lambda tx: trust.revoke(tx.connection, "/project"))
    assert await store.read(lambda db: trust.find(db, "/project")) is None


async def test_clients_and_keys_are_forgotten_in_time(store: Store) -> None:
    client = clients.ClientRecord(ClientId("c_1"), "vim", "9", "ide", {"deltas": False}, "2020-01-01T00:00:00.000Z")
    key = idempotency.Key("session/create", "k", "digest")

    def work(tx: Tx) -> None:
        clients.put(tx.connection, client)
        idempotency.remember(tx.connection, key, SessionId("s_1"), b"{}")

    await write(store, work)
    assert await store.read(lambda db: clients.find(db, client.id)) == client
    assert await store.read(lambda db: idempotency.answer_to(db, key)) == b"{}"
    assert await write(store, lambda tx: clients.forget(tx.connection, "2021")) == 1
    assert await write(store, lambda tx: idempotency.forget(tx.connection, "2021")) == 0
    assert await write(store, lambda tx: idempotency.forget(tx.connection, "2999")) == 1
    assert await store.read(lambda db: clients.find(db, client.id)) is None


def tables_with_a_session(db: sqlite3.Connection) -> list[str]:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        name for name in names if any(column[1] == "session_id" for column in db.execute(f"PRAGMA table_info({name})"))
    ]


def fill(tx: Tx, session: sessions.SessionRecord) -> None:
    """A row in every table that can belong to a session."""
    db = tx.connection
    sessions.put(db, session)
    said = message(session.id, "secret")
    messages.add(db, said)
    turns.put(db, turn(session.id), "secret")
    calls.put(db, call(session.id, call_id=f"{said.id}#0"))
    asks.open_ask(db, ask(session.id, session.root_id))
    tasks.put(db, task(session.id, f"b{session.id[2:]}"))
    usage.add(db, session.id, None, "m", Usage(input_tokens=1))
    results.put(db, new_result_id(), session.id, "secret", tool="Bash")
    idempotency.remember(db, idempotency.Key("session/create", session.id, "d"), session.id, b"{}")
    tx.append("message.completed", Scope(session.id, session.root_id), reference=said.id)


async def test_deleting_a_session_leaves_no_row_of_it_in_any_table(store: Store) -> None:
    gone, kept = record(new_session_id()), record(new_session_id())
    child = record(new_session_id(), root_id=kept.id, parent_id=kept.id)
    for one in (gone, kept, child):
        await write(store, lambda tx, one=one: fill(tx, one))
    tables = await store.read(tables_with_a_session)
    assert len(tables) >= 9

    async def rows(session_id: SessionId) -> list[int]:
        count = "SELECT count(*) FROM {} WHERE session_id = ?"
        return await store.read(
            lambda db: [db.execute(count.format(table), (session_id,)).fetchone()[0] for table in tables]
        )

    for one in (gone, kept, child):  # the test would prove nothing if fill had forgotten a table
        assert all(await rows(one.id))
    for one in (gone, child):
        await write(store, lambda tx, one=one: sessions.delete(tx.connection, one))
        assert not any(await rows(one.id))
        with pytest.raises(SessionNotFound):
            await store.read(partial(sessions.get, session_id=one.id))
    assert all(await rows(kept.id))
    left = await store.read(lambda db: db.execute("SELECT count(*) FROM result_pieces").fetchone()[0])
    assert left == 1


async def test_an_event_refers_to_its_message_instead_of_copying_it(store: Store) -> None:
    session_id = new_session_id()
    long = message(session_id, "x" * 100_000)

    def work(tx: Tx) -> None:
        messages.add(tx.connection, long)
        tx.append("message.completed", Scope(session_id, session_id), reference=long.id)

    await write(store, work)
    size = await store.read(
        lambda db: db.execute("SELECT sum(length(coalesce(data_json, ''))) FROM events").fetchone()[0]
    )
    assert size == 0
    (event,), _ = await store.read(lambda db: events.page(db, Cursor(0), [session_id], 10))
    assert len(event.data) > 100_000


async def test_a_message_shares_what_its_calls_printed_and_a_fork_keeps_it(store: Store) -> None:
    source, fork = new_session_id(), new_session_id()
    content = [{"type": "text", "text": "printed " * 1000}]
    done = call(source, "completed").model_copy(update={"content": content})
    shape = {"id": "m_2", "session_id": source, "role": "user", "created_at": NOW}
    results_of = [
        {"type": "tool_result", "tool_use_id": "same", "content": content},
        {"type": "tool_result", "tool_use_id": "other", "content": "replaced since", "is_error": True},
    ]
    brought = Message.model_validate({**shape, "content": results_of})

    def work(tx: Tx) -> None:
        calls.put(tx.connection, done)
        messages.add(tx.connection, brought, {"same": done.call_id, "other": done.call_id})
        messages.copy(tx.connection, source, fork, None)

    await write(store, work)
    lean = "SELECT length(content_json) FROM messages WHERE session_id = ?"
    assert await store.read(lambda db: db.execute(lean, (source,)).fetchone()[0]) < 300
    (found,) = (await store.read(lambda db: messages.page(db, source, 0, 10))).messages
    assert found == brought
    await write(store, lambda tx: sessions.delete(tx.connection, record(source)))
    (forked,) = (await store.read(lambda db: messages.page(db, fork, 0, 10))).messages
    assert forked.content == brought.content


async def test_a_page_of_messages_is_bounded_in_number_and_in_bytes(store: Store) -> None:
    session_id = new_session_id()
    said = [message(session_id, "x" * size) for size in (10, 5000, 5000, 10, 10)]

    def work(tx: Tx) -> None:
        for one in said:
            messages.add(tx.connection, one)

    await write(store, work)

    async def pages(limit: int, max_bytes: int) -> list[int]:
        sizes, after, more = [], 0, True
        while more:
            start = after
            page = await store.read(lambda db: messages.page(db, session_id, start, limit, max_bytes))  # noqa: B023
            sizes.append(len(page.messages))
            after, more = page.last, page.more
        return sizes

    assert await pages(2, 10**9) == [2, 2, 1]
    assert await pages(5, 10**9) == [5]
    assert await pages(500, 4000) == [2, 1, 2]  # never empty: one that is too large comes alone
    assert (await store.read(lambda db: messages.page(db, SessionId("s_none"), 0, 10))).messages == []


async def test_freed_pages_go_back_to_the_file_system(store: Store) -> None:
    session = record(new_session_id())

    def work(tx: Tx) -> None:
        sessions.put(tx.connection, session)
        import random

        for _ in range(40):
            text = "".join(random.choices("0123456789abcdef", k=200_000))  # what does not pack well
            results.put(tx.connection, new_result_id(), session.id, text, tool="Bash")

    from ostler.storage.check import give_back_pages

    await write(store, work)
    await store.writer.submit(lambda tx: None, lambda appended: None)
    full = await store.read(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
    await write(store, lambda tx: sessions.delete(tx.connection, session))
    rounds = 1
    while await write(store, give_back_pages):
        rounds += 1
    assert rounds < 10
    assert await store.read(lambda db: db.execute("PRAGMA page_count").fetchone()[0]) < full / 2


async def test_a_database_that_cannot_give_pages_back_is_not_asked_for_ever(tmp_path: Path) -> None:
    from ostler.storage.check import give_back_pages

    path = tmp_path / "ostler.db"
    plain = sqlite3.connect(path)
    plain.executescript((Path(__file__).parent / "databases" / "version_0001.sql").read_text())
    plain.close()
    store = open_store(path, pending_limit=100)
    session = record(new_session_id())

    def fill_and_delete(tx: Tx) -> None:
        sessions.put(tx.connection, session)
        results.put(tx.connection, new_result_id(), session.id, "".join(map(str, range(200_000))), tool="Bash")

    await write(store, fill_and_delete)
    await write(store, lambda tx: sessions.delete(tx.connection, session))
    assert not await write(store, give_back_pages)
    await store.close()


def test_times_sort_as_they_are() -> None:
    assert times.now() > NOW
    assert len(times.now()) == len(NOW)

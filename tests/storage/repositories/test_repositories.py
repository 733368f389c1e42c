"""Repositories: what is stored in each is read back unchanged."""

import sqlite3
from pathlib import Path

import pytest

from ostler.protocol import times
from ostler.protocol.ids import (
    AskId,
    CallId,
    ClientId,
    ResultId,
    SessionId,
    TaskId,
    TurnId,
    new_result_id,
    new_session_id,
)
from ostler.protocol.shapes import Usage
from ostler.storage import Snapshot, Store, Tx
from ostler.storage.repositories import (
    clients,
    idempotency,
    trust,
)
from ostler.storage.repositories.tasks import TaskRecord
from ostler.storage.sqlite.database import open_database
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

pytestmark = pytest.mark.anyio


async def test_a_session_comes_back_as_it_was(store: Store) -> None:
    session_id = new_session_id()
    stored = build_session_record(
        session_id, title="ü", directories=("/a",), metadata={"x": [1]}, options={"tools": "full"}, trusted=True
    )
    await write(store, lambda tx: tx.sessions.put(stored))
    assert await store.read(lambda db: db.sessions.get(session_id)) == stored


async def test_turns_know_which_is_current_and_which_are_unfinished(store: Store) -> None:
    session_id = new_session_id()
    running, queued = build_turn(session_id), build_turn(session_id, "queued")

    def work(tx: Tx) -> None:
        tx.turns.put(running, "do it")
        tx.turns.put(queued, [{"type": "text", "text": "then this"}])

    await write(store, work)
    assert await store.read(lambda db: db.turns.find_current(session_id)) == running
    assert await store.read(lambda db: db.turns.list_unfinished_sessions()) == [session_id]
    assert await store.read(lambda db: db.turns.load_input(running.id)) == "do it"
    for one in (running, queued):
        ended = one.model_copy(update={"status": "ended", "reason": "completed"})
        await write(store, lambda tx, ended=ended: tx.turns.update(ended))
    assert await store.read(lambda db: db.turns.find_current(session_id)) is None
    assert await store.read(lambda db: db.turns.list_unfinished_sessions()) == []
    found = await store.read(lambda db: db.turns.find(running.id))
    assert found is not None
    assert found.reason == "completed"
    assert [one.id for one in await store.read(lambda db: db.turns.list_by_session(session_id))] == [
        running.id,
        queued.id,
    ]
    assert await store.read(lambda db: db.turns.find(TurnId("t_none"))) is None


async def test_calls_know_which_are_unfinished(store: Store) -> None:
    session_id = new_session_id()
    first, second = build_call(session_id, call_id="m_1#0"), build_call(session_id, call_id="m_1#1")

    def work(tx: Tx) -> None:
        tx.calls.put(first)
        tx.calls.put(second)
        tx.calls.put(first.model_copy(update={"status": "completed", "output": {"a": 1}}))

    await write(store, work)
    assert await store.read(lambda db: db.calls.list_unfinished(session_id)) == [second]
    done = await store.read(lambda db: db.calls.find(CallId("m_1#0")))
    assert done is not None
    assert done.output == {"a": 1}


async def test_an_ask_is_settled_once_whoever_is_faster(store: Store) -> None:
    session_id = new_session_id()
    opened = build_ask(session_id)
    await write(store, lambda tx: tx.asks.open_ask(opened, tx.next_cursor))
    assert await store.read(lambda db: db.asks.list_open(session_id)) == [opened]
    yes = opened.model_copy(update={"status": "resolved", "answer": {"choice": "allow"}})
    no = opened.model_copy(update={"status": "resolved", "answer": {"choice": "deny"}})
    assert await write(store, lambda tx: tx.asks.settle(yes))
    assert not await write(store, lambda tx: tx.asks.settle(no))
    found = await store.read(lambda db: db.asks.find(opened.id))
    assert found is not None
    assert found.answer == {"choice": "allow"}
    assert await store.read(lambda db: db.asks.list_open(session_id)) == []
    assert await store.read(lambda db: db.asks.find(AskId("k_none"))) is None


async def test_tasks_know_what_was_running(store: Store) -> None:
    session_id = new_session_id()

    def work(tx: Tx) -> None:
        tx.tasks.put(TaskRecord(build_task(session_id, "b1")))
        tx.tasks.put(TaskRecord(build_task(session_id, "b2", "completed")))

    await write(store, work)
    assert [one.task.id for one in await store.read(lambda db: db.tasks.list_unfinished())] == ["b1"]
    assert [one.task.id for one in await store.read(lambda db: db.tasks.list_by_sessions([session_id]))] == [
        "b1",
        "b2",
    ]
    found = await store.read(lambda db: db.tasks.find(TaskId("b2")))
    assert found is not None
    assert found.task.status == "completed"


async def test_money_is_summed_without_rounding_and_unknown_prices_stay_unknown(store: Store) -> None:
    priced, unpriced = new_session_id(), new_session_id()

    def work(tx: Tx) -> None:
        for _ in range(10):
            tx.usage.add(priced, None, "m", Usage(input_tokens=1, output_tokens=2, cost_usd="0.1"))
        tx.usage.add(unpriced, None, "m", Usage(input_tokens=1, cost_usd="0.1"))
        tx.usage.add(unpriced, None, "other", Usage(input_tokens=1, cost_usd=None))

    await write(store, work)
    totals = await store.read(lambda db: db.usage.sum_sessions([priced, unpriced, SessionId("s_none")]))
    assert totals[priced] == Usage(input_tokens=10, output_tokens=20, cost_usd="1.0")
    assert (totals[unpriced].input_tokens, totals[unpriced].cost_usd) == (2, None)
    assert totals[SessionId("s_none")] == Usage()


@pytest.mark.parametrize("text", ["", "short", "ü🐎" * 50_000, "x" * 65_536, "x" * 65_537, "a\0b", "\ud800 lone"])
async def test_a_result_comes_back_by_range(store: Store, text: str) -> None:
    session_id, result_id = new_session_id(), new_result_id()
    stored = await write(store, lambda tx: tx.results.put(result_id, session_id, text, tool="Bash"))
    wanted = text.replace("\ud800", "?")
    assert await store.read(lambda db: db.results.find(result_id)) == stored
    assert stored.total_chars == len(text)
    assert stored.total_bytes == len(wanted.encode())
    assert await store.read(lambda db: db.results.read(result_id, 0, len(text) + 1)) == wanted
    assert await store.read(lambda db: db.results.read(result_id, 65_530, 20)) == wanted[65_530:65_550]
    assert await store.read(lambda db: db.results.read(result_id, len(text) + 5, 10)) == ""
    assert await store.read(lambda db: db.results.find(ResultId("r_none"))) is None


async def test_trust_is_bound_to_a_digest_and_can_be_revoked(store: Store) -> None:
    granted = trust.TrustRecord("/project", "digest", NOW, ClientId("c_1"))
    await write(store, lambda tx: tx.trust.grant(granted))
    assert await store.read(lambda db: db.trust.find("/project")) == granted
    assert await store.read(lambda db: db.trust.list_all()) == [granted]
    assert await write(store, lambda tx: tx.trust.revoke("/project"))
    assert not await write(store, lambda tx: tx.trust.revoke("/project"))
    assert await store.read(lambda db: db.trust.find("/project")) is None


async def test_clients_and_keys_are_forgotten_in_time(store: Store) -> None:
    client = clients.ClientRecord(ClientId("c_1"), "vim", "9", "ide", {"deltas": False}, "2020-01-01T00:00:00.000Z")
    key = idempotency.Key("session/create", "k", "digest")

    def work(tx: Tx) -> None:
        tx.clients.put(client)
        assert tx.idempotency.claim(key, SessionId("s_1")) is None
        tx.idempotency.remember(key, Usage())

    await write(store, work)
    assert await write(store, lambda tx: tx.idempotency.claim(key, SessionId("s_2"))) == Usage().encoded()
    assert await store.read(lambda db: db.clients.find(client.id)) == client
    assert await store.read(lambda db: db.idempotency.find_answer(key)) == Usage().encoded()
    assert await write(store, lambda tx: tx.clients.forget("2021")) == 1
    assert await write(store, lambda tx: tx.idempotency.forget("2021")) == 0
    assert await write(store, lambda tx: tx.idempotency.forget("2999")) == 1
    assert await store.read(lambda db: db.clients.find(client.id)) is None


async def test_a_page_of_messages_is_bounded_in_number_and_in_bytes(store: Store) -> None:
    session_id = new_session_id()
    stored_messages = [build_message(session_id, "x" * size) for size in (10, 5000, 5000, 10, 10)]

    def work(tx: Tx) -> None:
        for one in stored_messages:
            tx.messages.add(one)

    await write(store, work)

    async def pages(limit: int, max_bytes: int) -> list[int]:
        sizes, after, more = [], 0, True
        while more:
            start = after
            page = await store.read(lambda db: db.messages.list_page(session_id, start, limit, max_bytes))  # noqa: B023
            sizes.append(len(page.messages))
            after, more = page.last, page.more
        return sizes

    assert await pages(2, 10**9) == [2, 2, 1]
    assert await pages(5, 10**9) == [5]
    assert await pages(500, 4000) == [2, 1, 2]  # never empty: one that is too large comes alone
    assert (await store.read(lambda db: db.messages.list_page(SessionId("s_none"), 0, 10))).messages == []


def test_times_sort_as_they_are() -> None:
    assert times.now() > NOW
    assert len(times.now()) == len(NOW)


def test_a_task_of_a_stored_database_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    old = sqlite3.connect(path)
    old.executescript((DATABASES / "version_0004.sql").read_text())
    old.close()
    connection = open_database(path).connection
    (left,) = Snapshot(connection).tasks.list_unfinished()
    assert (left.task.id, left.turn_id, left.pid, left.output) == ("b7k2m1q9z", "t_1", 4194000, "/gone/call-x.out")
    assert (left.read_bytes, left.told) == (0, False)
    connection.close()

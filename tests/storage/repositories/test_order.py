"""Lists are in the order of the log, not of ids, which hold times of several clocks; a node recovers its own."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.protocol.ids import AskId, CallId, Cursor, TaskId, TurnId, new_session_id
from ostler.storage import Snapshot, Store, Tx
from ostler.storage.node import Node
from ostler.storage.repositories.processes import ProcessRecord
from ostler.storage.repositories.tasks import TaskRecord
from ostler.storage.sqlite.database import open_database
from tests.storage.records import build_ask, build_task, build_turn, write
from tests.support.repository import DATABASES

pytestmark = pytest.mark.anyio

IDS = ("9", "5", "1")
"""Of things that came in this order: the clock of each was behind the one before."""


async def test_asks_are_listed_as_they_were_opened_whatever_their_ids(store: Store) -> None:
    session_id = new_session_id()

    def work(tx: Tx) -> None:
        for place, one in enumerate(IDS, 1):
            tx.asks.open_ask(build_ask(session_id).model_copy(update={"id": AskId(f"k_{one}")}), Cursor(place))

    await write(store, work)
    wanted = [f"k_{one}" for one in IDS]
    assert [ask.id for ask in await store.read(lambda db: db.asks.list_open(session_id))] == wanted
    first = await store.read(lambda db: db.asks.list_page(None, None, "open", None, 2))
    rest = await store.read(lambda db: db.asks.list_page(session_id, None, None, first.last, 2))
    assert [ask.id for ask in (*first.asks, *rest.asks)] == wanted
    assert (first.last, rest.last) == (2, None)


async def test_turns_are_listed_and_begun_as_they_came_whatever_their_ids(store: Store) -> None:
    session_id = new_session_id()

    def work(tx: Tx) -> None:
        for place, one in enumerate(IDS, 1):
            turn = build_turn(session_id, "queued").model_copy(update={"id": TurnId(f"t_{one}"), "cursor": place})
            tx.turns.put(turn, "go on")

    await write(store, work)
    wanted = [f"t_{one}" for one in IDS]
    assert [turn.id for turn in await store.read(lambda db: db.turns.list_queued(session_id))] == wanted
    first = await store.read(lambda db: db.turns.list_page(session_id, None, 1))
    rest = await store.read(lambda db: db.turns.list_page(session_id, first[0].id, 5))
    assert [turn.id for turn in (*first, *rest)] == wanted
    for turn, reason in zip((*first, *rest), ("failed", "completed", "timeout"), strict=True):
        ended = turn.changed(status="ended", reason=reason)
        await write(store, lambda tx, ended=ended: tx.turns.update(ended))
    assert await store.read(lambda db: db.turns.find_last_reason(session_id)) == "timeout"


async def test_tasks_are_listed_as_they_were_started_whatever_their_clock_said(store: Store) -> None:
    session_id = new_session_id()

    def work(tx: Tx) -> None:
        for place, one in enumerate(IDS, 1):
            task = build_task(session_id, f"b{one}").changed(started_at=f"2026-01-0{one}T00:00:00.000Z")
            tx.tasks.put(TaskRecord(task, cursor=Cursor(place)))

    await write(store, work)
    wanted = [f"b{one}" for one in IDS]
    found = await store.read(lambda db: db.tasks.list_page(None, None, Cursor(0), 5))
    assert [record.task.id for record in found] == wanted
    found = await store.read(lambda db: db.tasks.list_by_sessions([session_id]))
    assert [record.task.id for record in found] == wanted


@pytest.mark.parametrize("version", ["version_0001", "version_0005"])
def test_what_a_stored_database_holds_keeps_its_order_before_all_that_comes(tmp_path: Path, version: str) -> None:
    path = tmp_path / "ostler.db"
    session_id = new_session_id()
    with closing(sqlite3.connect(path)) as old:
        old.executescript((DATABASES / f"{version}.sql").read_text())
        for one in IDS:
            turn, ask = build_turn(session_id), build_ask(session_id)
            turn, ask = turn.changed(id=TurnId(f"t_{one}")), ask.changed(id=AskId(f"k_{one}"))
            values = (turn.id, session_id, "queued", turn.encoded().decode(), "{}")
            old.execute("INSERT INTO turns (id, session_id, status, turn_json, input_json) VALUES (?,?,?,?,?)", values)
            row = (ask.id, session_id, session_id, "open", ask.encoded().decode())
            old.execute("INSERT INTO asks (id, session_id, root_id, status, ask_json) VALUES (?, ?, ?, ?, ?)", row)
        old.commit()
    with closing(open_database(path).connection) as connection:
        snapshot = Snapshot(connection)
        new = build_turn(session_id, "queued").changed(id=TurnId("t_0"), cursor=snapshot.events.load_head() + 1)
        snapshot.turns.put(new, "new")
        queued = [turn.id for turn in snapshot.turns.list_queued(session_id)]
        assert queued == ["t_1", "t_5", "t_9", "t_0"]
        page = snapshot.asks.list_page(session_id, None, None, None, 2)
        assert [ask.id for ask in page.asks] == ["k_1", "k_5"]
        assert [ask.id for ask in snapshot.asks.list_page(session_id, None, None, page.last, 2).asks] == ["k_9"]


def test_a_node_recovers_its_own_processes_and_tasks_only(tmp_path: Path) -> None:
    session_id = new_session_id()
    with closing(open_database(tmp_path / "ostler.db").connection) as connection:
        here, there = Snapshot(connection), Snapshot(connection, Node("2"))
        process = ProcessRecord(4711, "1", session_id, CallId("m_1#0"))
        for node, name in ((here, "b1"), (there, "b2")):
            node.processes.add(process)  # the same pid on both
            record = TaskRecord(build_task(session_id, name), output=f"/tmp/{name}.out")
            node.tasks.put(record)
            node.tasks.put(replace(record, task=build_task(session_id, f"{name}_done", "completed")))
        for node, name in ((here, "b1"), (there, "b2")):
            assert node.processes.list_left_over() == [process]
            assert [record.task.id for record in node.tasks.list_unfinished()] == [name]
            assert [record.task.id for record in node.tasks.list_unreported()] == [f"{name}_done"]
            assert node.tasks.list_output_files() == {f"/tmp/{name}.out"}
        here.processes.drop(process.pid, process.start_time)
        assert (here.processes.list_left_over(), there.processes.list_left_over()) == ([], [process])
        found = here.tasks.find(TaskId("b2"))
        assert found is not None
        assert found.task.session_id == session_id

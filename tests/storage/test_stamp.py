"""The cursors of a unit of work are given last, and everything that holds one holds the right one."""

import threading
from typing import Any

import orjson
import pytest

from ostler.protocol.events import Notice, TurnData
from ostler.protocol.ids import Cursor, SessionId, TurnId, new_session_id
from ostler.protocol.session import Session
from ostler.protocol.shapes import Turn, Usage
from ostler.server.engine.journal.session_view import append_session_event
from ostler.storage import Scope, Store, Tx
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.tasks import TaskRecord
from ostler.storage.stamp import PLACES
from tests.storage.records import build_ask, build_message, build_session_record, build_task, build_turn, write
from tests.support.rows import reach_connection

pytestmark = pytest.mark.anyio

KEY = Key("turn/start", "key", "digest")


class Writers:
    """Units that are written in one batch: they are queued while the writer is held."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.events: list[LoggedEvent] = []
        self._gate = threading.Event()
        self._units: list[Any] = []
        store.writer.submit(lambda tx: self._gate.wait(10), lambda appended: None)

    def add(self, work: Any) -> None:
        self._units.append(self.store.writer.submit(work, self.events.extend))

    async def run(self) -> list[Any]:
        before = self.store.writer.counts.commits
        self._gate.set()
        results: list[Any] = []
        for unit in self._units:
            try:
                results.append(await unit)
            except ValueError as error:
                results.append(str(error))
        assert self.store.writer.counts.commits - before <= 2
        return results


def scope_of(record: SessionRecord, turn_id: TurnId | None = None) -> Scope:
    return Scope(record.id, record.root_id, turn_id)


def begin_turn(record: SessionRecord, key: Key | None = None) -> Any:
    """A unit like that of `turn/start`: the row, its event, and one about the session that holds the turn."""

    def work(tx: Tx) -> Turn:
        if key is not None and (answer := tx.idempotency.claim(key, record.id)) is not None:
            return Turn.model_validate_json(answer)
        turn = build_turn(record.id).model_copy(update={"cursor": tx.next_cursor})
        tx.turns.put(turn, "go on")
        tx.append("turn.started", scope_of(record, turn.id), data=TurnData(turn=turn))
        append_session_event(tx, "session.updated", record, Usage(), turn)
        if key is not None:
            tx.idempotency.remember(key, turn)
        return turn

    return work


def make_record(tx: Tx, session_id: SessionId) -> SessionRecord:
    record = build_session_record(session_id)
    tx.sessions.put(record)
    return record


def notice(tx: Tx) -> Cursor:
    return tx.append("notice", Scope(), data=Notice(level="info", text="here"))


def fail(tx: Tx) -> None:
    notice(tx)
    raise ValueError("a unit that fails")


async def find_places(store: Store) -> list[str]:
    """The tables in which a place was left instead of a cursor."""

    def work(snapshot: Any) -> list[str]:
        connection = reach_connection(snapshot)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = ((table, repr(row)) for table in tables for row in connection.execute(f"SELECT * FROM {table}"))
        return [table for table, row in rows if str(PLACES)[:12] in row]

    return await store.read(work)


async def test_a_unit_has_no_cursor_while_it_works_and_its_caller_has_it(store: Store) -> None:
    seen: list[int] = []

    def work(tx: Tx) -> Cursor:
        seen.append(tx.head)
        last = [notice(tx) for _ in range(3)][-1]
        assert tx.last_cursor == last > PLACES
        seen.append(tx.head)
        assert not tx.appended
        return last

    writers = Writers(store)
    writers.add(work)
    writers.add(work)
    assert await writers.run() == [3, 6]
    # The end of the log was not moved before both had run.
    assert seen == [0, 0, 0, 0]
    assert [event.cursor for event in writers.events] == [1, 2, 3, 4, 5, 6]


async def test_rows_events_and_answers_hold_the_cursor_of_their_line(store: Store) -> None:
    session_id = new_session_id()
    record = await write(store, lambda tx: make_record(tx, session_id))
    writers = Writers(store)
    asks = [build_ask(session_id) for _ in range(2)]

    def open_asks(tx: Tx) -> None:
        for ask in asks:
            tx.asks.open_ask(ask, tx.next_cursor)
            tx.append("ask.opened", scope_of(record), reference=ask.id, thing=ask)
        # As `turn/list` and the like would find them in the same batch: in their order, behind all that is stored.
        assert [ask.id for ask in tx.asks.list_open(session_id)] == [ask.id for ask in asks]

    def start_task(tx: Tx) -> None:
        tx.tasks.put(TaskRecord(build_task(session_id, "b1"), cursor=tx.next_cursor))
        notice(tx)

    writers.add(begin_turn(record, KEY))
    writers.add(begin_turn(record, KEY))
    writers.add(open_asks)
    writers.add(start_task)
    first, again, *_ = await writers.run()
    assert first == again
    assert first.cursor == 1
    found = await store.read(lambda snapshot: snapshot.turns.find(first.id))
    assert found == first
    assert (await store.read(lambda snapshot: snapshot.turns.list_page(session_id, None, 5))) == [first]
    answer = await store.read(lambda snapshot: snapshot.idempotency.find_answer(KEY))
    assert Turn.model_validate_json(answer or b"") == first
    assert (await store.read(lambda snapshot: snapshot.asks.list_page(None, None, None, None, 1))).last == 3
    [task] = await store.read(lambda snapshot: snapshot.tasks.list_by_sessions([session_id]))
    assert task.cursor == 5
    started, updated, *_ = (orjson.loads(event.data) for event in writers.events)
    assert started["turn"]["cursor"] == 1
    session = Session.model_validate(updated["session"])
    assert (session.cursor, session.turn) == (2, first)
    # What was published is what is replayed, byte for byte.
    replayed, _ = await store.read(lambda snapshot: snapshot.events.list_page(Cursor(0), None, 100))
    assert replayed == writers.events
    assert await find_places(store) == []


async def test_a_unit_that_fails_beside_others_leaves_no_gap(store: Store) -> None:
    session_id = new_session_id()
    record = await write(store, lambda tx: make_record(tx, session_id))
    writers = Writers(store)
    for work in (notice, fail, begin_turn(record, KEY), fail, begin_turn(record, KEY), notice):
        writers.add(work)
    first, failed, turn, _, again, last = await writers.run()
    assert (first, failed, turn.cursor, again, last) == (1, "a unit that fails", 2, turn, 4)
    assert [event.cursor for event in writers.events] == [1, 2, 3, 4]
    assert await find_places(store) == []


async def test_a_session_deleted_with_its_newest_lines_leaves_none_of_them(store: Store) -> None:
    session_id = new_session_id()
    record = await write(store, lambda tx: make_record(tx, session_id))

    def delete(tx: Tx) -> None:
        tx.drop_lines(session_id)
        tx.sessions.delete(record)
        append_session_event(tx, "session.deleted", record, Usage(), None)

    writers = Writers(store)
    writers.add(begin_turn(record))
    writers.add(delete)
    turn, _ = await writers.run()
    assert turn.cursor == 1
    # Whoever listens is told of them; whoever comes later is not.
    assert [event.type for event in writers.events] == ["turn.started", "session.updated", "session.deleted"]
    replayed, _ = await store.read(lambda snapshot: snapshot.events.list_page(Cursor(0), None, 100))
    assert [(event.cursor, event.type) for event in replayed] == [(3, "session.deleted")]
    assert await find_places(store) == []


async def test_a_page_of_the_log_is_read_with_a_query_for_each_noun(store: Store) -> None:
    session_id = new_session_id()

    def fill(tx: Tx) -> None:
        record = make_record(tx, session_id)
        for number in range(60):
            message = build_message(session_id, f"line {number}")
            tx.messages.add(message)
            tx.append("message.completed", scope_of(record), reference=message.id)
            ask = build_ask(session_id)
            tx.asks.open_ask(ask, tx.next_cursor)
            tx.append("ask.opened", scope_of(record), reference=ask.id)
            append_session_event(tx, "session.updated", record, Usage(), None)

    events: list[LoggedEvent] = []
    await store.writer.submit(fill, events.extend)

    def read(snapshot: Any) -> tuple[list[LoggedEvent], int]:
        queries: list[str] = []
        connection = reach_connection(snapshot)
        connection.set_trace_callback(queries.append)
        page, _ = snapshot.events.list_page(Cursor(0), None, 500)
        connection.set_trace_callback(None)
        return page, len(queries)

    page, queries = await store.read(read)
    assert page == events
    assert len(page) == 180
    # 4, 8, 16, 32, 64 and 128 lines at a time; it was one or more for each line.
    assert queries <= 1 + 6 * 2

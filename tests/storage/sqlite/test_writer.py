"""The one writer: units of work are whole, in order, and acknowledged only when they are on the disk."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.protocol.errors import Conflict, Overloaded, ReadOnly, ShuttingDown, StorageFailed
from ostler.protocol.events import Notice
from ostler.protocol.ids import Cursor
from ostler.storage import Scope, Snapshot, Store, Tx, open_store
from ostler.storage.repositories.events import LoggedEvent
from tests.support.rows import reach_connection, select_value

pytestmark = pytest.mark.anyio


def insert_key(key: str, value: str = "x") -> "InsertKey":
    return InsertKey(key, value)


class InsertKey:
    def __init__(self, key: str, value: str) -> None:
        self.key, self.value = key, value

    def __call__(self, tx: Tx) -> str:
        reach_connection(tx).execute("INSERT INTO meta (key, value) VALUES (?, ?)", (self.key, self.value))
        return self.key


def ignore_events(appended: list[LoggedEvent]) -> None:
    """Takes the events of a commit, for nobody."""


async def load_keys(store: Store) -> set[str]:
    query = "SELECT key FROM meta WHERE key LIKE 'k%'"
    rows = await store.read(lambda snapshot: reach_connection(snapshot).execute(query).fetchall())
    return {row[0] for row in rows}


async def test_units_that_wait_together_are_committed_together(store: Store) -> None:
    gate = threading.Event()
    first = store.writer.submit(lambda tx: gate.wait(10), ignore_events)
    rest = [store.writer.submit(insert_key(f"k{number}"), ignore_events) for number in range(100)]
    gate.set()
    await first
    assert [await one for one in rest] == [f"k{number}" for number in range(100)]
    assert store.writer.counts.commits <= 3
    assert store.writer.counts.units == 101
    assert len(await load_keys(store)) == 100


async def test_units_that_nobody_waits_for_share_the_commit_of_the_next_that_somebody_waits_for(store: Store) -> None:
    before = store.writer.counts.commits
    relaxed = [store.writer.submit(insert_key(f"k{number}"), ignore_events, urgent=False) for number in range(10)]
    await store.writer.submit(insert_key("k-urgent"), ignore_events)
    assert all(one.done() for one in relaxed)
    assert store.writer.counts.commits == before + 1


async def test_a_unit_that_nobody_waits_for_is_written_by_itself_a_moment_later(store: Store) -> None:
    await store.writer.submit(insert_key("k1"), ignore_events, urgent=False)
    assert await load_keys(store) == {"k1"}


async def test_a_stop_writes_what_nobody_waits_for(store: Store, tmp_path: Path) -> None:
    relaxed = store.writer.submit(insert_key("k1"), ignore_events, urgent=False)
    await store.writer.close()
    assert await relaxed == "k1"


async def test_a_unit_that_fails_leaves_nothing_and_the_others_go_on(store: Store) -> None:
    def broken(tx: Tx) -> None:
        insert_key("k-broken")(tx)
        tx.append("notice", Scope(), data=Notice(level="info", text="never"))
        raise Conflict("no")

    seen: list[int] = []
    gate = threading.Event()
    store.writer.submit(lambda tx: gate.wait(10), ignore_events)
    before = store.writer.submit(insert_key("k1"), ignore_events)
    failed = store.writer.submit(broken, lambda appended: seen.append(len(appended)))
    after = store.writer.submit(insert_key("k2"), ignore_events)
    noticed = store.writer.submit(
        lambda tx: tx.append("notice", Scope(), data=Notice(level="info", text="1")), ignore_events
    )
    gate.set()
    await before
    with pytest.raises(Conflict):
        await failed
    await after
    assert await noticed == 1  # the cursor that the failed unit had was never given
    assert seen == [0]
    assert await load_keys(store) == {"k1", "k2"}


async def test_what_was_acknowledged_is_in_the_file(store: Store) -> None:
    await store.writer.submit(insert_key("k1"), ignore_events)
    copy = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    assert copy.execute("SELECT count(*) FROM meta WHERE key = 'k1'").fetchone() == (1,)
    copy.close()


async def test_events_are_told_before_the_caller_goes_on(store: Store) -> None:
    order: list[str] = []

    def work(tx: Tx) -> None:
        tx.append("notice", Scope(), data=Notice(level="info", text="told"))

    await store.writer.submit(work, lambda appended: order.append(appended[0].type))
    order.append("went on")
    assert order == ["notice", "went on"]


async def test_a_caller_that_is_cancelled_still_has_its_unit_written(store: Store) -> None:
    gate = threading.Event()
    store.writer.submit(lambda tx: gate.wait(10), ignore_events)
    future = store.writer.submit(insert_key("k1"), ignore_events)
    future.cancel()
    gate.set()
    await store.writer.submit(insert_key("k2"), ignore_events)
    assert await load_keys(store) == {"k1", "k2"}


async def test_too_many_units_that_wait_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "ostler.db", pending_limit=3)
    gate = threading.Event()
    held = [store.writer.submit(lambda tx: gate.wait(10), ignore_events) for _ in range(3)]
    with pytest.raises(Overloaded) as refused:
        store.writer.submit(insert_key("k1"), ignore_events)
    assert refused.value.data["retry_after_ms"] > 0
    gate.set()
    await asyncio.gather(*held)
    await store.writer.submit(insert_key("k1"), ignore_events)
    await store.close()


async def test_a_damaged_database_is_not_written_any_more(store: Store) -> None:
    store.writer.turn_read_only("the database is damaged")
    with pytest.raises(ReadOnly, match="damaged"):
        store.writer.submit(insert_key("k1"), ignore_events)
    assert await load_keys(store) == set()


async def test_a_closed_store_takes_nothing_and_leaves_one_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "ostler.db", pending_limit=10)
    last = store.writer.submit(insert_key("k1"), ignore_events)
    await store.close()
    assert last.done()
    with pytest.raises(ShuttingDown):
        store.writer.submit(insert_key("k2"), ignore_events)
    assert os.listdir(tmp_path) == ["ostler.db"]


async def test_an_unclean_stop_is_noticed_and_a_clean_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    store = open_store(path, pending_limit=10)
    await store.writer.submit(insert_key("k1"), ignore_events)
    crash = tmp_path / "crash"
    crash.mkdir()
    for name in ("ostler.db", "ostler.db-wal"):
        (crash / name).write_bytes((tmp_path / name).read_bytes())
    await store.close()
    again = open_store(path, pending_limit=10)
    assert not again.unclean
    await again.close()
    crashed = open_store(crash / "ostler.db", pending_limit=10)
    assert crashed.unclean
    assert await load_keys(crashed) == {"k1"}
    await crashed.close()


async def test_the_write_ahead_log_does_not_grow_without_end(store: Store) -> None:
    for number in range(60):
        await store.writer.submit(insert_key(f"k{number}", "x" * 500_000), ignore_events)
    wal = store.path.with_name("ostler.db-wal")
    assert wal.stat().st_size < 12_000_000  # 30 MB went through it


async def test_a_read_sees_one_moment(store: Store) -> None:
    """What others write during a read is not seen by it."""
    looked, written = threading.Event(), threading.Event()

    def look(snapshot: Snapshot) -> tuple[int, int]:
        before = select_value(snapshot, "SELECT count(*) FROM meta")
        looked.set()
        written.wait(10)
        return before, select_value(snapshot, "SELECT count(*) FROM meta")

    reading = asyncio.create_task(store.read(look))
    await asyncio.to_thread(looked.wait, 10)
    await store.writer.submit(insert_key("k1"), ignore_events)
    written.set()
    before, after = await reading
    assert before == after


async def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StorageFailed):
        await store.read(lambda snapshot: reach_connection(snapshot).execute("DELETE FROM meta"))


async def test_pages_of_the_log_meet_without_gap_or_double(store: Store) -> None:
    def work(tx: Tx) -> None:
        for number in range(25):
            tx.append("notice", Scope(), data=Notice(level="info", text=str(number)))

    await store.writer.submit(work, ignore_events)
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        start = after
        found, after = await store.read(lambda snapshot: snapshot.events.list_page(Cursor(start), None, 10))  # noqa: B023
        seen += [event.cursor for event in found]
    assert seen == list(range(1, 26))


async def test_a_write_that_the_database_refuses_is_our_own_error_and_the_others_go_on(store: Store) -> None:
    await store.writer.submit(insert_key("k1"), ignore_events)
    twice = store.writer.submit(insert_key("k1"), ignore_events)
    other = store.writer.submit(insert_key("k2"), ignore_events)
    with pytest.raises(StorageFailed, match="UNIQUE"):
        await twice
    await other
    assert await load_keys(store) == {"k1", "k2"}


async def test_whatever_a_unit_raises_the_writer_goes_on(store: Store) -> None:
    def leave(tx: Tx) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        await store.writer.submit(leave, ignore_events)
    await store.writer.submit(insert_key("k1"), ignore_events)
    assert await load_keys(store) == {"k1"}


async def test_a_caller_that_cannot_be_told_does_not_keep_the_others_waiting(store: Store) -> None:
    def broken(appended: list[LoggedEvent]) -> None:
        raise ZeroDivisionError

    gate = threading.Event()
    store.writer.submit(lambda tx: gate.wait(10), ignore_events)
    first = store.writer.submit(insert_key("k1"), broken)
    second = store.writer.submit(insert_key("k2"), ignore_events)
    gate.set()
    with pytest.raises(ZeroDivisionError):
        await first
    assert await asyncio.wait_for(second, 10) == "k2"


async def test_others_have_their_turn_while_much_is_told(store: Store) -> None:
    published: list[int] = []
    turns: list[int] = []
    gate = threading.Event()

    def notice(number: int) -> Callable[[Tx], int]:
        def work(tx: Tx) -> int:
            tx.append("notice", Scope(), data=Notice(level="info", text="x" * 700_000))
            return number

        return work

    async def others() -> None:
        while True:
            turns.append(len(published))
            await asyncio.sleep(0)

    first = store.writer.submit(lambda tx: gate.wait(10), ignore_events)
    units = [
        store.writer.submit(notice(number), lambda events: published.extend(event.cursor for event in events))
        for number in range(10)
    ]
    others_task = asyncio.get_running_loop().create_task(others())
    gate.set()
    await first
    assert [await one for one in units] == list(range(10))
    others_task.cancel()
    assert published == sorted(published)
    assert len(published) == 10
    # Committed in one batch, but published in several steps: never all at once.
    assert len({count for count in turns if 0 < count < 10}) >= 4


async def test_what_was_written_before_the_end_is_told_before_it(store: Store) -> None:
    published: list[LoggedEvent] = []

    def work(tx: Tx) -> None:
        tx.append("notice", Scope(), data=Notice(level="info", text="x" * 700_000))

    units = [store.writer.submit(work, published.extend) for _ in range(10)]
    await store.writer.close()
    assert len(published) == 10
    assert all(one.done() for one in units)

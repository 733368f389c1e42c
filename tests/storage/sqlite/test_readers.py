"""Readers: every read sees the newest committed state."""

import asyncio
import threading
from typing import Any

import pytest

from ostler.protocol.errors import StorageFailed
from ostler.storage import Snapshot, Store, Tx
from tests.support.rows import reach_connection, select_value

pytestmark = pytest.mark.anyio

THREADS = 3


async def put_key(store: Store, key: str) -> None:
    def work(tx: Tx) -> None:
        reach_connection(tx).execute("INSERT INTO meta (key, value) VALUES (?, 'x')", (key,))

    await store.writer.submit(work, lambda appended: None)


async def test_work_that_fails_half_way_leaves_nobody_in_the_past(store: Store) -> None:
    for key in ("k1", "k2"):
        await put_key(store, key)
    together = threading.Barrier(THREADS)

    def fail(snapshot: Snapshot) -> None:
        rows = reach_connection(snapshot).execute("SELECT key FROM meta")
        next(rows)
        together.wait(10)
        raise ValueError("a row that cannot be read")

    def look(snapshot: Snapshot) -> bool:
        together.wait(10)
        return bool(select_value(snapshot, "SELECT count(*) FROM meta WHERE key = 'k3'"))

    async def on_all_threads(work: Any) -> list[Any]:
        return await asyncio.gather(*(store.read(work) for _ in range(THREADS)), return_exceptions=True)

    # A logged error is kept, and with it the query that it came from.
    kept = await on_all_threads(fail)
    await put_key(store, "k3")
    assert await on_all_threads(look) == [True] * THREADS
    assert [type(error) for error in kept] == [ValueError] * THREADS


async def test_an_error_that_is_kept_does_not_keep_the_log_from_being_folded_in(store: Store) -> None:
    def fail(snapshot: Snapshot) -> None:
        rows = reach_connection(snapshot).execute("SELECT key FROM meta")
        raise ValueError(next(rows))

    for key in ("k0", "k1"):
        await put_key(store, key)
    with pytest.raises(ValueError, match=r"k0|k1|database_id") as kept:
        await store.read(fail)
    await put_key(store, "k2")
    await store.close()
    assert not store.path.with_name(store.path.name + "-wal").exists()
    assert kept.tb is not None


async def test_a_read_that_was_given_up_holds_up_nobody_else(store: Store) -> None:
    began, go_on = threading.Event(), threading.Event()

    def wait(_: Snapshot) -> None:
        began.set()
        go_on.wait(30)

    given_up = asyncio.create_task(store.read(wait))
    await asyncio.to_thread(began.wait, 10)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    try:
        for _ in range(5):  # the thread of the first one still waits
            assert await store.read(lambda snapshot: select_value(snapshot, "SELECT 1")) == 1
    finally:
        go_on.set()


async def test_readers_that_come_at_once_share_three_connections(store: Store) -> None:
    def find_thread(_: Snapshot) -> int:
        return threading.get_ident()

    threads = await asyncio.gather(*(store.read(find_thread) for _ in range(50)))
    assert 1 <= len(set(threads)) <= THREADS


async def test_a_closed_store_is_not_read(store: Store) -> None:
    await store.readers.close()
    with pytest.raises(StorageFailed, match="closed"):
        await store.read(lambda snapshot: select_value(snapshot, "SELECT 1"))

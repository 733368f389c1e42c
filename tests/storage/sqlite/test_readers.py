"""Readers: every read sees the newest committed state."""

import asyncio
import sqlite3
import threading
from typing import Any

import pytest

from ostler.storage import Store, Tx

pytestmark = pytest.mark.anyio

THREADS = 3


async def put_key(store: Store, key: str) -> None:
    def work(tx: Tx) -> None:
        tx.connection.execute("INSERT INTO meta (key, value) VALUES (?, 'x')", (key,))

    await store.writer.submit(work, lambda appended: None)


async def test_work_that_fails_half_way_leaves_nobody_in_the_past(store: Store) -> None:
    for key in ("k1", "k2"):
        await put_key(store, key)
    together = threading.Barrier(THREADS)

    def fail(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT key FROM meta")
        next(rows)
        together.wait(10)
        raise ValueError("a row that cannot be read")

    def look(connection: sqlite3.Connection) -> bool:
        together.wait(10)
        return connection.execute("SELECT 1 FROM meta WHERE key = 'k3'").fetchone() is not None

    async def on_all_threads(work: Any) -> list[Any]:
        return await asyncio.gather(*(store.read(work) for _ in range(THREADS)), return_exceptions=True)

    # A logged error is kept, and with it the query that it came from.
    kept = await on_all_threads(fail)
    await put_key(store, "k3")
    assert await on_all_threads(look) == [True] * THREADS
    assert [type(error) for error in kept] == [ValueError] * THREADS

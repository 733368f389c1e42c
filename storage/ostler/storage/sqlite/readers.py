"""The pool of read-only connections, each on its own thread; each call reads one consistent snapshot.

One hop to a thread costs more than the queries of a typical method, so a whole snapshot is read in one hop;
docs/decisions/0003-readers.md has the numbers.
"""

import asyncio
import sqlite3
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast

import aiosqlite

from ostler.protocol.errors import StorageFailed
from ostler.storage.errors import describe, is_damage
from ostler.storage.snapshot import Snapshot

T = TypeVar("T")
_CONNECTIONS: Final = 3


class Readers:
    def __init__(self, path: Path, on_damage: Callable[[str], None]) -> None:
        self._on_damage = on_damage
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._connections: list[_SnapshotConnection] = []
        self._opening = asyncio.Lock()
        self._closed = False

    async def run(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on a snapshot of the database."""
        try:
            return await (await self._choose_connection()).read_snapshot(work)
        except sqlite3.Error as error:
            reason = describe(error)
            if is_damage(error):
                self._on_damage(reason)
            raise StorageFailed(f"The database could not be read: {reason}", reason=reason) from error

    async def close(self) -> None:
        self._closed = True
        async with self._opening:
            for connection in self._connections:
                await connection.close()
            self._connections.clear()

    async def _choose_connection(self) -> "_SnapshotConnection":
        """One that is idle, a new one while there may be more, else the one with the least to do."""
        chosen = min(self._connections, key=_count_pending, default=None)
        if chosen is not None and (not chosen.pending or len(self._connections) == _CONNECTIONS):
            return chosen
        async with self._opening:
            if self._closed:
                raise StorageFailed("The database is closed.", reason="closed")
            if len(self._connections) == _CONNECTIONS:
                return min(self._connections, key=_count_pending)
            opened = _SnapshotConnection(self._uri)
            await opened
            self._connections.append(opened)
            return opened


class _SnapshotConnection(aiosqlite.Connection):
    """A connection on whose thread a whole function is run: one hop for a snapshot, and not one for each statement."""

    def __init__(self, uri: str) -> None:
        super().__init__(partial(_open_connection, uri), iter_chunk_size=64)
        # A daemon that ends without closing its store must not wait for a thread that waits for it.
        self._thread.daemon = True
        self._thread.name = "ostler-reader"
        self._snapshot: Snapshot | None = None
        self._asked = 0  # by the event loop
        self._answered = 0  # by the thread

    @property
    def pending(self) -> int:
        """How much the thread still has to do, also for callers that have stopped waiting."""
        return self._asked - self._answered

    async def read_snapshot(self, work: Callable[[Snapshot], T]) -> T:
        self._asked += 1
        run = cast(Callable[..., Awaitable[T]], self._execute)  # it has no types
        return await run(self._read, work)

    def _read(self, work: Callable[[Snapshot], T]) -> T:
        try:
            self._conn.execute("BEGIN")
            self._snapshot = self._snapshot or Snapshot(self._conn)
            found = work(self._snapshot)
            self._conn.execute("COMMIT")
            return found
        except BaseException as error:
            # The error keeps what its functions were doing, an unfinished query too, and with that the snapshot: the
            # next user of this connection would read old data, and the writer could not fold its log in.
            _let_go(error)
            self._conn.close()
            self._connection = self._connector()
            self._snapshot = None
            raise
        finally:
            self._answered += 1


def _count_pending(connection: _SnapshotConnection) -> int:
    return connection.pending


def _let_go(error: BaseException) -> None:
    """Drop the variables that an error keeps, of the functions that it went through."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def _open_connection(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA cache_size = -2048")
    return connection

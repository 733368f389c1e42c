"""The pool of read-only connections, each on its own thread; each call reads one consistent snapshot.

One hop to a thread costs more than the queries of a typical method, so a whole snapshot is read in one hop;
docs/decisions/0003-readers.md has the numbers.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from ostler.protocol.errors import StorageFailed
from ostler.storage.errors import describe, is_damage

T = TypeVar("T")
_THREADS: Final = 3


class Readers:
    def __init__(self, path: Path, on_damage: Callable[[str], None]) -> None:
        self._on_damage = on_damage
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ostler-reader")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on a snapshot of the database."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_snapshot, work)
        except sqlite3.Error as error:
            reason = describe(error)
            raise StorageFailed(f"The database could not be read: {reason}", reason=reason) from error

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def _read_snapshot(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._get_connection()
        connection.execute("BEGIN")
        try:
            found = work(connection)
        except BaseException as error:
            # The error may keep an unfinished query alive, and with it the snapshot: the next user of this connection
            # would read old data.
            self._discard_connection(connection)
            if isinstance(error, sqlite3.Error) and is_damage(error):
                self._on_damage(describe(error))
            raise
        connection.execute("COMMIT")
        return found

    def _discard_connection(self, connection: sqlite3.Connection) -> None:
        self._local.connection = None
        self._connections.remove(connection)
        connection.close()

    def _get_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._uri, uri=True, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA cache_size = -2048")
            self._local.connection = connection
            self._connections.append(connection)
        return connection

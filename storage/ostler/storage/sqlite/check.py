"""Integrity check after an unclean stop, and pruning of old rows: neither blocks other work for long."""

import sqlite3
import threading
from pathlib import Path
from typing import Final

from ostler.storage.errors import StorageTrouble, describe, is_damage
from ostler.storage.sqlite.database import find_damage_marker
from ostler.storage.transaction import Tx

_STEPS: Final = 10_000  # SQLite VM steps between two checks whether to stop: a few milliseconds


def find_damage(path: Path, stop: threading.Event | None = None) -> str | None:
    """Check every table and its indexes; a description of the first damage found, or None.

    Raises StorageTrouble where it cannot be found out: a file that cannot be opened now is not damaged. Raises it too
    soon after `stop` was set, since a daemon that stops must not wait for a large file.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        if stop is not None:
            connection.set_progress_handler(stop.is_set, _STEPS)
        try:
            return _find_first_damage(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        if is_damage(error):
            return str(error)
        raise StorageTrouble(f"{path} could not be checked: {describe(error)}.") from error


def find_obvious_damage(path: Path) -> str | None:
    """A shorter check, for a person who waits for it. It writes nothing, also where no daemon has the file open."""
    # Without a write-ahead log nobody has it open; to look then must not leave one behind, which would tell the next
    # start that the last stop was unclean.
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=5)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return str(error)
    return None if verdict == "ok" else str(verdict)


def _find_first_damage(connection: sqlite3.Connection) -> str | None:
    """Check table by table, each in a short read: one long read would keep the write-ahead log from shrinking."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        (verdict,) = connection.execute(f'PRAGMA integrity_check("{table}")').fetchone()
        if verdict != "ok":
            return f"table {table}: {verdict}"
    return None


def mark_damaged(path: Path, damage: str) -> None:
    """Have the next start move the database aside; until then it can still be read and exported."""
    find_damage_marker(path).write_text(damage + "\n", "utf-8")


PRUNE_ROWS = 2000
"""Lines dropped in one unit of work: the writer is busy for a few milliseconds, not for seconds."""


def tidy(tx: Tx, *, events_before: str, keys_before: str, clients_before: str) -> bool:
    """Delete a bounded number of rows whose retention time is over; true where more are left."""
    dropped = tx.events.prune(events_before, PRUNE_ROWS)
    tx.idempotency.forget(keys_before)
    tx.clients.forget(clients_before)
    return dropped == PRUNE_ROWS

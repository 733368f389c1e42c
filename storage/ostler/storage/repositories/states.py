"""States: what a session has to remember between requests that is not part of its history."""

import os
import re
import sqlite3
from typing import Any, Final

import orjson

from ostler.protocol.ids import SessionId
from ostler.storage.sqlite.packing import pack, unpack

_NOT_UTF_8: Final = re.compile("[\udc80-\udcff]")
"""How Python writes the bytes of a name that are no characters."""


def put(connection: sqlite3.Connection, session_id: SessionId, state: dict[str, Any]) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO session_states (session_id, state_json) VALUES (?, ?)",
        (session_id, pack(orjson.dumps(state))),
    )


def find(connection: sqlite3.Connection, session_id: SessionId) -> dict[str, Any]:
    row = connection.execute("SELECT state_json FROM session_states WHERE session_id = ?", (session_id,)).fetchone()
    return dict(orjson.loads(unpack(row[0]))) if row else {}


def put_read(connection: sqlite3.Connection, session_id: SessionId, path: str, read: dict[str, Any] | None) -> None:
    """Null: the session has not seen the file."""
    if read is None:
        connection.execute("DELETE FROM file_reads WHERE session_id = ? AND path = ?", (session_id, _stored(path)))
        return
    connection.execute(
        "INSERT OR REPLACE INTO file_reads (session_id, path, read_json) VALUES (?, ?, ?)",
        (session_id, _stored(path), orjson.dumps(read).decode()),
    )


def reads(connection: sqlite3.Connection, session_id: SessionId) -> dict[str, dict[str, Any]]:
    """What the session has seen of files, by path."""
    rows = connection.execute("SELECT path, read_json FROM file_reads WHERE session_id = ?", (session_id,))
    return {os.fsdecode(path): orjson.loads(read) for path, read in rows}


def _stored(path: str) -> str | bytes:
    """A name that is not UTF-8 on the disk is kept as its bytes: SQLite takes no half characters."""
    return path if path.isascii() or not _NOT_UTF_8.search(path) else os.fsencode(path)

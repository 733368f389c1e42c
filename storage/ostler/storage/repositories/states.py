"""Session states: what a session remembers between requests that is not part of its history, and its file reads."""

import os
import sqlite3
from typing import Any, Final

import orjson

from ostler.protocol.ids import SessionId
from ostler.protocol.patterns import compile_later
from ostler.storage.sqlite.packing import pack, unpack

_NOT_UTF_8: Final = compile_later("[\udc80-\udcff]")
"""Surrogates: how Python represents the bytes of a file name that are not UTF-8."""


def _encode_path(path: str) -> str | bytes:
    """A path that is not UTF-8 is stored as its bytes: SQLite accepts no surrogates in text."""
    return path if path.isascii() or not _NOT_UTF_8.search(path) else os.fsencode(path)


class States:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, session_id: SessionId, state: dict[str, Any]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO session_states (session_id, state_json) VALUES (?, ?)",
            (session_id, pack(orjson.dumps(state))),
        )

    def find(self, session_id: SessionId) -> dict[str, Any]:
        row = self._connection.execute(
            "SELECT state_json FROM session_states WHERE session_id = ?", (session_id,)
        ).fetchone()
        return dict(orjson.loads(unpack(row[0]))) if row else {}

    def put_read(self, session_id: SessionId, path: str, read: dict[str, Any] | None) -> None:
        """Store what the session has read of a file; None removes it: the session has not seen the file."""
        if read is None:
            self._connection.execute(
                "DELETE FROM file_reads WHERE session_id = ? AND path = ?", (session_id, _encode_path(path))
            )
            return
        self._connection.execute(
            "INSERT OR REPLACE INTO file_reads (session_id, path, read_json) VALUES (?, ?, ?)",
            (session_id, _encode_path(path), orjson.dumps(read).decode()),
        )

    def list_reads(self, session_id: SessionId) -> dict[str, dict[str, Any]]:
        """What the session has read of files, by path."""
        rows = self._connection.execute("SELECT path, read_json FROM file_reads WHERE session_id = ?", (session_id,))
        return {os.fsdecode(path): orjson.loads(read) for path, read in rows}

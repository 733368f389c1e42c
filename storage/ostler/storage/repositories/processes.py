"""Processes: the OS processes that run for calls right now."""

import sqlite3
from typing import NamedTuple

from ostler.protocol.ids import CallId, SessionId


class ProcessRecord(NamedTuple):
    pid: int
    start_time: str
    session_id: SessionId
    call_id: CallId


class Processes:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, process: ProcessRecord) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO processes (pid, start_time, session_id, call_id) VALUES (?, ?, ?, ?)", process
        )

    def drop(self, pid: int, start_time: str) -> None:
        self._connection.execute("DELETE FROM processes WHERE pid = ? AND start_time = ?", (pid, start_time))

    def list_left_over(self) -> list[ProcessRecord]:
        """The processes that an earlier daemon left: read at the start, when none of them can be ours."""
        rows = self._connection.execute("SELECT pid, start_time, session_id, call_id FROM processes")
        return [ProcessRecord(*row) for row in rows]

"""Processes: the OS processes that run for calls right now."""

import sqlite3
from typing import NamedTuple

from ostler.protocol.ids import CallId, SessionId
from ostler.storage.node import Node


class ProcessRecord(NamedTuple):
    pid: int
    start_time: str
    session_id: SessionId
    call_id: CallId


class Processes:
    __slots__ = ("_connection", "_node")

    def __init__(self, connection: sqlite3.Connection, node: Node) -> None:
        self._connection = connection
        self._node = node

    def add(self, process: ProcessRecord) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO processes (node, pid, start_time, session_id, call_id) VALUES (?, ?, ?, ?, ?)",
            (self._node, *process),
        )

    def drop(self, pid: int, start_time: str) -> None:
        self._connection.execute(
            "DELETE FROM processes WHERE node = ? AND pid = ? AND start_time = ?", (self._node, pid, start_time)
        )

    def list_left_over(self) -> list[ProcessRecord]:
        """The processes that an earlier daemon left on this node, read at the start, when none can be ours."""
        rows = self._connection.execute(
            "SELECT pid, start_time, session_id, call_id FROM processes WHERE node = ?", (self._node,)
        )
        return [ProcessRecord(*row) for row in rows]

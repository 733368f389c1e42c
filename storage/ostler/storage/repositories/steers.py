"""Steers: input for a running turn, stored until a model request includes it."""

import sqlite3
from typing import Any, NamedTuple

import orjson

from ostler.protocol.ids import SessionId, TurnId
from ostler.storage.sqlite.packing import pack, unpack


class Steer(NamedTuple):
    id: int
    turn_id: TurnId
    blocks: list[dict[str, Any]]


class Steers:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, session_id: SessionId, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
        """Store it; returns its id."""
        row = self._connection.execute(
            "INSERT INTO steers (session_id, turn_id, input_json) VALUES (?, ?, ?) RETURNING id",
            (session_id, turn_id, pack(orjson.dumps(blocks))),
        ).fetchone()
        return int(row[0])

    def list_by_session(self, session_id: SessionId) -> list[Steer]:
        rows = self._connection.execute(
            "SELECT id, turn_id, input_json FROM steers WHERE session_id = ? ORDER BY id", (session_id,)
        )
        return [Steer(row[0], row[1], orjson.loads(unpack(row[2]))) for row in rows]

    def drop(self, steer_ids: list[int]) -> None:
        self._connection.executemany("DELETE FROM steers WHERE id = ?", [(one,) for one in steer_ids])

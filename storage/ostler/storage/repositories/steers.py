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


def add(connection: sqlite3.Connection, session_id: SessionId, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
    """Store it; returns its id."""
    row = connection.execute(
        "INSERT INTO steers (session_id, turn_id, input_json) VALUES (?, ?, ?) RETURNING id",
        (session_id, turn_id, pack(orjson.dumps(blocks))),
    ).fetchone()
    return int(row[0])


def list_by_session(connection: sqlite3.Connection, session_id: SessionId) -> list[Steer]:
    rows = connection.execute(
        "SELECT id, turn_id, input_json FROM steers WHERE session_id = ? ORDER BY id", (session_id,)
    )
    return [Steer(row[0], row[1], orjson.loads(unpack(row[2]))) for row in rows]


def drop(connection: sqlite3.Connection, steer_ids: list[int]) -> None:
    connection.executemany("DELETE FROM steers WHERE id = ?", [(one,) for one in steer_ids])

"""Turns: one row each, the whole shape as JSON beside what is searched for."""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from ostler.protocol.ids import MessageId, SessionId, TaskId, TurnId
from ostler.protocol.shapes import Turn
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import pack, unpack


class Unheard(NamedTuple):
    """The input of a turn that nobody has let pass to the model yet."""

    message_id: MessageId
    ends: list[TaskId]
    """Tasks whose end it tells."""


def put(connection: sqlite3.Connection, turn: Turn, turn_input: Any) -> None:
    connection.execute(
        "INSERT INTO turns (id, session_id, status, turn_json, input_json) VALUES (?, ?, ?, ?, ?)",
        (turn.id, turn.session_id, turn.status, pack(long_json.encoded(turn)), pack(long_json.dumped(turn_input))),
    )


def update(connection: sqlite3.Connection, turn: Turn) -> None:
    connection.execute(
        "UPDATE turns SET status = ?, turn_json = ? WHERE id = ?",
        (turn.status, pack(long_json.encoded(turn)), turn.id),
    )


def put_unheard(connection: sqlite3.Connection, turn_id: TurnId, message_id: MessageId, ends: Sequence[TaskId]) -> None:
    """Something stands between the input and the model: hooks, or the question whether the folder is trusted."""
    unheard = orjson.dumps({"message_id": message_id, "ends": list(ends)})
    connection.execute("UPDATE turns SET unheard_json = ? WHERE id = ?", (unheard.decode(), turn_id))


def hear(connection: sqlite3.Connection, turn_id: TurnId) -> None:
    """Nothing does any more."""
    connection.execute("UPDATE turns SET unheard_json = NULL WHERE id = ?", (turn_id,))


def unheard(connection: sqlite3.Connection, turn_id: TurnId) -> Unheard | None:
    row = connection.execute("SELECT unheard_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return Unheard(**orjson.loads(row[0])) if row and row[0] is not None else None


def encoded(connection: sqlite3.Connection, turn_id: str) -> bytes | None:
    row = connection.execute("SELECT turn_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return unpack(row[0]) if row else None


def find(connection: sqlite3.Connection, turn_id: TurnId) -> Turn | None:
    turn = encoded(connection, turn_id)
    return Turn.model_validate_json(turn) if turn else None


def input_of(connection: sqlite3.Connection, turn_id: TurnId) -> Any:
    row = connection.execute("SELECT input_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return orjson.loads(unpack(row[0])) if row else None


def current(connection: sqlite3.Connection, session_id: SessionId) -> Turn | None:
    """The turn that runs or waits; a queued one is not current yet."""
    row = connection.execute(
        "SELECT turn_json FROM turns WHERE session_id = ? AND status != 'ended' AND status != 'queued'",
        (session_id,),
    ).fetchone()
    return Turn.model_validate_json(unpack(row[0])) if row else None


def current_of(connection: sqlite3.Connection, session_ids: Sequence[SessionId]) -> dict[SessionId, Turn]:
    """The turn that runs or waits in each of some sessions; sessions at rest are left out."""
    marks = ", ".join("?" * len(session_ids))
    rows = connection.execute(
        f"SELECT session_id, turn_json FROM turns WHERE session_id IN ({marks})"  # noqa: S608 - question marks
        " AND status != 'ended' AND status != 'queued'",
        (*session_ids,),
    )
    return {row[0]: Turn.model_validate_json(unpack(row[1])) for row in rows}


def queued(connection: sqlite3.Connection, session_id: SessionId) -> list[Turn]:
    """The turns that wait for the one before them, in order."""
    rows = connection.execute(
        "SELECT turn_json FROM turns WHERE session_id = ? AND status != 'ended' AND status = 'queued' ORDER BY id",
        (session_id,),
    )
    return [Turn.model_validate_json(unpack(row[0])) for row in rows]


def page(connection: sqlite3.Connection, session_id: SessionId, after: str, limit: int) -> list[Turn]:
    rows = connection.execute(
        "SELECT turn_json FROM turns WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?", (session_id, after, limit)
    )
    return [Turn.model_validate_json(unpack(row[0])) for row in rows]


def of_session(connection: sqlite3.Connection, session_id: SessionId) -> list[Turn]:
    rows = connection.execute("SELECT turn_json FROM turns WHERE session_id = ? ORDER BY id", (session_id,))
    return [Turn.model_validate_json(unpack(row[0])) for row in rows]


def unfinished_sessions(connection: sqlite3.Connection) -> list[SessionId]:
    """The sessions that recovery has to look at."""
    rows = connection.execute(
        "SELECT session_id FROM turns WHERE status != 'ended' UNION SELECT session_id FROM steers"
    )
    return [row[0] for row in rows]


def last_reason(connection: sqlite3.Connection, session_id: SessionId) -> str | None:
    """How the session's last turn ended."""
    row = connection.execute(
        "SELECT turn_json FROM turns WHERE session_id = ? AND status = 'ended' ORDER BY id DESC LIMIT 1", (session_id,)
    ).fetchone()
    return Turn.model_validate_json(unpack(row[0])).reason if row else None

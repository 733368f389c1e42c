"""Calls: each tool_use and its result."""

import sqlite3
from typing import Any, Final

import orjson

from ostler.protocol.ids import CallId, MessageId, SessionId
from ostler.protocol.shapes import Call
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import pack, unpack


def put(connection: sqlite3.Connection, call: Call) -> bytes:
    """Insert a call, or replace the state it has; returns it as JSON, for who tells of it at once."""
    encoded = long_json.encoded(call)
    connection.execute(
        "INSERT INTO calls (id, session_id, turn_id, status, call_json) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, call_json = excluded.call_json",
        (call.call_id, call.session_id, call.turn_id, call.status, pack(encoded)),
    )
    return encoded


_CHANGING: Final = ("input", "summary", "activity")


def keep_as_queued(connection: sqlite3.Connection, call: Call) -> None:
    """Before the input changes: a call is told again as it was when it was queued."""
    was = {name: getattr(call, name) for name in _CHANGING}
    connection.execute(
        "UPDATE calls SET queued_json = ? WHERE id = ? AND queued_json IS NULL",
        (pack(long_json.dumped(was)), call.call_id),
    )


def as_queued(connection: sqlite3.Connection, call_id: str) -> dict[str, Any]:
    """The fields of a call that were others when it was queued."""
    row = connection.execute("SELECT queued_json FROM calls WHERE id = ?", (call_id,)).fetchone()
    return dict(orjson.loads(unpack(row[0]))) if row and row[0] is not None else {}


def keep_unusable(connection: sqlite3.Connection, call_id: CallId, why: str) -> None:
    """Its input stands for something that could not be read: it is never run, whoever finds it."""
    connection.execute("UPDATE calls SET unusable_json = ? WHERE id = ?", (pack(long_json.dumped(why)), call_id))


def unusable(connection: sqlite3.Connection, call_id: CallId) -> str | None:
    """Why nothing can be run of it, if that is so."""
    row = connection.execute("SELECT unusable_json FROM calls WHERE id = ?", (call_id,)).fetchone()
    return str(orjson.loads(unpack(row[0]))) if row and row[0] is not None else None


def encoded(connection: sqlite3.Connection, call_id: str) -> bytes | None:
    row = connection.execute("SELECT call_json FROM calls WHERE id = ?", (call_id,)).fetchone()
    return unpack(row[0]) if row else None


def find(connection: sqlite3.Connection, call_id: CallId) -> Call | None:
    call = encoded(connection, call_id)
    return Call.model_validate_json(call) if call else None


def unfinished(connection: sqlite3.Connection, session_id: SessionId) -> list[Call]:
    rows = connection.execute(
        "SELECT call_json FROM calls WHERE session_id = ? AND status != 'completed' ORDER BY id",
        (session_id,),
    )
    return [Call.model_validate_json(unpack(row[0])) for row in rows]


def of_message(connection: sqlite3.Connection, message_id: MessageId) -> list[Call]:
    """The calls of one message, in the order of its blocks."""
    # Every id that begins with `MESSAGE_ID#`: `$` is the character after `#`.
    rows = connection.execute(
        "SELECT call_json FROM calls WHERE id > ? AND id < ?", (f"{message_id}#", f"{message_id}$")
    )
    found = [Call.model_validate_json(unpack(row[0])) for row in rows]
    return sorted(found, key=lambda call: int(call.call_id.rpartition("#")[2]))


def content_of(connection: sqlite3.Connection, call_id: str) -> Any:
    """What the model was given as the result of a call."""
    call = encoded(connection, call_id)
    return orjson.loads(call)["content"] if call else None

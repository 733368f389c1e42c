"""Drafts: the one message of a session that is being streamed, as far as it is stored."""

import sqlite3

import orjson

from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Message
from ostler.storage.packing import pack, unpack


def put(connection: sqlite3.Connection, message: Message) -> None:
    """Begin a draft; its content comes later."""
    connection.execute(
        "INSERT OR REPLACE INTO drafts (session_id, message_json, content_json) VALUES (?, ?, '[]')",
        (message.session_id, message.encoded().decode()),
    )


def extend(connection: sqlite3.Connection, session_id: SessionId, content: bytes) -> None:
    """The blocks that are complete by now, as JSON: validated when they are read, since this is done for every call."""
    connection.execute("UPDATE drafts SET content_json = ? WHERE session_id = ?", (pack(content), session_id))


def find(connection: sqlite3.Connection, session_id: SessionId) -> Message | None:
    row = connection.execute(
        "SELECT message_json, content_json FROM drafts WHERE session_id = ?", (session_id,)
    ).fetchone()
    if row is None:
        return None
    return Message.model_validate({**orjson.loads(row[0]), "content": orjson.loads(unpack(row[1]))})


def drop(connection: sqlite3.Connection, session_id: SessionId) -> None:
    connection.execute("DELETE FROM drafts WHERE session_id = ?", (session_id,))

"""Asks: stored questions to the people. Whoever settles one first, in the database, has settled it."""

import sqlite3

from ostler.protocol.ids import AskId, SessionId
from ostler.protocol.shapes import Ask
from ostler.storage.packing import pack, unpack


def open_ask(connection: sqlite3.Connection, ask: Ask) -> None:
    connection.execute(
        "INSERT INTO asks (id, session_id, root_id, status, ask_json) VALUES (?, ?, ?, ?, ?)",
        (ask.id, ask.session_id, ask.root_id, ask.status, pack(ask.encoded())),
    )


def settle(connection: sqlite3.Connection, ask: Ask) -> bool:
    """Give an open ask its ending; false where somebody was faster, and nothing changes."""
    changed = connection.execute(
        "UPDATE asks SET status = ?, ask_json = ? WHERE id = ? AND status = 'open'",
        (ask.status, pack(ask.encoded()), ask.id),
    )
    return changed.rowcount == 1


def encoded(connection: sqlite3.Connection, ask_id: str) -> bytes | None:
    row = connection.execute("SELECT ask_json FROM asks WHERE id = ?", (ask_id,)).fetchone()
    return unpack(row[0]) if row else None


def find(connection: sqlite3.Connection, ask_id: AskId) -> Ask | None:
    ask = encoded(connection, ask_id)
    return Ask.model_validate_json(ask) if ask else None


def open_in(connection: sqlite3.Connection, root_id: SessionId) -> list[Ask]:
    """The open asks of a session tree, oldest first."""
    rows = connection.execute("SELECT ask_json FROM asks WHERE root_id = ? AND status = 'open' ORDER BY id", (root_id,))
    return [Ask.model_validate_json(unpack(row[0])) for row in rows]

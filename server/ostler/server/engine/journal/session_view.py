"""Stored sessions as the wire has them."""

import sqlite3
from collections.abc import Sequence

from ostler.protocol.events import SessionData
from ostler.protocol.ids import Cursor
from ostler.protocol.session import Session
from ostler.protocol.shapes import Ask, Turn, Usage
from ostler.storage import Scope, Tx
from ostler.storage.repositories import asks, sessions, turns, usage
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.sqlite.database import head_of


def provider_of(model: str) -> str:
    return "rehearsal" if model == "rehearsal" else "anthropic"


def shown(connection: sqlite3.Connection, record: SessionRecord, cursor: Cursor) -> Session:
    """A session with the turn and the asks that it has now."""
    used = usage.total(connection, record.id)
    turn = turns.current(connection, record.id)
    return session_shape(record, cursor, used, turn, _open_asks(connection, record))


def shown_page(connection: sqlite3.Connection, records: Sequence[SessionRecord]) -> list[Session]:
    """The sessions of a list, each with its turn and its asks; asked for all of them at once."""
    cursor = head_of(connection)
    ids = [record.id for record in records]
    used = usage.totals(connection, ids)
    running = turns.current_of(connection, ids)
    trees = asks.open_by_tree(connection, [record.root_id for record in records])
    return [
        session_shape(
            record,
            cursor,
            used[record.id],
            running.get(record.id),
            _of_family(connection, record, trees.get(record.root_id, [])),
        )
        for record in records
    ]


def tell(tx: Tx, kind: str, record: SessionRecord, used: Usage, turn: Turn | None) -> Session:
    """Say that a session is so now: with the turn that it is in, and the asks that are open."""
    session = session_shape(record, tx.next_cursor, used, turn, _open_asks(tx.connection, record))
    # The log names the asks and does not copy them: a change to a file can be long.
    stored = session.changed(asks=[]) if session.asks else session
    names = " ".join(ask.id for ask in session.asks) or None
    tx.append(kind, Scope(record.id, record.root_id), data=SessionData(session=stored), reference=names)
    return session


def tell_change(tx: Tx, record: SessionRecord, used: Usage) -> Session:
    """Store a session that is changed, whatever it does meanwhile, and say so."""
    sessions.put(tx.connection, record)
    return tell(tx, "session.updated", record, used, turns.current(tx.connection, record.id))


def _open_asks(connection: sqlite3.Connection, record: SessionRecord) -> list[Ask]:
    return _of_family(connection, record, asks.open_in(connection, record.root_id))


def _of_family(connection: sqlite3.Connection, record: SessionRecord, in_tree: list[Ask]) -> list[Ask]:
    """Of the asks of a tree those of this session and of all that work for it."""
    if record.id == record.root_id or not in_tree:
        return in_tree
    family = {member.id for member in sessions.family(connection, record.id)}
    return [ask for ask in in_tree if ask.session_id in family]


def session_shape(
    record: SessionRecord,
    cursor: Cursor,
    used: Usage | None = None,
    turn: Turn | None = None,
    open_asks: Sequence[Ask] = (),
) -> Session:
    """At rest, unless it is given what it is in."""
    return Session(
        id=record.id,
        cwd=record.cwd,
        title=record.title,
        model=record.model,
        provider=record.provider,
        mode=record.mode,
        status=record.status,
        additional_directories=list(record.directories),
        parent_id=record.parent_id,
        root_id=record.root_id,
        on_ask=record.on_ask,
        trusted=record.trusted,
        created_at=record.created_at,
        updated_at=record.updated_at,
        cursor=cursor,
        turn=turn,
        asks=list(open_asks),
        usage=used or Usage(),
        metadata=record.metadata,
    )

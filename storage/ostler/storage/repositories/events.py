"""The event log: one line per event, in the order of their commit.

A line refers to its message, call, ask or turn instead of copying it, and its data is filled in when it is read; one
about a session refers to its open asks. The writer fills it in with the same functions before it is published, so that
what was sent live and what is replayed are the same bytes.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import Cursor, SessionId, TurnId
from ostler.storage.repositories import asks, calls, messages, turns
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import pack, unpack

# Tuples, here and in frames.py: one of each is made for every event, and a frozen dataclass takes three times as long.


class Line(NamedTuple):
    """A row of the log as it is stored."""

    cursor: Cursor
    session_id: SessionId | None
    root_id: SessionId | None
    turn_id: TurnId | None
    time: str
    type: str
    reference: str | None
    data: bytes | None


class LoggedEvent(NamedTuple):
    """An event with its data, ready to be sent."""

    cursor: Cursor
    session_id: SessionId | None
    root_id: SessionId | None
    turn_id: TurnId | None
    time: str
    type: str
    data: bytes


def insert(connection: sqlite3.Connection, lines: Sequence[Line]) -> None:
    connection.executemany(
        "INSERT INTO events (cursor, session_id, root_id, turn_id, time, type, reference, data_json)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [line if line.data is None else (*line[:-1], pack(line.data)) for line in lines],
    )


def build_event(connection: sqlite3.Connection, line: Line, thing: bytes | None = None) -> LoggedEvent:
    """Build the event of a line; `thing` is what it refers to, as JSON, where the writer already has it."""
    if thing is not None:
        line = line._replace(data=_wrap(_DATA_KEYS[line.type], thing))
    event = _fill_event(connection, line)
    assert event is not None, f"{line.type} refers to {line.reference}, which is not stored"
    return event


_COLUMNS: Final = "cursor, session_id, root_id, turn_id, time, type, reference, data_json"


def list_page(
    connection: sqlite3.Connection,
    after: Cursor,
    roots: Sequence[SessionId] | None,
    limit: int,
    max_bytes: int = 1 << 60,
) -> tuple[list[LoggedEvent], Cursor | None]:
    """Lines after a cursor, of these session trees or of all, and where to go on, if there are more.

    At most `limit`, and no further one after `max_bytes` of data: what a line refers to can be of any size.
    """
    rows = _select_all(connection, after, limit) if roots is None else _select_by_roots(connection, after, roots, limit)
    found: list[LoggedEvent] = []
    size = 0
    for row in rows:
        line = _parse_row(*row)
        event = _fill_event(connection, line)
        if event is not None:
            found.append(event)
            size += len(event.data)
        if size >= max_bytes:
            return found, line.cursor
    return found, Cursor(rows[-1][0]) if len(rows) == limit else None


def _parse_row(*row: Any) -> Line:
    cursor, session_id, root_id, turn_id, time, kind, reference, data = row
    return Line(cursor, session_id, root_id, turn_id, time, kind, reference, unpack(data) if data is not None else None)


def _select_all(connection: sqlite3.Connection, after: Cursor, limit: int) -> list[Any]:
    return connection.execute(
        f"SELECT {_COLUMNS} FROM events WHERE cursor > ? ORDER BY cursor LIMIT ?",  # noqa: S608 - constant text
        (after, limit),
    ).fetchall()


def _select_by_roots(
    connection: sqlite3.Connection, after: Cursor, roots: Sequence[SessionId], limit: int
) -> list[Any]:
    # A query a root, each walking its own index range, merged here: one query with IN would sort all that follows.
    one = f"SELECT {_COLUMNS} FROM events WHERE root_id = ? AND cursor > ? ORDER BY cursor LIMIT ?"  # noqa: S608
    rows: list[Any] = []
    for root in roots:
        rows += connection.execute(one, (root, after, limit)).fetchall()
    rows.sort(key=lambda row: row[0])
    return rows[:limit]


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def load_pruned_cursor(connection: sqlite3.Connection) -> Cursor:
    """The last cursor that was pruned; what a subscriber missed up to here is gone."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'pruned_through'").fetchone()
    return Cursor(int(row[0]) if row else 0)


def prune(connection: sqlite3.Connection, before: str, limit: int) -> int:
    """Drop up to `limit` of the oldest lines that are older than a time; returns how many went."""
    row = connection.execute(
        "SELECT count(*), max(cursor) FROM (SELECT cursor, time FROM events ORDER BY cursor LIMIT ?) WHERE time < ?",
        (limit, before),
    ).fetchone()
    if not row[0]:
        return 0
    connection.execute("DELETE FROM events WHERE cursor <= ?", (row[1],))
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('pruned_through', ?)", (str(row[1]),))
    return int(row[0])


# Filling in the data of lines that are stored by reference.

_DataLoader = Callable[[sqlite3.Connection, str], bytes | None]


def _load_message(connection: sqlite3.Connection, reference: str) -> bytes | None:
    return _wrap(b"message", messages.load_encoded(connection, reference))


def _load_turn(connection: sqlite3.Connection, reference: str) -> bytes | None:
    return _wrap(b"turn", turns.load_encoded(connection, reference))


def _load_call(connection: sqlite3.Connection, reference: str) -> bytes | None:
    return _wrap(b"call", calls.load_encoded(connection, reference))


def _load_ask(connection: sqlite3.Connection, reference: str) -> bytes | None:
    return _wrap(b"ask", asks.load_encoded(connection, reference))


def _restore_fields(load_data: _DataLoader, noun: str, earlier: dict[str, Any]) -> _DataLoader:
    """A loader of the thing as it was at an earlier event: fields that changed later get their old values back."""

    def load(connection: sqlite3.Connection, reference: str) -> bytes | None:
        data = load_data(connection, reference)
        if data is None:
            return None
        whole = orjson.loads(data)
        whole[noun].update(earlier)
        return long_json.encode_plain(whole)

    return load


def _load_queued_call(connection: sqlite3.Connection, reference: str) -> bytes | None:
    """A call as the model asked for it, whatever became of its input later."""
    data = _load_call(connection, reference)
    was = calls.load_queued_fields(connection, reference)
    if data is None or not was:
        return data
    whole = orjson.loads(data)
    whole["call"].update(was)
    return long_json.encode_plain(whole)


_OPEN_ASK_FIELDS: Final = {
    "status": "open",
    "answer": None,
    "answered_by": None,
    "answered_by_name": None,
    "answered_at": None,
}


def _insert_open_asks(connection: sqlite3.Connection, data: bytes, names: str) -> bytes:
    """A session as it was, with the asks that were open then."""
    whole = orjson.loads(data)
    found = [asks.load_encoded(connection, name) for name in names.split()]
    whole["session"]["asks"] = [{**orjson.loads(ask), **_OPEN_ASK_FIELDS} for ask in found if ask is not None]
    return long_json.encode_plain(whole)


_UNFINISHED_CALL_FIELDS: Final = {
    "is_error": False,
    "error_code": None,
    "output": None,
    "content": None,
    "result_id": None,
    "duration_ms": None,
}
_DATA_LOADERS: Final[dict[str, _DataLoader]] = {
    "message.completed": _load_message,
    "turn.ended": _load_turn,
    "tool.queued": _restore_fields(
        _load_queued_call, "call", {**_UNFINISHED_CALL_FIELDS, "status": "queued", "started_at": None, "decision": None}
    ),
    "tool.started": _restore_fields(_load_call, "call", {**_UNFINISHED_CALL_FIELDS, "status": "running"}),
    "tool.completed": _load_call,
    "ask.opened": _restore_fields(_load_ask, "ask", _OPEN_ASK_FIELDS),
    "ask.resolved": _load_ask,
}


_DATA_KEYS: Final = {
    "message.completed": b"message",
    "turn.ended": b"turn",
    "tool.queued": b"call",
    "tool.started": b"call",
    "tool.completed": b"call",
    "ask.opened": b"ask",
    "ask.resolved": b"ask",
}


def _wrap(noun: bytes, encoded: bytes | None) -> bytes | None:
    # Joined and not added: megabytes are copied once then, and others go on meanwhile.
    return b"".join((b'{"', noun, b'":', encoded, b"}")) if encoded is not None else None


def _fill_event(connection: sqlite3.Connection, line: Line) -> LoggedEvent | None:
    data = line.data
    if data is not None and line.reference is not None and line.type == "session.updated":
        data = _insert_open_asks(connection, data, line.reference)
    if data is None:
        assert line.reference is not None, f"line {line.cursor} has neither data nor a reference"
        # None where the thing was deleted since: there is no event to send any more.
        data = _DATA_LOADERS[line.type](connection, line.reference)
        if data is None:
            return None
    return LoggedEvent(line.cursor, line.session_id, line.root_id, line.turn_id, line.time, line.type, data)

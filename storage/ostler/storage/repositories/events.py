"""The event log: one line per event, in the order of their commit.

A line refers to its message, call, ask or turn instead of copying it, and its data is filled in when it is read; one
about a session refers to its open asks. The writer fills it in with the same functions before it is published, so that
what was sent live and what is replayed are the same bytes.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import Cursor, SessionId, TurnId
from ostler.storage.repositories.asks import Asks
from ostler.storage.repositories.calls import Calls
from ostler.storage.repositories.messages import Messages
from ostler.storage.repositories.turns import Turns
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


_COLUMNS: Final = "cursor, session_id, root_id, turn_id, time, type, reference, data_json"


def _parse_row(*row: Any) -> Line:
    cursor, session_id, root_id, turn_id, time, kind, reference, data = row
    return Line(cursor, session_id, root_id, turn_id, time, kind, reference, unpack(data) if data is not None else None)


_OPEN_ASK_FIELDS: Final = {
    "status": "open",
    "answer": None,
    "answered_by": None,
    "answered_by_name": None,
    "answered_at": None,
}
_UNFINISHED_CALL_FIELDS: Final = {
    "is_error": False,
    "error_code": None,
    "output": None,
    "content": None,
    "result_id": None,
    "duration_ms": None,
}


class _Reference(NamedTuple):
    """What a line of some type refers to, and the fields that had other values at that event."""

    noun: str
    earlier: Mapping[str, Any] = MappingProxyType({})


_REFERENCES: Final = {
    "message.completed": _Reference("message"),
    "turn.ended": _Reference("turn"),
    "tool.queued": _Reference(
        "call", {**_UNFINISHED_CALL_FIELDS, "status": "queued", "started_at": None, "decision": None}
    ),
    "tool.started": _Reference("call", {**_UNFINISHED_CALL_FIELDS, "status": "running"}),
    "tool.completed": _Reference("call"),
    "ask.opened": _Reference("ask", _OPEN_ASK_FIELDS),
    "ask.resolved": _Reference("ask"),
}


def _wrap(noun: str, encoded: bytes) -> bytes:
    # Joined and not added: megabytes are copied once then, and others go on meanwhile.
    return b"".join((b'{"', noun.encode(), b'":', encoded, b"}"))


class Events:
    __slots__ = ("_asks", "_calls", "_connection", "_messages", "_turns")

    def __init__(
        self, connection: sqlite3.Connection, asks: Asks, calls: Calls, messages: Messages, turns: Turns
    ) -> None:
        self._connection = connection
        self._asks = asks
        self._calls = calls
        self._messages = messages
        self._turns = turns

    def insert(self, lines: Sequence[Line]) -> None:
        self._connection.executemany(
            "INSERT INTO events (cursor, session_id, root_id, turn_id, time, type, reference, data_json)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [line if line.data is None else (*line[:-1], pack(line.data)) for line in lines],
        )

    def build_event(self, line: Line, thing: bytes | None = None) -> LoggedEvent:
        """Build the event of a line; `thing` is what it refers to, as JSON, where the writer already has it."""
        if thing is not None:
            line = line._replace(data=_wrap(_REFERENCES[line.type].noun, thing))
        event = self._fill_event(line)
        assert event is not None, f"{line.type} refers to {line.reference}, which is not stored"
        return event

    def list_page(
        self,
        after: Cursor,
        roots: Sequence[SessionId] | None,
        limit: int,
        max_bytes: int = 1 << 60,
    ) -> tuple[list[LoggedEvent], Cursor | None]:
        """Lines after a cursor, of these session trees or of all, and where to go on, if there are more.

        At most `limit`, and no further one after `max_bytes` of data: what a line refers to can be of any size.
        """
        rows = self._select_all(after, limit) if roots is None else self._select_by_roots(after, roots, limit)
        found: list[LoggedEvent] = []
        size = 0
        for row in rows:
            line = _parse_row(*row)
            event = self._fill_event(line)
            if event is not None:
                found.append(event)
                size += len(event.data)
            if size >= max_bytes:
                return found, line.cursor
        return found, Cursor(rows[-1][0]) if len(rows) == limit else None

    def _select_all(self, after: Cursor, limit: int) -> list[Any]:
        return self._connection.execute(
            f"SELECT {_COLUMNS} FROM events WHERE cursor > ? ORDER BY cursor LIMIT ?",  # noqa: S608 - constant text
            (after, limit),
        ).fetchall()

    def _select_by_roots(self, after: Cursor, roots: Sequence[SessionId], limit: int) -> list[Any]:
        # A query a root, each walking its own index range, merged here: one query with IN would sort all that follows.
        one = f"SELECT {_COLUMNS} FROM events WHERE root_id = ? AND cursor > ? ORDER BY cursor LIMIT ?"  # noqa: S608
        rows: list[Any] = []
        for root in roots:
            rows += self._connection.execute(one, (root, after, limit)).fetchall()
        rows.sort(key=lambda row: row[0])
        return rows[:limit]

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM events").fetchone()[0])

    def load_head(self) -> Cursor:
        """The last cursor given, also when its line was deleted since."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return Cursor(row[0] if row else 0)

    def load_pruned_cursor(self) -> Cursor:
        """The last cursor that was pruned; what a subscriber missed up to here is gone."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'pruned_through'").fetchone()
        return Cursor(int(row[0]) if row else 0)

    def prune(self, before: str, limit: int) -> int:
        """Drop up to `limit` of the oldest lines that are older than a time; returns how many went."""
        row = self._connection.execute(
            "SELECT count(*), max(cursor) FROM (SELECT cursor, time FROM events ORDER BY cursor LIMIT ?)"
            " WHERE time < ?",
            (limit, before),
        ).fetchone()
        if not row[0]:
            return 0
        self._connection.execute("DELETE FROM events WHERE cursor <= ?", (row[1],))
        self._connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('pruned_through', ?)", (str(row[1]),)
        )
        return int(row[0])

    def _load_thing(self, noun: str, reference: str) -> bytes | None:
        match noun:
            case "message":
                return self._messages.load_encoded(reference)
            case "turn":
                return self._turns.load_encoded(reference)
            case "call":
                return self._calls.load_encoded(reference)
            case _:
                return self._asks.load_encoded(reference)

    def _load_data(self, kind: str, reference: str) -> bytes | None:
        """The data of a line that is stored by reference, as it was at that event; None where it was deleted since."""
        noun, earlier = _REFERENCES[kind]
        encoded = self._load_thing(noun, reference)
        if encoded is None or not earlier:
            return None if encoded is None else _wrap(noun, encoded)
        # A call as the model asked for it, whatever became of its input later.
        queued = self._calls.load_queued_fields(reference) if kind == "tool.queued" else {}
        return long_json.encode_plain({noun: {**orjson.loads(encoded), **queued, **earlier}})

    def _insert_open_asks(self, data: bytes, names: str) -> bytes:
        """A session as it was, with the asks that were open then."""
        whole = orjson.loads(data)
        found = [self._asks.load_encoded(name) for name in names.split()]
        whole["session"]["asks"] = [{**orjson.loads(ask), **_OPEN_ASK_FIELDS} for ask in found if ask is not None]
        return long_json.encode_plain(whole)

    def _fill_event(self, line: Line) -> LoggedEvent | None:
        data = line.data
        if data is not None and line.reference is not None and line.type == "session.updated":
            data = self._insert_open_asks(data, line.reference)
        if data is None:
            assert line.reference is not None, f"line {line.cursor} has neither data nor a reference"
            # None where the thing was deleted since: there is no event to send any more.
            data = self._load_data(line.type, line.reference)
            if data is None:
                return None
        return LoggedEvent(line.cursor, line.session_id, line.root_id, line.turn_id, line.time, line.type, data)

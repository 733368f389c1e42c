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


class _Things(NamedTuple):
    """What lines refer to, as it is stored now."""

    found: Mapping[tuple[str, str], bytes]
    """By noun and id."""
    queued_fields: Mapping[str, Mapping[str, Any]]
    """Of calls: the fields that had other values when they were queued."""


_FIRST_STEP: Final = 4
"""Lines filled in together at first, and twice as many each time: a page of few long things reads few of them."""

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

    def build_data(self, line: Line, thing: bytes | None = None) -> bytes:
        """The data of the event of a line; `thing` is what it refers to, as JSON, where the writer already has it."""
        if thing is not None:
            return _wrap(_REFERENCES[line.type].noun, thing)
        if line.data is not None and line.reference is None:
            return line.data
        data = self._find_data(line, self._load_things([line]))
        assert data is not None, f"{line.type} refers to {line.reference}, which is not stored"
        return data

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
        size, done, step = 0, 0, _FIRST_STEP
        while done < len(rows):
            lines = [_parse_row(*row) for row in rows[done : done + step]]
            done, step = done + step, step * 2
            things = self._load_things(lines)
            for line in lines:
                # None where the thing was deleted since: there is no event to send any more.
                if (data := self._find_data(line, things)) is not None:
                    found.append(LoggedEvent(*line[:6], data))
                    size += len(data)
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

    def list_last_data(self, root_id: SessionId, kind: str, limit: int, within: int) -> list[bytes]:
        """The data of the last events of a type in a tree, oldest first; looked for among so many of its last lines."""
        # The inner query walks the end of an index range: how long the session is does not matter.
        rows = self._connection.execute(
            "SELECT data_json FROM (SELECT cursor, type, data_json FROM events WHERE root_id = ?"
            " ORDER BY cursor DESC LIMIT ?) WHERE type = ? ORDER BY cursor DESC LIMIT ?",
            (root_id, within, kind, limit),
        )
        return [unpack(row[0]) for row in rows][::-1]

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

    def _load_things(self, lines: Sequence[Line]) -> _Things:
        """What these lines refer to, read with a query for each noun."""
        wanted: dict[str, list[str]] = {}
        for line in lines:
            if line.data is None or line.type == "session.updated":
                wanted.setdefault(_find_noun(line), []).extend((line.reference or "").split())
        load = {
            "message": self._messages.load_many,
            "turn": self._turns.load_many,
            "call": self._calls.load_many,
            "ask": self._asks.load_many,
        }
        found = {(noun, name): thing for noun, names in wanted.items() for name, thing in load[noun](names).items()}
        queued = [line.reference for line in lines if line.type == "tool.queued" and line.reference is not None]
        return _Things(found, self._calls.load_queued_fields(queued) if queued else {})

    def _find_data(self, line: Line, things: _Things) -> bytes | None:
        """The data of a line as it was at that event; None where what it refers to was deleted since."""
        if line.data is not None:
            asks = line.reference if line.type == "session.updated" else None
            return line.data if asks is None else _insert_open_asks(line.data, asks.split(), things)
        assert line.reference is not None, f"line {line.cursor} has neither data nor a reference"
        noun, earlier = _REFERENCES[line.type]
        encoded = things.found.get((noun, line.reference))
        if encoded is None or not earlier:
            return None if encoded is None else _wrap(noun, encoded)
        # A call as the model asked for it, whatever became of its input later.
        queued = things.queued_fields.get(line.reference, {}) if line.type == "tool.queued" else {}
        return long_json.encode_plain({noun: {**orjson.loads(encoded), **queued, **earlier}})


def _find_noun(line: Line) -> str:
    return "ask" if line.data is not None else _REFERENCES[line.type].noun


def _insert_open_asks(data: bytes, names: Sequence[str], things: _Things) -> bytes:
    """A session as it was, with the asks that were open then."""
    whole = orjson.loads(data)
    found = [things.found.get(("ask", name)) for name in names]
    whole["session"]["asks"] = [{**orjson.loads(ask), **_OPEN_ASK_FIELDS} for ask in found if ask is not None]
    return long_json.encode_plain(whole)

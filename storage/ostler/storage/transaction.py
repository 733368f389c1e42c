"""The transaction of a unit of work: everything in it is written together, or not at all."""

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple

from ostler.protocol import times
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.ids import Cursor, SessionId, TurnId
from ostler.protocol.wire import Shape
from ostler.storage.repositories.events import Line, LoggedEvent
from ostler.storage.snapshot import Snapshot
from ostler.storage.sqlite import long_json
from ostler.storage.stamp import PLACES, Stamp, holds_cursor


@dataclass(frozen=True, slots=True)
class Scope:
    """The session, root session and turn that an event is about; all None for the daemon itself."""

    session_id: SessionId | None = None
    root_id: SessionId | None = None
    turn_id: TurnId | None = None


class _Unstamped(NamedTuple):
    """A line that has no cursor yet."""

    fields: tuple[SessionId | None, SessionId | None, TurnId | None, str, str]
    """Those that the line and its event share behind the cursor: one is made of each, once there is a cursor."""
    reference: str | None
    data: bytes | None
    published: bytes | None
    """The event's data; None where a cursor is part of it, and it is encoded with the stamp."""
    holder: Shape | None
    """What the cursor is part of."""
    appended: list[LoggedEvent]
    """The events of its unit."""
    stored: bool = True
    """It is published only, where its session was deleted in the same batch."""


class Tx(Snapshot):
    """Handed to a unit of work by the writer: what is stored, and the log to append to."""

    __slots__ = ("_unstamped", "appended", "head", "unwritten")

    def __init__(self, connection: sqlite3.Connection, head: Cursor) -> None:
        super().__init__(connection)
        self.begin(head)

    def begin(self, head: Cursor) -> None:
        """Begin a batch of units after a cursor; the repositories stay."""
        self.head = head
        self.appended: list[LoggedEvent] = []
        """The events of the unit that works now; the stamp fills it."""
        self.unwritten: list[Line] = []
        """Log lines of all units of a batch, inserted together: that takes half the time."""
        self.forget_unstamped()

    def forget_unstamped(self) -> None:
        """A unit, or a whole batch, was rolled back."""
        self._unstamped: list[_Unstamped] = []
        for placed in (self.turns, self.asks, self.tasks, self.idempotency):
            placed.unstamped.clear()

    @property
    def next_cursor(self) -> Cursor:
        """What the next line has for a cursor until it is stamped; see stamp.py."""
        return Cursor(PLACES + len(self._unstamped) + 1)

    @property
    def last_cursor(self) -> Cursor:
        """The cursor of the last line so far, or what it has for one."""
        return Cursor(self.next_cursor - 1) if self._unstamped else self.head

    def append(
        self,
        kind: str,
        scope: Scope,
        *,
        data: Shape | None = None,
        reference: str | None = None,
        thing: Shape | bytes | None = None,
    ) -> Cursor:
        """Add a line to the log; it is published when the unit has been committed.

        A type that is stored by reference takes the id of its message, call, ask or turn, which must have been written
        before; a caller that has the thing itself, as it is at this event, passes it too, which saves reading it. An
        event about a session takes both: its data, and the ids of its open asks.
        """
        assert EVENT_TYPES[kind].stored, f"{kind} is never stored"
        assert EVENT_TYPES[kind].by_reference == (data is None), f"{kind}: data or reference, as its type says"
        if kind == "turn.ended" and thing is None:
            thing = self.turns.find(TurnId(reference or ""))
        place, holder = self.next_cursor, data or thing
        fields = (scope.session_id, scope.root_id, scope.turn_id, times.now(), kind)
        if isinstance(holder, Shape) and holds_cursor(holder):
            self._unstamped.append(_Unstamped(fields, reference, None, None, holder, self.appended))
            return place
        encoded = None if data is None else long_json.encode(data)
        published = encoded if reference is None else None
        if published is None:
            line = Line(place, *fields, reference, encoded)
            published = self.events.build_data(line, long_json.encode(thing) if isinstance(thing, Shape) else thing)
        self._unstamped.append(_Unstamped(fields, reference, encoded, published, None, self.appended))
        return place

    def drop_lines(self, session_id: SessionId) -> None:
        """Publish the lines of this session so far, and store none: it is deleted with everything about it."""
        self._unstamped = [
            one._replace(stored=False) if one.fields[0] == session_id else one for one in self._unstamped
        ]

    def stamp(self) -> Stamp:
        """Give all lines their cursors, and every row that holds one: the last thing before the commit."""
        stamp, pending = Stamp(self.head), self._unstamped
        if not pending:
            return stamp
        for placed in (self.turns, self.asks, self.tasks, self.idempotency):
            if placed.unstamped:
                placed.stamp(stamp)
        cursor, unwritten = self.head, self.unwritten
        for fields, reference, data, published, holder, appended, stored in pending:
            cursor = Cursor(cursor + 1)
            line, sent = Line(cursor, *fields, reference, data), published
            if holder is not None:
                line, sent = self._encode_holder(line, stamp.apply(holder))
            assert sent is not None
            appended.append(LoggedEvent(cursor, *fields, sent))
            if stored:
                unwritten.append(line)
        self.head = cursor
        self.forget_unstamped()
        return stamp

    def _encode_holder(self, line: Line, holder: Shape) -> tuple[Line, bytes]:
        """The line of an event of which a cursor is part, and the data of the event."""
        encoded = long_json.encode(holder)
        if EVENT_TYPES[line.type].by_reference:
            return line, self.events.build_data(line, encoded)
        line = line._replace(data=encoded)
        return line, encoded if line.reference is None else self.events.build_data(line)

    def write_lines(self) -> None:
        """Insert the stamped lines."""
        lines, self.unwritten = self.unwritten, []
        if lines:
            self.events.insert(lines)

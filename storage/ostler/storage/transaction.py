"""A unit of work: everything in it is written together, or not at all."""

import sqlite3
from dataclasses import dataclass, field

from ostler.protocol import times
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.ids import Cursor, SessionId, TurnId
from ostler.protocol.wire import Shape
from ostler.storage.repositories import events
from ostler.storage.sqlite import long_json


@dataclass(frozen=True, slots=True)
class Scope:
    """What an event is about; all null for the daemon itself."""

    session_id: SessionId | None = None
    root_id: SessionId | None = None
    turn_id: TurnId | None = None


@dataclass(slots=True)
class Tx:
    """Handed to a unit of work by the writer."""

    connection: sqlite3.Connection
    head: Cursor
    appended: list[events.LoggedEvent] = field(default_factory=list)
    unwritten: list[events.Line] = field(default_factory=list)
    """Lines of the log, of all units of a batch: together they take half the time."""

    @property
    def next_cursor(self) -> Cursor:
        """The cursor that the next append will get: only the writer gives cursors."""
        return Cursor(self.head + 1)

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

        A type that is stored by reference takes the id of its thing, which must have been written before; who has
        the thing itself, as it is at this event, gives it too and spares the reading. One about a session takes both:
        its data, and the ids of its open asks.
        """
        assert EVENT_TYPES[kind].stored, f"{kind} is never stored"
        assert EVENT_TYPES[kind].by_reference == (data is None), f"{kind}: data or reference, as its type says"
        cursor = self.next_cursor
        encoded = long_json.encoded(data) if data is not None else None
        line = events.Line(
            cursor, scope.session_id, scope.root_id, scope.turn_id, times.now(), kind, reference, encoded
        )
        event = events.logged(self.connection, line, long_json.encoded(thing) if isinstance(thing, Shape) else thing)
        self.unwritten.append(line)
        self.head = cursor
        self.appended.append(event)
        return cursor

    def write_lines(self) -> None:
        """Before the commit, and in a unit that takes lines away."""
        lines, self.unwritten = self.unwritten, []
        if lines:
            events.insert(self.connection, lines)

"""The transaction of a unit of work: everything in it is written together, or not at all."""

import sqlite3
from dataclasses import dataclass

from ostler.protocol import times
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.ids import Cursor, SessionId, TurnId
from ostler.protocol.wire import Shape
from ostler.storage.repositories.events import Line, LoggedEvent
from ostler.storage.snapshot import Snapshot
from ostler.storage.sqlite import long_json


@dataclass(frozen=True, slots=True)
class Scope:
    """The session, root session and turn that an event is about; all None for the daemon itself."""

    session_id: SessionId | None = None
    root_id: SessionId | None = None
    turn_id: TurnId | None = None


class Tx(Snapshot):
    """Handed to a unit of work by the writer: what is stored, and the log to append to."""

    __slots__ = ("appended", "head", "unwritten")

    def __init__(self, connection: sqlite3.Connection, head: Cursor) -> None:
        super().__init__(connection)
        self.begin(head)

    def begin(self, head: Cursor) -> None:
        """Begin a batch of units after a cursor; the repositories stay."""
        self.head = head
        self.appended: list[LoggedEvent] = []
        self.unwritten: list[Line] = []
        """Log lines of all units of a batch, inserted together: that takes half the time."""

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

        A type that is stored by reference takes the id of its message, call, ask or turn, which must have been written
        before; a caller that has the thing itself, as it is at this event, passes it too, which saves reading it. An
        event about a session takes both: its data, and the ids of its open asks.
        """
        assert EVENT_TYPES[kind].stored, f"{kind} is never stored"
        assert EVENT_TYPES[kind].by_reference == (data is None), f"{kind}: data or reference, as its type says"
        cursor = self.next_cursor
        encoded = long_json.encode(data) if data is not None else None
        line = Line(cursor, scope.session_id, scope.root_id, scope.turn_id, times.now(), kind, reference, encoded)
        event = self.events.build_event(line, long_json.encode(thing) if isinstance(thing, Shape) else thing)
        self.unwritten.append(line)
        self.head = cursor
        self.appended.append(event)
        return cursor

    def write_lines(self) -> None:
        """Insert the pending lines: before the commit, and in a unit that deletes lines."""
        lines, self.unwritten = self.unwritten, []
        if lines:
            self.events.insert(lines)

"""The stamp: gives the lines of a unit of work their cursors, as the last thing before the commit.

Until then a line has a place behind all that is stored, and whatever holds its cursor holds the place: the rows are in
order among themselves, and the stamp makes cursors of the places. So nobody waits for the end of the log while a unit
works: where several nodes share a database, the row with the end is locked for the last statements alone.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from ostler.protocol.events import SessionData, TurnData
from ostler.protocol.ids import Cursor
from ostler.protocol.session import Session
from ostler.protocol.shapes import Turn
from ostler.protocol.wire import Shape

V = TypeVar("V")

PLACES: Final = 1 << 62
"""Places count from here: more than any cursor, and still a number for SQLite."""


def is_place(cursor: Cursor) -> bool:
    return cursor > PLACES


def holds_cursor(shape: Shape | bytes | None) -> bool:
    """Whether a cursor is part of it, so that it is encoded only when it is stamped."""
    return isinstance(shape, SessionData | TurnData | Turn)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Makes cursors of places."""

    head: Cursor
    """The end of the log before the first place."""

    @property
    def shift(self) -> int:
        """What a place is more than its cursor."""
        return PLACES - self.head

    def convert(self, cursor: Cursor) -> Cursor:
        return Cursor(cursor - self.shift) if is_place(cursor) else cursor

    def apply(self, value: V) -> V:
        """The value with its cursors, filled in where they stand; what holds none is left as it is.

        Whatever holds a place was made in this transaction, and nobody else has seen it: a copy of each would cost as
        much as all else that the stamp does.
        """
        if isinstance(value, SessionData):
            self.apply(value.session)
        elif isinstance(value, TurnData):
            self.apply(value.turn)
        elif isinstance(value, Session | Turn):
            if is_place(value.cursor):
                object.__setattr__(value, "cursor", self.convert(value.cursor))
            if isinstance(value, Session) and value.turn is not None:
                self.apply(value.turn)
        elif isinstance(value, int) and value > PLACES:
            return self.convert(Cursor(value))  # type: ignore[return-value]
        return value

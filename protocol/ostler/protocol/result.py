"""What can be asked about a persisted result."""

from typing import Annotated

from pydantic import Field, StringConstraints

from ostler.protocol.ids import ResultId
from ostler.protocol.wire import Params, Shape, Text


class ResultRead(Params):
    """Which part of which result."""

    result_id: ResultId
    """Which result."""
    offset_chars: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Where the part begins, in characters."""
    limit_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000
    """At most so many characters."""


class ResultPart(Shape):
    """A part of a result."""

    result_id: ResultId
    """Which result."""
    content: str
    """The text; empty past the end."""
    total_chars: int
    """How long the whole is."""
    next_offset: int | None
    """Where the next part begins; null where this one ends the result."""


class ResultSearch(Params):
    """What to look for in which result."""

    result_id: ResultId
    """Which result."""
    pattern: Annotated[Text, StringConstraints(min_length=1, max_length=10_000)]
    """A regular expression, as ripgrep takes it."""
    ignore_case: bool = False
    """Take large and small letters as equal."""
    offset: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Leave out so many lines first."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 250
    """At most so many lines."""


class ResultLine(Shape):
    """A line in which the pattern was found."""

    line: int
    """Its number, counted from 1."""
    text: str
    """The line, cut after 500 characters."""


class ResultLines(Shape):
    """What was found."""

    result_id: ResultId
    """Which result."""
    lines: list[ResultLine]
    """In the order of the result."""
    next_offset: int | None
    """Where to go on; null where there is no further line."""
    timed_out: bool = False
    """It took too long: there may be more."""

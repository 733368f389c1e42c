"""Memory notes: what is kept for later sessions."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ostler.protocol.ids import SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import Params, Shape

MemoryScope = Literal["project", "user"]
NoteText = Annotated[str, StringConstraints(min_length=1, max_length=10_000, pattern=r"\S")]


class MemoryAdd(Params):
    """What to keep, and for whom."""

    session_id: SessionId
    """The session whose project is meant."""
    text: NoteText
    """The note: a line, or a few. What looks like a secret is refused in the project's."""
    scope: MemoryScope = "project"
    """`project`: in `.ostler/memory` of the project, for everybody who works on it. `user`: the person's own."""


class MemoryNote(Shape):
    """A file of notes."""

    scope: MemoryScope
    """Whose it is."""
    path: str
    """The file."""
    size: int
    """Its bytes."""
    in_prompt: bool
    """Its first lines are part of the prompt of sessions that begin from now on."""


class MemoryList(Params):
    """Whose notes to list."""

    session_id: SessionId
    """The session whose project is meant."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class MemoryPage(Shape):
    """Files of notes: the person's own first, each index before the rest of its folder."""

    notes: list[MemoryNote]
    """The files of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""

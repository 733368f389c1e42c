"""The skills of a session: instructions that are kept in files for a kind of work."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import Params, Shape


class SkillEntry(Shape):
    """A skill, or a command, which is a skill in one file."""

    name: str
    """Its name: `/NAME` at the beginning of an input takes it up, in every client."""
    description: str
    """What it is for."""
    source: str
    """`project` or `user`."""
    path: str
    """Its file."""
    argument_hint: str
    """What its arguments are, in words for people; empty where it does not say."""
    context: Literal["inline", "fork"]
    """`inline`: its text becomes part of the conversation. `fork`: an agent works on it."""
    model: str | None
    """The model that answers while it is used; null: as before."""
    allowed_tools: list[str]
    """Rules that allow for the rest of the turn in which it is used."""
    by_model: bool
    """The model may take it up by itself."""
    by_person: bool
    """A person may take it up."""


class SkillProblem(Shape):
    """What is wrong in a file."""

    path: str
    """The file."""
    line: int
    """The line, counted from 1."""
    message: str
    """What is wrong."""


class SkillList(Params):
    """Whose skills to list."""

    session_id: SessionId
    """The session."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class SkillPage(Shape):
    """Skills, by name."""

    skills: list[SkillEntry]
    """The skills of this page: those in effect, as trust has it now."""
    errors: list[SkillProblem]
    """What is wrong with files of skills."""
    next: str | None = None
    """The `page` to ask for next; null at the end."""

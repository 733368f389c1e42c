"""The agents that work for a session, and the kinds that it may start."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import CallId, SessionId, TaskId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.shapes import Usage
from ostler.protocol.wire import Params, Shape, Time

AgentState = Literal["queued", "running", "waiting", "completed", "failed", "killed"]


class AgentInfo(Shape):
    """An agent: a session that works for another."""

    agent_id: SessionId | None
    """Its session; null while it is queued, as that is made when it begins."""
    call_id: CallId | None = None
    """The call that started it."""
    task_id: TaskId | None = None
    """Its task, where it is in the background."""
    name: str | None = None
    """Its name, if it was given one."""
    kind: str
    """What kind of agent it is."""
    status: AgentState
    """`queued`: as many work as may at once. `waiting`: it has an open ask. `killed`: somebody stopped it."""
    parent_id: SessionId
    """The session that it works for."""
    description: str
    """What it does, in a few words."""
    model: str
    """The model that answers."""
    mode: str
    """Its permission mode when it started."""
    worktree: str | None = None
    """The git worktree that it was given, if any; gone at its end where nothing was changed in it."""
    usage: Usage
    """What it and its own agents have used."""
    started_at: Time
    """When it was started, or began to wait for its place."""
    ended_at: Time | None = None
    """When it ended."""


class KindInfo(Shape):
    """A kind of agent."""

    name: str
    """Its name."""
    description: str
    """What it is for."""
    tools: list[str] | None
    """Its tools; null: those of the session that starts it."""
    source: str
    """`built-in`, `project` or `user`."""
    path: str | None
    """The file that it comes from."""


class KindProblem(Shape):
    """What is wrong in a file of a kind."""

    path: str
    """The file."""
    line: int
    """The line, counted from 1."""
    message: str
    """What is wrong."""


class AgentList(Params):
    """Whose agents to list."""

    session_id: SessionId
    """The session; the agents of its agents are listed, too."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class AgentPage(Shape):
    """Agents, parents before children, in the order of their beginnings."""

    agents: list[AgentInfo]
    """The agents of this page."""
    kinds: list[KindInfo]
    """The kinds that the session may start."""
    errors: list[KindProblem]
    """The files of kinds that cannot be used."""
    next: str | None
    """The `page` to ask for next; null at the end."""

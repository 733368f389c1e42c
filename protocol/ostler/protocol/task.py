"""What can be asked of background tasks."""

from typing import Annotated

from pydantic import Field

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE, MAX_WAIT_MS
from ostler.protocol.shapes import Task, TaskStatus
from ostler.protocol.wire import Params, Shape


class TaskList(Params):
    """Which tasks to list."""

    session_id: SessionId | None = None
    """Only tasks of this session and its agents. Null: of all sessions."""
    status: TaskStatus | None = None
    """Only tasks of this status. Null: all."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class TaskPage(Shape):
    """Tasks, oldest first."""

    tasks: list[Task]
    """The tasks of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class TaskRef(Params):
    """One task."""

    task_id: TaskId
    """Which task."""


class TaskRead(Params):
    """Which part of what a task has printed."""

    task_id: TaskId
    """Which task."""
    offset: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Where the part begins, in bytes: 0, or the `next_offset` of the part before."""
    limit: Annotated[int, Field(ge=16, le=1_000_000)] = 50_000
    """At most so many bytes."""


class TaskPart(Shape):
    """A part of what a task has printed."""

    task: Task
    """The task as it is now."""
    offset: int
    """Where the part begins: later than asked for where the middle of very much output was given up."""
    output: str
    """The text, decoded as UTF-8; empty where there is nothing new yet, or the end was reached."""
    next_offset: int
    """Where to go on. All was read when the task is over and this is its `output_bytes`."""


class TaskWait(Params):
    """A task to wait for."""

    task_id: TaskId
    """Which task."""
    timeout_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 30_000
    """How long to wait for its end."""

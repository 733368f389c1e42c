"""The work list of a session: what a todo is, and what can be asked of the list."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId, TodoId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import JsonObject, Name, Params, Shape, Text

TodoStatus = Literal["pending", "in_progress", "completed"]
TodoPriority = Literal["high", "medium", "low"]


class Todo(Shape):
    """An item of a work list."""

    id: TodoId
    """A number of its list, given once; a model that replaces the whole list may name it otherwise."""
    subject: str
    """What is to be done, in a line."""
    description: str = ""
    """The same at length."""
    active_form: str | None = None
    """What is being done while it is in progress, for a spinner: `Running the tests`."""
    status: TodoStatus = "pending"
    """How far it is."""
    priority: TodoPriority | None = None
    """How much it matters; null where nobody said."""
    owner: str | None = None
    """Who does it: `main`, or an agent's name."""
    blocks: list[TodoId] = []
    """Items that wait for this one."""
    blocked_by: list[TodoId] = []
    """Items that it waits for, open or not."""
    metadata: dict[str, Any] = {}
    """What clients and tools keep with it."""


class TodoList(Params):
    """Whose list to show."""

    session_id: SessionId
    """Which session; an agent has a list of its own."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class TodoPage(Shape):
    """Items in the order of the list."""

    todos: list[Todo]
    """The items of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class TodoCreate(Params):
    """A new item, at the end of the list."""

    session_id: SessionId
    """Whose list."""
    subject: Name
    """What is to be done, in a line."""
    description: Text = ""
    """The same at length."""
    active_form: Name | None = None
    """What is being done while it is in progress."""
    status: TodoStatus = "pending"
    """How far it is."""
    priority: TodoPriority | None = None
    """How much it matters."""
    owner: Name | None = None
    """Who does it: `main` is the session's own agent."""
    blocked_by: list[TodoId] = []
    """Items that it waits for."""
    metadata: JsonObject = {}
    """What is kept with it."""


class TodoUpdate(Params):
    """An item, and the fields that change; the others stay."""

    session_id: SessionId
    """Whose list."""
    todo_id: TodoId
    """Which item."""
    subject: Name | None = None
    """What is to be done."""
    description: Text | None = None
    """The same at length."""
    active_form: Name | None = None
    """What is being done while it is in progress; null takes it away."""
    status: TodoStatus | None = None
    """How far it is."""
    priority: TodoPriority | None = None
    """How much it matters; null takes it away."""
    owner: Name | None = None
    """Who does it; null: nobody yet."""
    blocks: list[TodoId] | None = None
    """All items that wait for this one."""
    blocked_by: list[TodoId] | None = None
    """All items that it waits for."""
    metadata: JsonObject | None = None
    """Joined to what is kept; a key with null is taken out."""


class TodoRef(Params):
    """One item of a list."""

    session_id: SessionId
    """Whose list."""
    todo_id: TodoId
    """Which item."""


class Todos(Shape):
    """A list after a change."""

    todo_id: TodoId
    """The item that was made, changed or deleted."""
    todos: list[Todo]
    """All items, in the order of the list."""

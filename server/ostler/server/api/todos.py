"""The handlers of the todo methods: people read and edit the work list of a session."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ostler.protocol.errors import Conflict, InvalidParams, TodoNotFound
from ostler.protocol.ids import TodoId
from ostler.protocol.methods import TODO_LIST
from ostler.protocol.todo import Todo, TodoCreate, TodoList, TodoPage, TodoRef, Todos, TodoUpdate
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.todos.tool_adapter import SessionTodos
from ostler.server.rpc.paging import paginate_list
from ostler.tools.services import TodoEdit, TodoRefused


@dataclass(frozen=True, slots=True)
class TodoMethods:
    async def list(self, params: TodoList, actor: SessionActor) -> TodoPage:
        todos = await SessionTodos(actor.live, None).list_todos()
        page, token = paginate_list(TODO_LIST.name, params, todos)
        return TodoPage(todos=page, next=token)

    async def create(self, params: TodoCreate, actor: SessionActor) -> Todos:
        fields = _pick_fields(params, {"subject", "description", "active_form", "status", "priority", "owner"})
        edit = TodoEdit(fields, params.metadata, blocked_by=params.blocked_by)
        try:
            async with _edit(actor) as todos:
                made = await todos.create(edit)
        except TodoRefused as refused:
            if refused.missing is None:
                raise Conflict(str(refused)) from None
            raise InvalidParams.of("blocked_by", str(refused)) from None
        return await _tell(todos, made.id)

    async def update(self, params: TodoUpdate, actor: SessionActor) -> Todos:
        fields = _pick_fields(params, {"subject", "description", "active_form", "status", "priority", "owner"})
        for name in ("subject", "description", "status"):
            if name in fields and fields[name] is None:
                raise InvalidParams.of(name, "cannot be taken away")
        edit = TodoEdit(fields, params.metadata or {}, blocks=params.blocks, blocked_by=params.blocked_by)
        try:
            async with _edit(actor) as todos:
                await todos.update(params.todo_id, edit)
        except TodoRefused as refused:
            if refused.missing == params.todo_id:
                raise TodoNotFound(params.todo_id) from None
            missing_blocker = refused.missing in (params.blocks or ())
            raise InvalidParams.of("blocks" if missing_blocker else "blocked_by", str(refused)) from None
        return await _tell(todos, params.todo_id)

    async def delete(self, params: TodoRef, actor: SessionActor) -> Todos:
        try:
            async with _edit(actor) as todos:
                await todos.delete(params.todo_id)
        except TodoRefused:
            raise TodoNotFound(params.todo_id) from None
        return await _tell(todos, params.todo_id)


@asynccontextmanager
async def _edit(actor: SessionActor) -> AsyncIterator[SessionTodos]:
    """The list, to be changed by a person; the model is told of it with what it is sent next."""
    async with actor.lock:  # a turn that begins meanwhile would store the session's state without the edit
        yield SessionTodos(actor.live, None)


async def _tell(todos: SessionTodos, todo_id: TodoId) -> Todos:
    after: Sequence[Todo] = await todos.list_todos()
    return Todos(todo_id=todo_id, todos=[*after])


def _pick_fields(params: TodoCreate | TodoUpdate, names: set[str]) -> dict[str, Any]:
    """The fields of a todo that were given."""
    return {name: getattr(params, name) for name in names & params.model_fields_set}

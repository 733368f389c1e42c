"""TodoWrite: the whole work list at once, in the place of the four tools for its items."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import Todo, TodoPriority, TodoStatus
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import TodoRefused
from ostler.tools.text import one_line
from ostler.tools.todos.item import MAX_DESCRIPTION_CHARS, NUDGE, needs_verification
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block

SEVERAL_ACTIVE: Final = 1


class WrittenTodo(ToolInput):
    """An item as the model writes it."""

    content: Annotated[str, Field(min_length=1, max_length=MAX_DESCRIPTION_CHARS)] = Field(
        description="What is to be done, as a short order."
    )
    status: TodoStatus = Field(description="How far it is.")
    active_form: str | None = Field(None, alias="activeForm", description="The same while it is being done.")
    id: Annotated[TodoId, Field(min_length=1, max_length=100)] | None = Field(None, description="Its id.")
    priority: TodoPriority | None = Field(None, description="How much it matters.")


class TodoWriteInput(ToolInput):
    """The list as it is from now on."""

    todos: list[WrittenTodo] = Field(description="All items, in order.", max_length=500)


class TodoItem(ToolOutput):
    """An item of the list."""

    content: str
    status: TodoStatus
    active_form: str | None = Field(default=None, serialization_alias="activeForm")
    id: TodoId
    priority: Literal["high", "medium", "low"] | None = None


class TodoWriteOutput(ToolOutput):
    """The list before and after."""

    old_todos: list[TodoItem]
    new_todos: list[TodoItem]
    verification_nudge_needed: bool = False


class TodoWrite(Tool[TodoWriteInput, TodoWriteOutput]):
    """Replaces the whole list."""

    name = "TodoWrite"
    Input = TodoWriteInput
    Output = TodoWriteOutput
    title = "Writes the work list"
    given_to_agents = "all"
    search_hint = "plan work items checklist progress track"
    deferred = True
    strict = True
    max_result_chars = 100_000

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.todos == "v1"

    def summary(self, given: TodoWriteInput) -> str:
        done = sum(todo.status == "completed" for todo in given.todos)
        return f"Todos: {done} of {len(given.todos)} done"

    async def check_permission(self, given: TodoWriteInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def validate(self, given: TodoWriteInput, context: ToolContext) -> Failure | None:
        active = [todo.content for todo in given.todos if todo.status == "in_progress"]
        if len(active) > 1:
            named = "; ".join(one_line(each, 60) for each in active[:5])
            return Failure(f"One todo at most can be in_progress, and {len(active)} are: {named}.", SEVERAL_ACTIVE)
        return None

    async def run(self, given: TodoWriteInput, context: ToolContext) -> ToolResult[TodoWriteOutput] | Failure:
        written = [_build_todo(todo) for todo in given.todos]
        all_done = all(todo.status == "completed" for todo in written)
        try:
            # A list on which nothing is left to do is put away.
            before, after = await context.services.todos.replace_all([] if all_done else written)
        except TodoRefused as refused:
            return Failure(str(refused))
        return ToolResult(
            TodoWriteOutput(
                old_todos=_show(before),
                new_todos=_show(after),
                verification_nudge_needed=needs_verification(written),
            )
        )

    def render(self, output: TodoWriteOutput) -> list[Block]:
        active = next((todo for todo in output.new_todos if todo.status == "in_progress"), None)
        left = sum(todo.status != "completed" for todo in output.new_todos)
        if not output.new_todos:
            text = "The work list is empty: everything is done." if output.old_todos else "The work list is empty."
        elif active is not None:
            text = f"Work list written, {left} open. Active now: {one_line(active.content, 200)}"
        else:
            text = f"Work list written, {left} open. None is in progress."
        return [text_block(f"{text}\n{NUDGE}" if output.verification_nudge_needed else text)]


def _build_todo(written: WrittenTodo) -> Todo:
    return Todo(
        id=written.id or TodoId(""),
        subject=written.content,
        active_form=written.active_form,
        status=written.status,
        priority=written.priority,
    )


def _show(todos: Sequence[Todo]) -> list[TodoItem]:
    return [
        TodoItem(
            content=todo.subject, status=todo.status, active_form=todo.active_form, id=todo.id, priority=todo.priority
        )
        for todo in todos
    ]

"""TaskGet: one item of the work list, whole."""

from typing import Annotated

from pydantic import Field

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import Todo, TodoStatus
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block


class TaskGetInput(ToolInput):
    """Which item."""

    todo_id: Annotated[TodoId, Field(max_length=100)] = Field(alias="taskId", description="The item's id.")


class WholeTodo(ToolOutput):
    """An item, whole."""

    id: TodoId
    subject: str
    description: str
    status: TodoStatus
    owner: str | None
    blocks: list[TodoId]
    blocked_by: list[TodoId] = Field(serialization_alias="blockedBy")


class TaskGetOutput(ToolOutput):
    """The item, or null where the list has none of this id."""

    task: WholeTodo | None


class TaskGet(Tool[TaskGetInput, TaskGetOutput]):
    """Shows one item."""

    name = "TaskGet"
    Input = TaskGetInput
    Output = TaskGetOutput
    title = "Shows one item of the work list"
    given_to_agents = "all"
    search_hint = "todo work item details description"
    deferred = True
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.todos == "v2"

    def is_concurrency_safe(self, given: TaskGetInput) -> bool:
        return True

    def summary(self, given: TaskGetInput) -> str:
        return f"Todo {given.todo_id}"

    async def check_permission(self, given: TaskGetInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: TaskGetInput, context: ToolContext) -> ToolResult[TaskGetOutput] | Failure:
        todos = await context.services.todos.list_todos()
        found = next((todo for todo in todos if todo.id == given.todo_id), None)
        return ToolResult(TaskGetOutput(task=_show_whole(found) if found else None))

    def render(self, output: TaskGetOutput) -> list[Block]:
        todo = output.task
        if todo is None:
            return [text_block("The work list has no item of this id. TaskList shows those that there are.")]
        lines = [f"{todo.id}. {todo.subject} ({todo.status})"]
        lines += [f"Owner: {todo.owner}"] if todo.owner else []
        lines += [f"Waits for: {', '.join(todo.blocked_by)}"] if todo.blocked_by else []
        lines += [f"Waited for by: {', '.join(todo.blocks)}"] if todo.blocks else []
        return [text_block("\n".join([*lines, todo.description] if todo.description else lines))]


def _show_whole(todo: Todo) -> WholeTodo:
    return WholeTodo(
        id=todo.id,
        subject=todo.subject,
        description=todo.description,
        status=todo.status,
        owner=todo.owner,
        blocks=todo.blocks,
        blocked_by=todo.blocked_by,
    )

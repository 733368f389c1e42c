"""TaskList: the work list, a line an item."""

from pydantic import Field

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import TodoStatus
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.text import one_line
from ostler.tools.todos.item import list_open_blockers
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block

_INTERNAL = "_internal"


class TaskListInput(ToolInput):
    """Nothing: the list is that of the session."""


class ListedTodo(ToolOutput):
    """An item in short."""

    id: TodoId
    subject: str
    status: TodoStatus
    owner: str | None
    blocked_by: list[TodoId] = Field(serialization_alias="blockedBy")
    """Only what is still open."""


class TaskListOutput(ToolOutput):
    """The list."""

    tasks: list[ListedTodo]


class TaskList(Tool[TaskListInput, TaskListOutput]):
    """Shows the list."""

    name = "TaskList"
    Input = TaskListInput
    Output = TaskListOutput
    title = "Shows the work list"
    given_to_agents = "all"
    search_hint = "todo work items all open progress"
    deferred = True
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.todos == "v2"

    def is_concurrency_safe(self, given: TaskListInput) -> bool:
        return True

    def summary(self, given: TaskListInput) -> str:
        return "Todos"

    async def check_permission(self, given: TaskListInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: TaskListInput, context: ToolContext) -> ToolResult[TaskListOutput] | Failure:
        todos = await context.services.todos.list_todos()
        shown = [
            ListedTodo(
                id=todo.id,
                subject=todo.subject,
                status=todo.status,
                owner=todo.owner,
                blocked_by=list_open_blockers(todo, todos),
            )
            for todo in todos
            if not todo.metadata.get(_INTERNAL)
        ]
        return ToolResult(TaskListOutput(tasks=shown))

    def render(self, output: TaskListOutput) -> list[Block]:
        if not output.tasks:
            return [text_block("The work list is empty.")]
        return [text_block("\n".join(_format_line(todo) for todo in output.tasks))]


def _format_line(todo: ListedTodo) -> str:
    owner = f", {todo.owner}" if todo.owner else ""
    waits = f", waits for {', '.join(todo.blocked_by)}" if todo.blocked_by else ""
    return f"{todo.id}. {one_line(todo.subject, 200)} ({todo.status}{owner}{waits})"

"""TaskCreate: adds an item to the work list."""

from typing import Annotated, Any

from pydantic import Field

from ostler.protocol.ids import TodoId
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import TodoEdit, TodoRefused
from ostler.tools.text import one_line
from ostler.tools.todos.item import MAX_DESCRIPTION_CHARS, MAX_SUBJECT_CHARS
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block


class TaskCreateInput(ToolInput):
    """The new item."""

    subject: Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT_CHARS)] = Field(
        description="What is to be done, as a short order: `Add a test for the parser`."
    )
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] = Field(
        description="What belongs to it, and when it is done."
    )
    active_form: Annotated[str, Field(max_length=MAX_SUBJECT_CHARS)] | None = Field(
        None, alias="activeForm", description="The same while it is being done: `Adding a test for the parser`."
    )
    metadata: dict[str, Any] | None = Field(None, description="Anything else to keep with it.")


class CreatedTodo(ToolOutput):
    """The item as it was made."""

    id: TodoId
    subject: str


class TaskCreateOutput(ToolOutput):
    """What was added."""

    task: CreatedTodo


class TaskCreate(Tool[TaskCreateInput, TaskCreateOutput]):
    """Adds an item."""

    name = "TaskCreate"
    Input = TaskCreateInput
    Output = TaskCreateOutput
    title = "Adds an item to the work list"
    given_to_agents = "all"
    search_hint = "todo plan work item list add checklist"

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.todos == "v2"

    def summary(self, given: TaskCreateInput) -> str:
        return f"Todo: {one_line(given.subject, 100)}"

    async def check_permission(self, given: TaskCreateInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: TaskCreateInput, context: ToolContext) -> ToolResult[TaskCreateOutput] | Failure:
        fields = {"subject": given.subject, "description": given.description, "active_form": given.active_form}
        try:
            todo = await context.services.todos.create(TodoEdit(fields, given.metadata or {}))
        except TodoRefused as refused:
            return Failure(str(refused))
        return ToolResult(TaskCreateOutput(task=CreatedTodo(id=todo.id, subject=todo.subject)))

    def render(self, output: TaskCreateOutput) -> list[Block]:
        return [text_block(f"Todo {output.task.id} added: {output.task.subject}")]

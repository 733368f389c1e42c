"""TaskUpdate: changes an item of the work list, or deletes it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import TodoStatus
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import TodoEdit, TodoRefused
from ostler.tools.todos.item import MAX_DESCRIPTION_CHARS, MAX_SUBJECT_CHARS, NUDGE, needs_verification
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block


class TaskUpdateInput(ToolInput):
    """Which item, and what changes."""

    todo_id: Annotated[TodoId, Field(max_length=100)] = Field(alias="taskId", description="The item's id.")
    subject: Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT_CHARS)] | None = Field(
        None, description="What is to be done."
    )
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] | None = Field(
        None, description="What belongs to it, and when it is done."
    )
    active_form: Annotated[str, Field(max_length=MAX_SUBJECT_CHARS)] | None = Field(
        None, alias="activeForm", description="The same while it is being done."
    )
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = Field(
        None, description="How far it is; `deleted` removes it."
    )
    add_blocks: list[TodoId] | None = Field(
        None, alias="addBlocks", max_length=100, description="Items that wait for this one from now on."
    )
    add_blocked_by: list[TodoId] | None = Field(
        None, alias="addBlockedBy", max_length=100, description="Items that this one waits for from now on."
    )
    owner: Annotated[str, Field(max_length=100)] | None = Field(None, description="Who does it: an agent's name.")
    metadata: dict[str, Any] | None = Field(None, description="Joined to what is kept with it; null removes a key.")


class StatusChange(ToolOutput):
    """How far the item was, and is."""

    before: TodoStatus = Field(serialization_alias="from")
    after: str = Field(serialization_alias="to")


class TaskUpdateOutput(ToolOutput):
    """What was changed."""

    success: bool
    todo_id: TodoId = Field(serialization_alias="taskId")
    updated_fields: list[str] = Field(default_factory=list, serialization_alias="updatedFields")
    error: str | None = None
    status_change: StatusChange | None = Field(default=None, serialization_alias="statusChange")
    verification_nudge_needed: bool = False


class TaskUpdate(Tool[TaskUpdateInput, TaskUpdateOutput]):
    """Changes an item."""

    name = "TaskUpdate"
    Input = TaskUpdateInput
    Output = TaskUpdateOutput
    title = "Changes an item of the work list"
    given_to_agents = "all"
    search_hint = "todo work item status progress complete owner dependency delete"

    def is_enabled(self, session: SessionView) -> bool:
        return session.config.todos == "v2"

    def summary(self, given: TaskUpdateInput) -> str:
        return f"Todo {given.todo_id}: {given.status}" if given.status else f"Todo {given.todo_id}"

    async def check_permission(self, given: TaskUpdateInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: TaskUpdateInput, context: ToolContext) -> ToolResult[TaskUpdateOutput] | Failure:
        try:
            if given.status == "deleted":
                return await self._delete(given, context)
            return await self._change(given, context)
        except TodoRefused as refused:
            output = TaskUpdateOutput(success=False, todo_id=given.todo_id, error=str(refused))
            return ToolResult(output, is_error=True)

    async def _delete(self, given: TaskUpdateInput, context: ToolContext) -> ToolResult[TaskUpdateOutput]:
        before = next((todo for todo in await context.services.todos.list_todos() if todo.id == given.todo_id), None)
        await context.services.todos.delete(given.todo_id)
        change = StatusChange(before=before.status, after="deleted") if before else None
        return ToolResult(
            TaskUpdateOutput(success=True, todo_id=given.todo_id, updated_fields=["status"], status_change=change)
        )

    async def _change(self, given: TaskUpdateInput, context: ToolContext) -> ToolResult[TaskUpdateOutput]:
        fields: dict[str, Any] = {
            name: value
            for name in ("subject", "description", "active_form", "status", "owner")
            if (value := getattr(given, name)) is not None
        }
        edit = TodoEdit(
            fields,
            given.metadata or {},
            add_blocks=given.add_blocks or (),
            add_blocked_by=given.add_blocked_by or (),
            claims=given.status == "in_progress" and given.owner is None,
        )
        was, todos = await context.services.todos.update(given.todo_id, edit)
        now = next(todo for todo in todos if todo.id == given.todo_id)
        changed = [
            TaskUpdateInput.model_fields[name].alias or name
            for name, differs in {
                **{name: getattr(was, name) != getattr(now, name) for name in (*fields, "owner")},
                "add_blocks": was.blocks != now.blocks,
                "add_blocked_by": was.blocked_by != now.blocked_by,
                "metadata": was.metadata != now.metadata,
            }.items()
            if differs
        ]
        completed = was.status != "completed" and now.status == "completed"
        change = StatusChange(before=was.status, after=now.status) if was.status != now.status else None
        return ToolResult(
            TaskUpdateOutput(
                success=True,
                todo_id=given.todo_id,
                updated_fields=changed,
                status_change=change,
                verification_nudge_needed=completed and needs_verification(todos),
            )
        )

    def render(self, output: TaskUpdateOutput) -> list[Block]:
        if output.error is not None:
            return [text_block(output.error)]
        change = output.status_change
        what = f"{change.before} → {change.after}" if change else ", ".join(output.updated_fields) or "nothing changed"
        text = f"Todo {output.todo_id}: {what}."
        return [text_block(f"{text}\n{NUDGE}" if output.verification_nudge_needed else text)]

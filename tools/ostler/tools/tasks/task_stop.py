"""TaskStop: ends a task, with all that it started."""

from typing import Any, Final

from pydantic import Field, model_validator

from ostler.protocol.ids import TaskId
from ostler.protocol.shapes import Task
from ostler.tools.context import ToolContext
from ostler.tools.tasks.lookup import describe_missing_task, rename_parameter
from ostler.tools.text import one_line
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits

UNKNOWN: Final = 1
NOT_RUNNING: Final = 2
STILL_RUNNING: Final = 3
_WHY: Final = "It was stopped with TaskStop."


class TaskStopInput(ToolInput):
    """Which task."""

    task_id: str = Field(description="The task, as its start named it.")

    @model_validator(mode="before")
    @classmethod
    def _old_spelling(cls, given: Any) -> Any:
        return rename_parameter(given, "task_id", ("shell_id",))


class TaskStopOutput(ToolOutput):
    """What was ended."""

    message: str
    task_id: TaskId
    task_type: str
    command: str | None = None


class TaskStop(Tool[TaskStopInput, TaskStopOutput]):
    """Ends a running task."""

    name = "TaskStop"
    aliases = ("KillShell",)
    Input = TaskStopInput
    Output = TaskStopOutput
    title = "Ends a background task"
    search_hint = "kill end cancel background shell command monitor agent"
    deferred = True
    permissions = PermissionTraits(text="task_id")

    def is_concurrency_safe(self, given: TaskStopInput) -> bool:
        return True

    def summary(self, given: TaskStopInput) -> str:
        return f"Stop {given.task_id[:100]}"

    async def check_permission(self, given: TaskStopInput, context: ToolContext) -> Check:
        return Allow(own_state=True)  # it ends only what the session itself began

    async def run(self, given: TaskStopInput, context: ToolContext) -> ToolResult[TaskStopOutput] | Failure:
        known = await context.services.tasks.list_tasks()
        before = next((task for task in known if task.id == given.task_id), None)
        if before is None:
            return Failure(describe_missing_task(given.task_id, known), UNKNOWN)
        if before.ended_at is not None:
            return Failure(f"{before.id} is not running: it is {before.status} already.", NOT_RUNNING)
        after = await context.services.tasks.stop(before.id, _WHY)
        if after is None or after.ended_at is None:
            return Failure(f"{before.id} was told to end, but has not ended yet.", STILL_RUNNING)
        return ToolResult(_build_output(after))

    def render(self, output: TaskStopOutput) -> list[Block]:
        return [text_block(output.message)]


def _build_output(task: Task) -> TaskStopOutput:
    what = one_line(task.command or task.description, 200)
    stopped = task.status == "killed"
    message = f"Stopped {task.id}: {what}" if stopped else f"{task.id} has ended by itself just now: {what}"
    return TaskStopOutput(message=message, task_id=task.id, task_type=task.type, command=task.command)

"""TaskOutput: shows what a task has printed since the last look, and its status."""

from typing import Any, Final, Literal

from pydantic import Field, model_validator

from ostler.protocol.ids import TaskId
from ostler.protocol.shapes import Task, TaskStatus
from ostler.tools.context import ToolContext
from ostler.tools.formats.terminal_text import clean_ahead, clean_for_model
from ostler.tools.search import line_filter, ripgrep
from ostler.tools.services import TaskSnapshot
from ostler.tools.tasks.lookup import describe_missing_task, rename_parameter
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Allow,
    Block,
    Check,
    Failure,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits

Retrieval = Literal["success", "timeout", "not_ready"]
_MAX_TIMEOUT_MS: Final = 600_000
_NEW_BYTES: Final = 8 * 1024 * 1024
"""New output that is returned or filtered in one call."""
_FILTERED_CHARS: Final = 40_000
_MAX_LINES: Final = 2_000


class TaskOutputInput(ToolInput):
    """Which task, and how long to wait for its end."""

    task_id: str = Field(description="The task, as its start named it.")
    block: bool = Field(True, description="Wait for its end.")
    timeout: int = Field(30_000, ge=0, le=_MAX_TIMEOUT_MS, description="Milliseconds to wait at most.")
    filter: str | None = Field(None, description="A regular expression: show only the lines that match.")

    @model_validator(mode="before")
    @classmethod
    def _old_spellings(cls, given: Any) -> Any:
        return rename_parameter(given, "task_id", ("bash_id", "agentId"))


class TaskState(ToolOutput):
    """A task, and what it has printed since the last look."""

    task_id: TaskId
    task_type: str
    status: TaskStatus
    description: str
    output: str
    exit_code: int | None = None
    error: str | None = None
    prompt: str | None = None
    """Of an agent: what it was told."""
    result: str | None = None
    """Of an agent: what it came to."""


class TaskOutputOutput(ToolOutput):
    """How the task is."""

    retrieval_status: Retrieval
    """`success`: it is over. `timeout`: not after the time. `not_ready`: not yet, and nobody waited."""
    task: TaskState
    filtered: bool = False
    """Only the lines that match are in its output."""
    more: bool = False
    """It has printed more, which the next look shows."""
    left_out: bool = False
    """More lines match than are shown."""


class TaskOutput(Tool[TaskOutputInput, TaskOutputOutput]):
    """Shows what a task has printed."""

    name = "TaskOutput"
    aliases = ("BashOutput", "AgentOutput")
    Input = TaskOutputInput
    Output = TaskOutputOutput
    title = "Shows what a background task has printed"
    search_hint = "background shell agent log progress wait result"
    shows_both_ends = True
    only_reads = True
    reads_tasks = True
    permissions = PermissionTraits(text="task_id")

    def called_as(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        # Models that know it by this name expect an answer at once.
        return {"block": False, **given} if name == "BashOutput" else given

    def activity(self, given: TaskOutputInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: TaskOutputInput) -> bool:
        return True

    def summary(self, given: TaskOutputInput) -> str:
        wait = f" (wait up to {given.timeout / 1000:g} s)" if given.block and given.timeout else ""
        return f"Output of {given.task_id[:100]}{wait}"

    async def check_permission(self, given: TaskOutputInput, context: ToolContext) -> Check:
        return Allow()  # the session's own

    async def validate(self, given: TaskOutputInput, context: ToolContext) -> Failure | None:
        wrong = await line_filter.check_pattern(given.filter) if given.filter is not None else None
        return Failure(f"filter is no usable pattern: {wrong}") if wrong is not None else None

    async def run(self, given: TaskOutputInput, context: ToolContext) -> ToolResult[TaskOutputOutput] | Failure:
        seconds = given.timeout / 1000 if given.block else 0.0
        task_id = TaskId(given.task_id)
        look = await context.services.tasks.poll(task_id, seconds, _NEW_BYTES, whole_lines=given.filter is not None)
        if look is None:
            return Failure(describe_missing_task(given.task_id, await context.services.tasks.list_tasks()), 1)
        try:
            text, left_out = await _filter_lines(look.new_output, given.filter)
        except (ripgrep.RipgrepError, ripgrep.RipgrepMissing) as error:
            return Failure(str(error))
        output = TaskOutputOutput(
            retrieval_status=_classify_retrieval(look, given),
            task=_build_state(look.task, text),
            filtered=given.filter is not None,
            more=look.has_more,
            left_out=left_out,
        )
        await read_in_thread(clean_ahead, text)
        return ToolResult(output)

    def render(self, output: TaskOutputOutput) -> list[Block]:
        shown = clean_for_model(output.task.output).rstrip("\n")
        parts = [_format_status(output), shown or _format_empty(output)]
        if output.left_out:
            lines = output.task.output.count("\n")
            parts.append(f"(cut after {lines} line{'s' if lines > 1 else ''}: use a narrower filter)")
        parts.append(_format_next_step(output))
        return [text_block("\n".join(part for part in parts if part))]


async def _filter_lines(text: str, pattern: str | None) -> tuple[str, bool]:
    """The lines that match, and whether there are more of them than can be shown."""
    if pattern is None:
        return text, False
    lines = await line_filter.find_matching_lines(pattern, await read_in_thread(clean_for_model, text), _MAX_LINES + 1)
    kept: list[str] = []
    size = 0
    for line in lines[:_MAX_LINES]:
        size += len(line) + 1
        if size > _FILTERED_CHARS:
            break
        kept.append(line)
    if not kept and lines:
        kept = [lines[0][:_FILTERED_CHARS]]
    return "".join(f"{line}\n" for line in kept), len(kept) < len(lines)


def _classify_retrieval(look: TaskSnapshot, given: TaskOutputInput) -> Retrieval:
    if look.task.ended_at is not None:
        return "success"
    return "timeout" if given.block else "not_ready"


def _build_state(task: Task, output: str) -> TaskState:
    return TaskState(
        task_id=task.id,
        task_type=task.type,
        status=task.status,
        description=task.description,
        output=output,
        exit_code=task.exit_code,
        error=task.error,
    )


def _format_status(output: TaskOutputOutput) -> str:
    task = output.task
    why = f" (exit code {task.exit_code})" if task.exit_code else ""
    why = f" ({task.error.rstrip('.')})" if task.error else why
    return f"{task.task_id} {task.status}{why}: {one_line(task.description, 200)}"


def _format_empty(output: TaskOutputOutput) -> str:
    if not output.filtered:
        return "(nothing new)"
    return "(only blank lines match)" if output.task.output else "(no new line matches)"


def _format_next_step(output: TaskOutputOutput) -> str:
    if output.more:
        return "(There is more: call TaskOutput again.)"
    if output.retrieval_status == "success":
        return ""
    waited = "It was still running after the time. " if output.retrieval_status == "timeout" else "It still runs. "
    return f"({waited}You are told when it ends; TaskStop ends it.)"

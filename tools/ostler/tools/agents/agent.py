"""Agent: hands a piece of work to a session of its own, and waits for its last words."""

from typing import Final, Literal

from pydantic import BaseModel, Field

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Usage
from ostler.tools import commands
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import (
    AgentKind,
    AgentLaunched,
    AgentOutcome,
    AgentProgress,
    AgentRefused,
    AgentRequest,
    AgentStatus,
)
from ostler.tools.spelling import find_close
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Allow,
    AskFirst,
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

DEFAULT_KIND: Final = "general-purpose"
_PROGRESS_AFTER_MS: Final = 2_000


class AgentInput(ToolInput):
    """What is to be done, and by whom."""

    description: str = Field(min_length=1, max_length=200, description="What it does, in 3 to 5 words, for people.")
    prompt: str = Field(min_length=1, description="The work, with all that the agent needs to know.")
    subagent_type: str = Field(DEFAULT_KIND, max_length=200, description="The kind of agent.")
    model: str | None = Field(
        None, min_length=1, max_length=200, description="`sonnet`, `opus`, `haiku` or a full id; by default the kind's."
    )
    run_in_background: bool = Field(False, description="Do not wait: you are told when it has ended.")
    name: str | None = Field(None, min_length=1, max_length=64, description="A name for it, which people are shown.")
    mode: Mode | None = Field(None, description="A narrower permission mode.")
    isolation: Literal["worktree"] | None = Field(
        None, description="`worktree`: a git worktree of its own, its only folder; kept where it changes something."
    )
    cwd: str | None = Field(None, description="A folder inside yours, as an absolute path: its only one.")
    resume: str | None = Field(
        None, max_length=100, description="The id of an agent of yours that has ended: it goes on with this prompt."
    )
    max_turns: int | None = Field(None, ge=1, description="Requests to the model at most.")
    allowed_tools: list[str] | None = Field(None, description="Only these of its tools.")


class WorktreeOutput(BaseModel):
    """What became of its worktree."""

    path: str
    branch: str | None
    kept: bool
    why: str
    """The same for people."""


class AgentOutput(ToolOutput):
    """How it ended."""

    status: AgentStatus
    agent_id: SessionId
    """Its session."""
    result: str
    """Its last words; of one that did not complete, what it has so far."""
    error: str | None = None
    """Why it did not complete."""
    usage: Usage
    tool_calls: int
    duration_ms: int
    worktree: WorktreeOutput | None = None
    """Of one that had a worktree of its own."""


class AgentStarted(ToolOutput):
    """It goes on in the background."""

    status: Literal["async_launched"] = "async_launched"
    agent_id: SessionId
    task_id: TaskId
    """Its task, for TaskOutput and TaskStop."""
    description: str
    prompt: str


class Agent(Tool[AgentInput, AgentOutput | AgentStarted]):
    """Runs an agent."""

    name = "Agent"
    aliases = ("Task",)
    Input = AgentInput
    Output = ToolOutput
    output_kinds = (AgentOutput, AgentStarted)
    title = "Hands work to an agent of its own"
    given_to_agents = "if_named"
    search_hint = "delegate subagent parallel research spawn worker"
    max_result_chars = 100_000
    permissions = PermissionTraits(text="subagent_type", paths=lambda given: ())

    def description(self, session: SessionView) -> str:
        kinds = "\n".join(map(_describe_kind, session.agent_kinds))
        return super().description(session).replace("{kinds}", kinds)

    def is_enabled(self, session: SessionView) -> bool:
        return bool(session.agent_kinds)

    def is_concurrency_safe(self, given: AgentInput) -> bool:
        return True  # each agent asks for its own permissions

    def summary(self, given: AgentInput) -> str:
        name = f" {given.name}" if given.name else ""
        return f"Agent {given.subagent_type}{name}: {one_line(given.description, 150)}"

    async def check_permission(self, given: AgentInput, context: ToolContext) -> Check:
        if given.isolation is not None:
            problem = await read_in_thread(commands.find_git_config_problem, context.session.shell_folder)
            if problem is not None:
                words = f"git may run what the repository names while it checks out: {problem}."
                return AskFirst("Make a git worktree, and let an agent work there?", words, True)
        return Allow(own_state=True)

    async def validate(self, given: AgentInput, context: ToolContext) -> Failure | None:
        if not given.prompt.strip():
            return Failure("prompt says nothing: the agent would not know what to do.")
        if given.resume is not None and (more := _list_unfit_parameters(given)):
            return Failure(f"resume does not go with {', '.join(more)}: the agent stays what it is.")
        if given.isolation is not None and given.cwd is not None:
            return Failure("cwd does not go with isolation: a worktree is a folder of its own.")
        if given.isolation is not None and context.session.mode == "plan":
            return Failure("In plan mode nothing is changed: leave isolation out.")
        names = [kind.name for kind in context.session.agent_kinds]
        if given.subagent_type in names:
            return None
        close = find_close(given.subagent_type, names, 2)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"The kinds are: {', '.join(names)}."
        return Failure(f"There is no kind of agent {given.subagent_type!r}. {hint}")

    async def run(self, given: AgentInput, context: ToolContext) -> ToolResult[AgentOutput | AgentStarted] | Failure:
        def report(progress: AgentProgress) -> None:
            said = f": {progress.text}" if progress.text else ""
            if progress.agent_id is not None:
                context.partial_output.text = f"agent {progress.agent_id}{said}"
            if progress.elapsed_ms >= _PROGRESS_AFTER_MS or progress.status == "stalled":
                data = {
                    "agent_id": progress.agent_id,
                    "status": progress.status,
                    "tool_calls": progress.tool_calls,
                    "call": progress.call,
                }
                context.progress("agent", data)

        request = AgentRequest(
            description=given.description,
            prompt=given.prompt,
            kind=given.subagent_type,
            name=given.name,
            model=given.model,
            mode=given.mode,
            folder=given.cwd,
            max_requests=given.max_turns,
            tools=tuple(given.allowed_tools) if given.allowed_tools is not None else None,
            background=given.run_in_background,
            resume=given.resume,
            isolated=given.isolation is not None,
        )
        try:
            outcome = await context.services.agents.run(request, report)
        except AgentRefused as refused:
            return Failure(str(refused))
        if isinstance(outcome, AgentLaunched):
            return ToolResult(
                AgentStarted(
                    agent_id=outcome.agent_id,
                    task_id=outcome.task_id,
                    description=given.description,
                    prompt=given.prompt,
                )
            )
        return ToolResult(build_output(outcome), is_error=outcome.status != "completed")

    def render(self, output: AgentOutput | AgentStarted) -> list[Block]:
        if isinstance(output, AgentStarted):
            look = f"You are told when it ends; TaskOutput with {output.task_id} shows its report then."
            return [text_block(f"Running in background as {output.task_id} (agent {output.agent_id}). {look}")]
        worktree = f"\n{output.worktree.why}" if output.worktree is not None else ""
        if output.status == "completed":
            return [text_block(f"{output.result}\n\n(agent {output.agent_id}){worktree}")]
        so_far = f"\nWhat it has so far:\n{output.result}" if output.result.strip() else ""
        return [text_block(f"The agent {output.agent_id} did not complete: {output.error}{so_far}{worktree}")]


def build_output(outcome: AgentOutcome) -> AgentOutput:
    found = outcome.worktree
    return AgentOutput(
        status=outcome.status,
        agent_id=outcome.agent_id,
        result=outcome.result,
        error=outcome.error,
        usage=outcome.usage,
        tool_calls=outcome.tool_calls,
        duration_ms=outcome.duration_ms,
        worktree=WorktreeOutput(path=found.path, branch=found.branch, kept=found.kept, why=found.why)
        if found is not None
        else None,
    )


def _list_unfit_parameters(given: AgentInput) -> list[str]:
    """What only a new agent can be given."""
    changes = given.model_fields_set - {
        "description", "prompt", "resume", "max_turns", "subagent_type", "run_in_background",
    }  # fmt: skip
    return sorted(name for name in changes if getattr(given, name))


def _describe_kind(kind: AgentKind) -> str:
    tools = ", ".join(kind.tools) if kind.tools is not None else "all of yours"
    return f"- {kind.name}: {one_line(kind.description, 1_000)} (Tools: {tools})"

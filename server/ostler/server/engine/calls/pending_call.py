"""The state of one call while the executor runs it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from ostler.protocol.shapes import Ask, Call
from ostler.server.engine.calls.concurrency import Slot
from ostler.server.engine.calls.spans import Spans
from ostler.server.hooks import Outcome
from ostler.server.models.assembler import ToolUse
from ostler.server.observability import logs
from ostler.tools.context import BackgroundRequest, PartialOutput
from ostler.tools.tool import AnyTool, Block, Change, ToolInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.server.engine.journal.calls import Draft
    from ostler.server.engine.journal.journal import Journal


@dataclass(slots=True)
class PendingCall:
    """One call, from the model's tool use to its result."""

    use: ToolUse
    call: Call
    slot: Slot
    tool: AnyTool | None = None
    """None where no tool has the name."""
    parsed_input: ToolInput | None = None
    """None where the input is not valid."""
    previous: "PendingCall | None" = None
    """The call before it in the message."""
    only_reads: bool = True
    """It changes nothing, with its present input."""
    problem: str | None = None
    """Why it cannot run, for the model."""
    queued: bool = False
    """It is in the log already, as queued or later."""
    announcement: asyncio.TimerHandle | None = None
    """Tells of it as queued, where something holds it up."""
    started: bool = False
    """It has begun to run, now or before a restart."""
    spans: Spans = field(default_factory=Spans)
    began: float = 0.0
    """When it began to run, on the monotonic clock."""
    changed_by_person: bool = False
    """Its input is not the model's: the person who allowed it has changed it."""
    background: BackgroundRequest = field(default_factory=BackgroundRequest)
    """Set when a person wants it to go on in the background."""
    ask: Ask | None = None
    """An ask that was put before a restart, open or answered."""
    handle: anyio.TaskHandle[None] | None = None
    """The anyio task that runs it, by which it is cancelled."""
    cancel_reason: str | None = None
    """Why it was cancelled, for the model."""
    partial_output: PartialOutput = field(default_factory=PartialOutput)
    changes: list[Change] = field(default_factory=list)
    """Changes of the session that are applied in the order of the calls."""
    messages: Sequence[Sequence[Block]] = ()
    """Further user messages that it gave, for the history after the results."""
    changed_files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes for the model about it, besides its result."""
    hook_stop: str | None = None
    """Why a hook wants the turn to end after it."""

    @property
    def completed(self) -> bool:
        return self.call.status == "completed"

    @property
    def allowed_as_read_only(self) -> bool:
        """A command that was allowed because it only reads; one that a person allowed may do more."""
        return self.call.decision is not None and self.call.decision.by == "read_only"

    @property
    def blocks_interrupt(self) -> bool:
        """An interrupt waits until it is done: it runs, and to stop it halfway would be worse."""
        return self.call.status == "running" and self.call.interrupt == "block"

    def set_input(self, tool: AnyTool, parsed_input: ToolInput, as_json: dict[str, Any]) -> None:
        """Set an input that has passed the schema."""
        self.parsed_input = parsed_input
        # Of a command the decision says whether it only reads: to parse it here would hold up the event loop.
        self.only_reads = self.allowed_as_read_only if tool.shell.runs_commands else tool.is_read_only(parsed_input)
        self.call = self.call.changed(
            input=as_json, summary=tool.summary(parsed_input), activity=tool.activity(parsed_input)
        )

    def is_safe(self) -> bool:
        """Whether it may run concurrently with other safe calls."""
        if self.tool is None:
            return True  # it ends at once with the error that no tool has the name, and holds back nobody
        if self.parsed_input is None:
            return False
        try:
            return self.tool.is_concurrency_safe(self.parsed_input)
        except Exception as error:  # noqa: BLE001 - an error of a plug-in makes its call unsafe, and nothing worse
            logs.log.warning("safety_check_failed", tool=self.tool.name, exc_info=error)
            return False

    def add_hook_outcome(self, outcome: Outcome) -> Outcome:
        """Add the notes of hooks, and their wish to stop the turn; returns the outcome."""
        self.notes += outcome.context
        self.hook_stop = self.hook_stop or outcome.stop
        return outcome


def announce_calls(last: PendingCall | None, journal: "Journal", draft: "Callable[[], Draft]") -> None:
    """Tell of a call as queued, where the log does not know it yet, and of those before it, in their order."""
    unknown: list[PendingCall] = []
    while last is not None and not last.queued:
        unknown.append(last)
        last = last.previous
    for pending in reversed(unknown):
        pending.queued = True
        journal.queue_call(pending.call, draft(), pending.use.input_error)

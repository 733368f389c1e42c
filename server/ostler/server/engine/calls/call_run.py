"""One call of a message while it is on its way, as its executor keeps it."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from ostler.protocol.shapes import Ask, Call
from ostler.server.engine.calls.concurrency import Slot
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.stages import Ended, Running, Stage
from ostler.server.hooks import Outcome
from ostler.server.models.assembler import ToolUse
from ostler.tools.context import BackgroundRequest, PartialOutput
from ostler.tools.tool import AnyTool

S = TypeVar("S", bound=Stage)


@dataclass(slots=True)
class CallNotes:
    """What hooks and people have to say about a call besides its result; it is kept where the call is cancelled."""

    texts: list[str] = field(default_factory=list)
    """For the model."""
    stop: str | None = None
    """Why a hook wants the turn to end after the call."""

    def add(self, outcome: Outcome) -> Outcome:
        """Add the notes of hooks, and their wish to stop the turn; returns the outcome."""
        self.texts += outcome.context
        self.stop = self.stop or outcome.stop
        return outcome


@dataclass(slots=True)
class CallRun:
    """One call, from the model's tool use to its result.

    The steps of the pipeline replace its stage; the rest of it is the executor's, or only ever added to.
    """

    use: ToolUse
    slot: Slot
    stage: Stage
    ask: Ask | None = None
    """An ask that was put before a restart, open or answered."""
    spans: Spans = field(default_factory=Spans)
    notes: CallNotes = field(default_factory=CallNotes)
    partial_output: PartialOutput = field(default_factory=PartialOutput)
    background: BackgroundRequest = field(default_factory=BackgroundRequest)
    """Set when a person wants it to go on in the background."""
    goes_on: bool = False
    """It ran when the daemon was killed, and goes on, as what it had started does: an agent."""
    post_hooks_ran: bool = False
    """The hooks of its end have run already: they may replace the output of a server's tool."""
    stop_words: str | None = None
    """Why it was stopped, for the model."""
    handle: anyio.TaskHandle[None] | None = None
    """The anyio task that runs it, by which it is cancelled."""
    announcement: asyncio.TimerHandle | None = None
    """Tells of it as queued, where something holds it up."""

    def reach(self, stage: S) -> S:
        """Keep the value that a step has made: it counts where the call is cancelled, or fails, later."""
        self.stage = stage
        return stage

    def measure_ms(self) -> int:
        """For how long the tool has worked."""
        return int((time.perf_counter() - self.stage.began) * 1000) if isinstance(self.stage, Running) else 0

    @property
    def call(self) -> Call:
        return self.stage.call

    @property
    def tool(self) -> AnyTool | None:
        return self.stage.tool

    @property
    def completed(self) -> bool:
        return isinstance(self.stage, Ended)

    @property
    def has_effect(self) -> bool:
        """It has begun to run, and may have changed something."""
        match self.stage:
            case Running(has_effect=has_effect) | Ended(had_effect=has_effect):
                return has_effect
            case _:
                return False

    @property
    def blocks_interrupt(self) -> bool:
        """An interrupt waits until it is done: it runs, and to stop it halfway would be worse."""
        return self.call.status == "running" and self.call.interrupt == "block"

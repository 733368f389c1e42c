"""One call on its way through the executor."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from ostler.protocol.shapes import Ask, Call
from ostler.server.engine.calls.schedule import Slot
from ostler.server.engine.calls.spans import Spans
from ostler.server.hooks import Outcome
from ostler.server.models.assembler import ToolUse
from ostler.server.observability import logs
from ostler.tools.context import Background, LastWords
from ostler.tools.tool import AnyTool, Change, ToolInput


@dataclass(slots=True)
class Entry:
    use: ToolUse
    call: Call
    slot: Slot
    tool: AnyTool | None = None
    """None where no tool has the name."""
    given: ToolInput | None = None
    """None where the input is not valid."""
    only_reads: bool = True
    """It changes nothing, with the input that it has."""
    problem: str | None = None
    """Why it cannot run, for the model."""
    queued: bool = False
    """The log says that it was queued."""
    started: bool = False
    """It has begun to run, now or before a restart."""
    spans: Spans = field(default_factory=Spans)
    began: float = 0.0
    """When it began to run, on the monotonic clock."""
    changed_by_person: bool = False
    """Its input is not what the model gave: whoever allowed it changed it."""
    background: Background = field(default_factory=Background)
    """Whether a person wants it to go on behind the turn."""
    ask: Ask | None = None
    """An ask that was put before a restart, open or answered."""
    running: anyio.TaskHandle[None] | None = None
    """By which it is stopped, once it is on its way."""
    stopped: str | None = None
    """Why it was cancelled, for the model."""
    last_words: LastWords = field(default_factory=LastWords)
    changes: list[Change] = field(default_factory=list)
    """What is to be applied when its turn comes."""
    notes: list[str] = field(default_factory=list)
    """What the model is told about it beside its result."""
    stop: str | None = None
    """Why a hook wants the turn to end after it."""

    @property
    def completed(self) -> bool:
        return self.call.status == "completed"

    @property
    def kept_to_reading(self) -> bool:
        """A command that passed since it only reads: one that a person allowed may do more, whatever it looks like."""
        return self.call.decision is not None and self.call.decision.by == "read_only"

    @property
    def finishes_first(self) -> bool:
        """An interrupt waits for it: it runs, and half of it would be worse than all of it."""
        return self.call.status == "running" and self.call.interrupt == "block"

    def take(self, tool: AnyTool, given: ToolInput, as_json: dict[str, Any]) -> None:
        """An input that has passed the schema."""
        self.given = given
        # What a command does, the decision about it tells: here it would be read on the event loop.
        self.only_reads = self.kept_to_reading if tool.runs_commands else tool.is_read_only(given)
        self.call = self.call.changed(input=as_json, summary=tool.summary(given), activity=tool.activity(given))

    def is_safe(self) -> bool:
        """Whether it may run beside other safe calls."""
        if self.tool is None or self.given is None:
            return False
        try:
            return self.tool.is_concurrency_safe(self.given)
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake makes its call unsafe, and nothing worse
            logs.log.warning("safety_check_failed", tool=self.tool.name, exc_info=error)
            return False

    def heed(self, outcome: Outcome) -> Outcome:
        """What hooks add to a call, whatever they decide."""
        self.notes += outcome.context
        self.stop = self.stop or outcome.stop
        return outcome

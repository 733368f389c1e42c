"""One call on its way through the executor."""

from dataclasses import dataclass, field

import anyio

from ostler.protocol.shapes import Ask, Call
from ostler.server.engine.assembly import ToolUse
from ostler.server.engine.schedule import Slot
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
    ask: Ask | None = None
    """An ask that was put before a restart, open or answered."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stopped: str | None = None
    """Why it was cancelled, for the model."""
    printed: str = ""
    """The end of what it has printed so far, for a call that is stopped."""
    changes: list[Change] = field(default_factory=list)
    """What is to be applied when its turn comes."""

    @property
    def completed(self) -> bool:
        return self.call.status == "completed"

    @property
    def finishes_first(self) -> bool:
        """An interrupt waits for it: it runs, and half of it would be worse than all of it."""
        return self.call.status == "running" and self.call.interrupt == "block"

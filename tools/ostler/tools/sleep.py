"""Sleep: waits without a process, until something happens or the time is over."""

import time
from typing import Final, Literal

import anyio
from pydantic import Field

from ostler.tools.context import ToolContext, Waker
from ostler.tools.tool import Allow, Block, Check, Failure, Ran, Tool, ToolInput, ToolOutput, text_block

_MAX_SECONDS: Final = 3600
_WORDS: Final[dict[str, str]] = {
    "message": "Woken after {} s: the person has said something.",
    "task": "Woken after {} s: a background task has ended.",
    "monitor": "Woken after {} s: a monitor has seen a line.",
    "time": "Slept for {} s: nothing has happened.",
}


class SleepInput(ToolInput):
    """How long."""

    seconds: float = Field(gt=0, le=_MAX_SECONDS, description="How long to wait at most.")
    reason: str | None = Field(None, description="What you are waiting for, in a few words.")


class SleepOutput(ToolOutput):
    """How long it was, and why it ended."""

    slept_seconds: float
    woken_by: Waker | Literal["time"]


class Sleep(Tool[SleepInput, SleepOutput]):
    """Waits."""

    name = "Sleep"
    Input = SleepInput
    Output = SleepOutput
    title = "Waits until something happens"
    search_hint = "wait pause delay idle timer until later"
    only_reads = True

    def is_concurrency_safe(self, given: SleepInput) -> bool:
        return True

    def summary(self, given: SleepInput) -> str:
        why = f": {' '.join(given.reason.split())[:150]}" if given.reason else ""
        return f"Sleep up to {given.seconds:g} s{why}"

    async def check_permission(self, given: SleepInput, context: ToolContext) -> Check:
        return Allow()

    async def run(self, given: SleepInput, context: ToolContext) -> Ran[SleepOutput] | Failure:
        began = time.monotonic()
        woken_by: Waker | Literal["time"] = "time"
        with anyio.move_on_after(given.seconds):
            woken_by = await context.stir.wait()
        return Ran(SleepOutput(slept_seconds=round(time.monotonic() - began, 1), woken_by=woken_by))

    def render(self, output: SleepOutput) -> list[Block]:
        return [text_block(_WORDS[output.woken_by].format(f"{output.slept_seconds:g}"))]

"""Sleep: waits without a process, until something happens or the time is over."""

import time
from datetime import datetime
from typing import Final, Literal

import anyio
from pydantic import Field

from ostler.tools.context import SessionView, ToolContext, Waker
from ostler.tools.text import one_line
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block

_MAX_SECONDS: Final = 3600
_WORDS: Final[dict[str, str]] = {
    "message": "Woken after {} s: the person has said something.",
    "task": "Woken after {} s: a background task has ended.",
    "monitor": "Woken after {} s: a monitor has seen a line.",
    "tick": "<tick>{now}</tick>\nWoken after {} s by the clock: nothing has happened. Is there something to do now?",
    "time": "Slept for {} s: nothing has happened.",
}


class SleepInput(ToolInput):
    """How long."""

    seconds: float = Field(gt=0, le=_MAX_SECONDS, description="How long to wait at most.")
    reason: str | None = Field(None, description="What you are waiting for, in a few words.")


class SleepOutput(ToolOutput):
    """How long it was, and why it ended."""

    slept_seconds: float
    woken_by: Waker | Literal["time", "tick"]
    woken_at: str = ""
    """The time of day then, as the person's clock shows it."""


class Sleep(Tool[SleepInput, SleepOutput]):
    """Waits."""

    name = "Sleep"
    Input = SleepInput
    Output = SleepOutput
    title = "Waits until something happens"
    search_hint = "wait pause delay idle timer until later"
    only_reads = True

    def description(self, session: SessionView) -> str:
        words = super().description(session)
        if session.assistant is not None:
            return words.replace("{tick}", f"{session.assistant.tick_seconds:g}")
        # Where there are no ticks, they are not explained.
        return "\n".join(line for line in words.split("\n") if "{tick}" not in line)

    def is_concurrency_safe(self, given: SleepInput) -> bool:
        return True

    def summary(self, given: SleepInput) -> str:
        why = f": {one_line(given.reason, 150)}" if given.reason else ""
        return f"Sleep up to {given.seconds:g} s{why}"

    async def check_permission(self, given: SleepInput, context: ToolContext) -> Check:
        return Allow()

    async def run(self, given: SleepInput, context: ToolContext) -> ToolResult[SleepOutput] | Failure:
        began = time.monotonic()
        assistant = context.session.assistant
        seconds = min(given.seconds, assistant.tick_seconds) if assistant else given.seconds
        woken_by: Waker | Literal["time", "tick"] = "time" if seconds == given.seconds else "tick"
        with anyio.move_on_after(seconds):
            woken_by = await context.wake_signal.wait()
        now = datetime.now().astimezone().strftime("%a %Y-%m-%d %H:%M")
        return ToolResult(
            SleepOutput(slept_seconds=round(time.monotonic() - began, 1), woken_by=woken_by, woken_at=now)
        )

    def render(self, output: SleepOutput) -> list[Block]:
        return [text_block(_WORDS[output.woken_by].format(f"{output.slept_seconds:g}", now=output.woken_at))]

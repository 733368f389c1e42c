"""The spans of a call: how long each of its steps took, and each wait between them."""

import time
from typing import Literal

Step = Literal["look_up", "schema", "validate", "hooks_before", "permission", "run", "render", "persist", "hooks_after"]
Wait = Literal["order", "ask"]
"""`order`: for other calls of the message. `ask`: for an answer."""


class Spans:
    """One span follows the other without a gap; the times of a step that is repeated are added up."""

    __slots__ = ("_now", "_since", "taken")

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        """Seconds, by step or wait."""
        self._now: Step | Wait | None = None
        self._since = 0.0

    def begin(self, span: Step | Wait) -> None:
        """Begin a span, and end the one before it."""
        clock = time.perf_counter()
        self._close(clock)
        self._now, self._since = span, clock

    def end(self) -> None:
        self._close(time.perf_counter())
        self._now = None

    def _close(self, clock: float) -> None:
        if self._now is not None:
            self.taken[self._now] = self.taken.get(self._now, 0.0) + clock - self._since

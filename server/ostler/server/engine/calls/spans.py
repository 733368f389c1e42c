"""How long each step of a call took, and what it waited for in between."""

import time
from typing import Literal

Step = Literal["look_up", "schema", "validate", "hooks_before", "permission", "run", "render", "persist", "hooks_after"]
Wait = Literal["order", "ask"]
"""`order`: for the calls before it, or beside it. `ask`: for whoever answers."""


class Spans:
    """One follows the other without a gap; a step that comes again is added to itself."""

    __slots__ = ("_now", "_since", "taken")

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        """Seconds, by step and by what it waited for."""
        self._now: Step | Wait | None = None
        self._since = 0.0

    def begin(self, span: Step | Wait) -> None:
        """Here the one before it ends."""
        clock = time.perf_counter()
        self._close(clock)
        self._now, self._since = span, clock

    def end(self) -> None:
        self._close(time.perf_counter())
        self._now = None

    def _close(self, clock: float) -> None:
        if self._now is not None:
            self.taken[self._now] = self.taken.get(self._now, 0.0) + clock - self._since

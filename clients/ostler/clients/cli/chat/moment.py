"""Whether somebody can have read what has just come up."""

import math
import time
from collections.abc import Callable
from typing import Final

MOMENT_SECONDS: Final = 0.7
"""Longer than between two keys of whoever types, shorter than reading takes."""

Clock = Callable[[], float]


class Moment:
    """What has come up is answered by a key only after it has stood there for a while, and the fingers have rested."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._came_up = -math.inf

    def begin(self) -> None:
        self._came_up = self._clock()

    def left(self, pressed: float) -> float:
        """The seconds until keys count, if none is pressed meanwhile; `pressed` is when one was last."""
        return max(0.0, max(self._came_up, pressed) + MOMENT_SECONDS - self._clock())

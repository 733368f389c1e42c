"""How long the event loop is held up, in a measure that a busy machine does not change."""

import asyncio
import time

import orjson


class StallMonitor:
    """Measures how long the event loop's own thread computes without a break.

    What the machine takes away from the thread is not ours, and how fast it computes meanwhile is not either: a step is
    measured in processor time, and against a fixed piece of work that the same thread does before and after it.
    """

    LIMIT = 10.0
    """Ten such pieces take a tenth of a second on a machine with nothing else to do."""
    _WORK = "a\n" * 1_350_000
    _SECONDS_BETWEEN = 0.5

    def __init__(self) -> None:
        self.longest = 0.0
        """The longest step so far, in pieces of work."""

    async def watch(self) -> None:
        floor, measured_at = self._time_work(), time.monotonic()
        while True:
            cpu, began = time.thread_time(), time.perf_counter()
            await asyncio.sleep(0.005)
            late = time.perf_counter() - began - 0.005
            busy = min(late, time.thread_time() - cpu)
            before = floor
            if busy > floor or time.monotonic() - measured_at > self._SECONDS_BETWEEN:
                floor, measured_at = self._time_work(), time.monotonic()
            self.longest = max(self.longest, busy / max(before, floor))

    def _time_work(self) -> float:
        cpu = time.thread_time()
        orjson.dumps(self._WORK)
        return time.thread_time() - cpu

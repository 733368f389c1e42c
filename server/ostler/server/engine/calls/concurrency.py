"""The concurrency of the calls of a message: which are ready to start now. It knows nothing of tools or tasks."""

from dataclasses import dataclass
from enum import Enum


class CallState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Slot:
    """A call's place in the order of its message."""

    index: int
    safe: bool
    """It may run concurrently with other safe calls."""
    state: CallState = CallState.WAITING
    waits_alone: bool = False
    """It turned unsafe after it had begun, and waits until it runs alone."""


class CallConcurrency:
    """The calls of one message in the order of its blocks: safe ones run concurrently up to a limit, others alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots: list[Slot] = []
        self._unfinished = 0
        """All before this index are done: a message of many calls is not searched from its beginning each time."""
        self._waiting = 0
        """None before this index waits."""
        self._started: list[Slot] = []

    @property
    def running(self) -> list[Slot]:
        self._started = [slot for slot in self._started if slot.state is CallState.RUNNING]
        return self._started

    def add(self, safe: bool) -> Slot:
        slot = Slot(len(self._slots), safe)
        self._slots.append(slot)
        return slot

    def take_ready(self) -> list[Slot]:
        """The ready calls, marked as running. An unsafe one that has to wait holds back all after it."""
        taken: list[Slot] = []
        running = self.running
        while (slot := self._find_waiting()) is not None:
            if running and not (slot.safe and all(other.safe for other in running)):
                break
            if len(running) >= self._limit:
                break
            slot.state = CallState.RUNNING
            running.append(slot)
            taken.append(slot)
        return taken

    def _find_waiting(self) -> Slot | None:
        """The first call that waits."""
        while self._waiting < len(self._slots):
            slot = self._slots[self._waiting]
            if slot.state is CallState.WAITING:
                return slot
            self._waiting += 1
        return None

    def may_go_on(self, slot: Slot) -> bool:
        """Whether a call that turned unsafe runs alone now: of two such calls the earlier goes first."""
        others = (other for other in self.running if other is not slot)
        return all(other.waits_alone and other.index > slot.index for other in others)

    @property
    def done(self) -> bool:
        while self._unfinished < len(self._slots) and self._slots[self._unfinished].state is CallState.DONE:
            self._unfinished += 1
        return self._unfinished == len(self._slots)

"""Which calls of a message may start now. It knows nothing of tools or tasks."""

from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Slot:
    """A call's place in the order of its message."""

    place: int
    safe: bool
    """It may run beside other safe calls."""
    stage: Stage = Stage.WAITING
    alone: bool = False
    """It turned unsafe after it had begun, and waits for the others to end."""


class Schedule:
    """Calls in the order of the model's blocks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots: list[Slot] = []
        self._unfinished = 0
        """All before this place are done: a message of many calls is not walked through for each of them."""
        self._waiting = 0
        """None before this place waits."""
        self._started: list[Slot] = []

    @property
    def running(self) -> list[Slot]:
        self._started = [slot for slot in self._started if slot.stage is Stage.RUNNING]
        return self._started

    def add(self, safe: bool) -> Slot:
        slot = Slot(len(self._slots), safe)
        self._slots.append(slot)
        return slot

    def take(self) -> list[Slot]:
        """The calls that start now, marked as running. An unsafe one that must wait holds back all behind it."""
        taken: list[Slot] = []
        running = self.running
        while (slot := self._next()) is not None:
            if running and not (slot.safe and all(other.safe for other in running)):
                break
            if len(running) >= self._limit:
                break
            slot.stage = Stage.RUNNING
            running.append(slot)
            taken.append(slot)
        return taken

    def _next(self) -> Slot | None:
        """The first that waits."""
        while self._waiting < len(self._slots):
            slot = self._slots[self._waiting]
            if slot.stage is Stage.WAITING:
                return slot
            self._waiting += 1
        return None

    def may_go_on(self, slot: Slot) -> bool:
        """Whether a call that turned unsafe has the field to itself: of two such calls the earlier goes first."""
        others = (other for other in self.running if other is not slot)
        return all(other.alone and other.place > slot.place for other in others)

    @property
    def done(self) -> bool:
        while self._unfinished < len(self._slots) and self._slots[self._unfinished].stage is Stage.DONE:
            self._unfinished += 1
        return self._unfinished == len(self._slots)

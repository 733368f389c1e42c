"""Which calls of a message may start now. It knows nothing of tools or tasks."""

from collections.abc import Iterator
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

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def add(self, safe: bool) -> Slot:
        slot = Slot(len(self._slots), safe)
        self._slots.append(slot)
        return slot

    def take(self) -> list[Slot]:
        """The calls that start now, marked as running. An unsafe one that must wait holds back all behind it."""
        taken: list[Slot] = []
        running = [slot for slot in self._slots if slot.stage is Stage.RUNNING]
        for slot in self._slots:
            if slot.stage is not Stage.WAITING:
                continue
            if running and not (slot.safe and all(other.safe for other in running)):
                break
            if len(running) >= self._limit:
                break
            slot.stage = Stage.RUNNING
            running.append(slot)
            taken.append(slot)
        return taken

    def may_go_on(self, slot: Slot) -> bool:
        """Whether a call that turned unsafe has the field to itself: of two such calls the earlier goes first."""
        others = (other for other in self._slots if other is not slot and other.stage is Stage.RUNNING)
        return all(other.alone and other.place > slot.place for other in others)

    @property
    def done(self) -> bool:
        return all(slot.stage is Stage.DONE for slot in self._slots)

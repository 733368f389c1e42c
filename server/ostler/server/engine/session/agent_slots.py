"""The places for agents that work in one tree of sessions, and for turns of a daemon: so many at once, others in order.

Who waits for an ask or for an agent of its own holds no place: those that wait never lock each other up.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class TreeSlots:
    """The places of one tree, or of one daemon."""

    get_limit: Callable[[], int]
    taken: int = 0
    waiting: deque[anyio.Event] = field(default_factory=deque)

    @property
    def unused(self) -> bool:
        return not self.taken and not self.waiting

    def take_at_once(self) -> bool:
        """Take a place, where one is free and nobody waits for it."""
        if self.taken >= self.get_limit() or self.waiting:
            return False
        self.taken += 1
        return True

    async def take(self, *, first: bool = False) -> None:
        """Wait for a place; `first` is for one who had a place already, and goes on."""
        if self.take_at_once():
            return
        turn = anyio.Event()
        (self.waiting.appendleft if first else self.waiting.append)(turn)
        try:
            await turn.wait()
        except anyio.get_cancelled_exc_class():
            if turn.is_set():
                self.give_back()
            else:
                self.waiting.remove(turn)
            raise

    def give_back(self) -> None:
        self.taken -= 1
        while self.waiting and self.taken < self.get_limit():
            self.taken += 1
            self.waiting.popleft().set()


@dataclass(slots=True)
class AgentSlot:
    """The place of one agent, or of one turn, from its start to its end."""

    tree: TreeSlots
    held: bool = False
    _waits: int = 0
    """What it waits for: several of its calls may wait at the same time."""

    async def take(self) -> None:
        await self.tree.take()
        self.held = True

    def take_at_once(self) -> bool:
        self.held = self.tree.take_at_once()
        return self.held

    def hold(self) -> None:
        """Take a place without waiting: of one that works already, as after a restart."""
        self.tree.taken += 1
        self.held = True

    def end(self) -> None:
        if self.held:
            self.held = False
            self.tree.give_back()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[None]:
        """Gives the place to others while the body waits."""
        self._waits += 1
        self.end()
        try:
            yield
        finally:
            self._waits -= 1
        if not self._waits and not self.held:
            await self.tree.take(first=True)
            self.held = True

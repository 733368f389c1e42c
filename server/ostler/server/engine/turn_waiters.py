"""Waiters for the end of a turn: woken by events of the log, so never before clients are sent the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ostler.protocol.ids import TurnId
from ostler.storage.repositories.events import LoggedEvent


class TurnWaiter:
    """Waits for the next event about a turn."""

    def __init__(self) -> None:
        self.next_event = anyio.Event()
        """Take it before you read the turn, so that no event in between is missed."""

    def wake(self) -> None:
        self.next_event.set()
        self.next_event = anyio.Event()


class TurnWaiters:
    """All waiters, by turn."""

    def __init__(self) -> None:
        self._by_turn: dict[TurnId, set[TurnWaiter]] = {}

    def on_event(self, event: LoggedEvent) -> None:
        if event.turn_id is not None and event.type in {"turn.updated", "turn.ended"}:
            for waiter in self._by_turn.get(event.turn_id, ()):
                waiter.wake()

    @contextmanager
    def register(self, turn_id: TurnId) -> Iterator[TurnWaiter]:
        waiter = TurnWaiter()
        self._by_turn.setdefault(turn_id, set()).add(waiter)
        try:
            yield waiter
        finally:
            self._by_turn[turn_id].discard(waiter)
            if not self._by_turn[turn_id]:
                del self._by_turn[turn_id]

"""Waiters for the end of a turn: woken by events of the log, so never before clients are sent the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ostler.protocol.ids import SessionId, TurnId
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
    """All waiters, by turn, and by the tree of sessions in which an agent may ask."""

    def __init__(self) -> None:
        self._waiters: dict[TurnId | SessionId, set[TurnWaiter]] = {}

    def on_event(self, event: LoggedEvent) -> None:
        if event.turn_id is not None and event.type in {"turn.updated", "turn.ended"}:
            self._wake(event.turn_id)
        elif event.root_id is not None and event.type == "ask.opened":
            self._wake(event.root_id)

    def _wake(self, key: TurnId | SessionId) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.wake()

    @contextmanager
    def register(self, turn_id: TurnId, root_id: SessionId) -> Iterator[TurnWaiter]:
        """A waiter for what happens to a turn, and for asks in its tree."""
        waiter = TurnWaiter()
        for key in (turn_id, root_id):
            self._waiters.setdefault(key, set()).add(waiter)
        try:
            yield waiter
        finally:
            for key in (turn_id, root_id):
                self._waiters[key].discard(waiter)
                if not self._waiters[key]:
                    del self._waiters[key]

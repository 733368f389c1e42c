"""Waiting for turns: woken by what the log says about them, so never ahead of what clients are told."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ostler.protocol.ids import TurnId
from ostler.storage.repositories.events import LoggedEvent


class Seen:
    """Wakes whoever waits for the next event about a turn."""

    def __init__(self) -> None:
        self.next = anyio.Event()
        """Taken before the turn is looked at, so that nothing in between is missed."""

    def wake(self) -> None:
        self.next.set()
        self.next = anyio.Event()


class TurnWatch:
    def __init__(self) -> None:
        self._watched: dict[TurnId, set[Seen]] = {}

    def see(self, event: LoggedEvent) -> None:
        if event.turn_id is not None and event.type in {"turn.updated", "turn.ended"}:
            for seen in self._watched.get(event.turn_id, ()):
                seen.wake()

    @contextmanager
    def over(self, turn_id: TurnId) -> Iterator[Seen]:
        seen = Seen()
        self._watched.setdefault(turn_id, set()).add(seen)
        try:
            yield seen
        finally:
            self._watched[turn_id].discard(seen)
            if not self._watched[turn_id]:
                del self._watched[turn_id]

"""Locks that calls hold while they run: on a session, on the daemon, or on an idempotency key.

What holds them is behind an interface: one daemon keeps them in memory, several would keep them in their database.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import anyio

LockKind = Literal["session", "daemon", "key"]


class Locks(Protocol):
    """One lock for the daemon and one for each session or key."""

    def hold(self, kind: LockKind, name: str | None = None) -> AbstractAsyncContextManager[None]:
        """Hold a lock; whoever comes meanwhile waits, in the order of coming."""
        ...


@dataclass(slots=True)
class _CountedLock:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class LocalLocks:
    """The locks of one daemon, in its memory; those nobody holds cost nothing."""

    def __init__(self) -> None:
        self._held: dict[str, _CountedLock] = {}

    @asynccontextmanager
    async def hold(self, kind: LockKind, name: str | None = None) -> AsyncIterator[None]:
        held = f"{kind} {name}" if name else kind
        counted = self._held.setdefault(held, _CountedLock())
        counted.users += 1
        try:
            async with counted.lock:
                yield
        finally:
            counted.users -= 1
            if not counted.users:
                del self._held[held]

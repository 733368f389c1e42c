"""Locks that calls hold while they run: on a session, on the daemon, or on an idempotency key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio


@dataclass(slots=True)
class _CountedLock:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class Locks:
    """One lock for the daemon and one for each session or key in use; those nobody holds cost nothing."""

    def __init__(self) -> None:
        self._held: dict[str, _CountedLock] = {}

    @asynccontextmanager
    async def hold(self, kind: Literal["session", "daemon", "key"], name: str | None = None) -> AsyncIterator[None]:
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

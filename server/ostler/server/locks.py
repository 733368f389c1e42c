"""What a call may not share: a session, or the daemon."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio


@dataclass(slots=True)
class _Counted:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class Locks:
    """One lock for the daemon and one for each session in use; those nobody holds cost nothing."""

    def __init__(self) -> None:
        self._held: dict[str, _Counted] = {}

    @asynccontextmanager
    async def hold(self, kind: Literal["session", "daemon"], session_id: str | None) -> AsyncIterator[None]:
        name = f"session {session_id}" if kind == "session" else "daemon"
        counted = self._held.setdefault(name, _Counted())
        counted.users += 1
        try:
            async with counted.lock:
                yield
        finally:
            counted.users -= 1
            if not counted.users:
                del self._held[name]

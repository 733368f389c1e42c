"""What a call may not share: a session, or the daemon."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from ostler.protocol.methods import Locks as Kind


@dataclass(slots=True)
class _Counted:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class Locks:
    """One lock for the daemon and one for each session in use; those nobody holds cost nothing."""

    def __init__(self) -> None:
        self._held: dict[str, _Counted] = {}

    @asynccontextmanager
    async def hold(self, kind: Kind, session_id: str | None) -> AsyncIterator[None]:
        match kind:
            case "nothing":
                yield
                return
            case "session":
                name = f"session {session_id}"
            case "daemon":
                name = "daemon"
        counted = self._held.setdefault(name, _Counted())
        counted.users += 1
        try:
            async with counted.lock:
                yield
        finally:
            counted.users -= 1
            if not counted.users:
                del self._held[name]

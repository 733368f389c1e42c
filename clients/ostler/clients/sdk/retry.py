"""Retrying a call while a daemon restarts: for calls that are safe to repeat."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from ostler.clients.sdk.errors import DaemonUnreachable
from ostler.protocol.backoff import Backoff
from ostler.protocol.errors import Overloaded, ShuttingDown

T = TypeVar("T")

RETRY_SECONDS: Final = 15.0
_BACKOFF: Final = Backoff(first_seconds=0.1, most_seconds=1.0)


async def retry_call(call: Callable[[], Awaitable[T]], seconds: float = RETRY_SECONDS) -> T:
    """The answer to a call, retried for a while where the daemon was restarted in the middle of it."""
    deadline = anyio.current_time() + seconds
    failures = 0
    while True:
        try:
            return await call()
        except (DaemonUnreachable, ShuttingDown, Overloaded):
            if anyio.current_time() > deadline:
                raise
        failures += 1
        await anyio.sleep(_BACKOFF.compute_wait(failures))

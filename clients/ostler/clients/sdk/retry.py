"""Retrying a call while a daemon restarts: for calls that are safe to repeat."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from ostler.clients.sdk.errors import DaemonUnreachable
from ostler.protocol.errors import Overloaded, ShuttingDown

T = TypeVar("T")

RETRY_SECONDS: Final = 15.0
_DELAY_SECONDS: Final = 0.2


async def retry_call(call: Callable[[], Awaitable[T]], seconds: float = RETRY_SECONDS) -> T:
    """The answer to a call, retried for a while where the daemon was restarted in the middle of it."""
    deadline = anyio.current_time() + seconds
    while True:
        try:
            return await call()
        except (DaemonUnreachable, ShuttingDown, Overloaded):
            if anyio.current_time() > deadline:
                raise
        await anyio.sleep(_DELAY_SECONDS)

"""The provider of the rehearsal model: it answers at once, and speaks at a pace that people can follow."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from ostler.server.models.provider import ModelRequest, RawEvent
from ostler.server.models.rehearsal.events import TimedEvent, build_events
from ostler.server.models.rehearsal.reply import build_reply

PACE_VARIABLE: Final = "OSTLER_REHEARSAL_PACE_MS"
_DEFAULT_PACE_MS: Final = 10.0
_MAX_PACE_MS: Final = 10_000.0
_THREADS: Final = 4
_PING_SECONDS: Final = 5.0


class RehearsalProvider:
    """The embedded model. It keeps nothing between requests."""

    def __init__(self, pace_ms: float | None = None) -> None:
        self._pace = (_read_pace() if pace_ms is None else pace_ms) / 1000
        self._threads = anyio.CapacityLimiter(_THREADS)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[RawEvent]]:
        """Decide what to answer, then give its events one by one."""
        return self._stream(request)

    def takes_extras(self, model: str) -> bool:
        """It knows the tools already."""
        return False

    def forgo_extras(self, model: str) -> None:
        """It never has any."""

    def compacts(self, model: str) -> bool:
        """It is asked in words."""
        return False

    def searches(self, model: str) -> bool:
        """It has no network."""
        return False

    def forgo_compaction(self, model: str) -> None:
        """It never does."""

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[RawEvent]]:
        # On a thread: a tail with megabytes of results takes its time to decode.
        timed = await anyio.to_thread.run_sync(_prepare_events, request, abandon_on_cancel=True, limiter=self._threads)
        if request.stored is not None:
            await request.stored()
        async with aclosing(self._pace_events(timed)) as events:
            yield events

    async def _pace_events(self, timed: list[TimedEvent]) -> AsyncGenerator[RawEvent]:
        for event, silence in timed:
            while silence > 0:
                # Servers of the Messages API say that they are still there, too.
                yield {"type": "ping"}
                await anyio.sleep(min(silence, _PING_SECONDS))
                silence -= _PING_SECONDS  # noqa: PLW2901 - what is left of it
            if self._pace and event["type"] == "content_block_delta":
                await anyio.sleep(self._pace)
            else:
                await checkpoint()
            yield event


def _prepare_events(request: ModelRequest) -> list[TimedEvent]:
    return list(build_events(build_reply(request), request.model))


def _read_pace() -> float:
    try:
        given = float(os.environ.get(PACE_VARIABLE, _DEFAULT_PACE_MS))
    except ValueError:
        return _DEFAULT_PACE_MS
    return min(max(given, 0.0), _MAX_PACE_MS) if given == given else _DEFAULT_PACE_MS  # noqa: PLR0124 - not a number

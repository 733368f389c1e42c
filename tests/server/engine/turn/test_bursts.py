"""An answer that comes faster than it is read must not block the event loop for others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ostler.protocol.config import Model
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.model_attempt import MessageStream, ModelAttempt, Streaming
from ostler.server.models.assembler import MessageAssembler
from ostler.server.models.provider import ModelRequest, RawEvent

pytestmark = pytest.mark.anyio
NOBODY: Any = None
"""Events that bring nothing are nobody's business."""


class BurstProvider:
    """A provider all of whose events are there when the first one is."""

    def __init__(self, events: int) -> None:
        self.events = events

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[RawEvent]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[RawEvent]:
        for _ in range(self.events):
            yield {"type": "ping"}

    def takes_extras(self, model: str) -> bool:
        return True

    def forgo_extras(self, model: str) -> None:
        raise AssertionError("it takes them")

    def searches(self, model: str) -> bool:
        return False

    def compacts(self, model: str) -> bool:
        return False

    def forgo_compaction(self, model: str) -> None:
        raise AssertionError("it was not asked to")


async def test_others_have_their_turn_while_a_burst_of_events_is_read() -> None:
    request = ModelRequest("any", 1, b"[]", b"[]", [])
    state, stream = TurnState(NOBODY), MessageStream(NOBODY, MessageAssembler(()), NOBODY, NOBODY)
    attempt = ModelAttempt(NOBODY, state, BurstProvider(10_000), request, stream, NOBODY, Streaming(), Model(), NOBODY)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with anyio.create_task_group() as group:
        group.start_soon(others)
        assert await attempt.read_stream() is None
        group.cancel_scope.cancel()
    assert turns >= 10_000 // 100

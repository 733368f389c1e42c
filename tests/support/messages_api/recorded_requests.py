"""The record that the scripted server keeps of each request."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio.to_thread

from tests.support.messages_api.behaviors import WAIT_SECONDS

AnswerEnd = Literal["complete", "cut", "left"]
"""The answer is whole; the script broke it off; the client left before its end."""


@dataclass(slots=True)
class RecordedRequest:
    """One request and its answer. Times are `time.monotonic()`, which all processes of a machine share."""

    number: int
    conversation: str
    step: int
    """The assistant messages that were in it."""
    message_count: int
    headers: Mapping[str, str]
    body: dict[str, Any]
    size: int
    began: float
    """When its first byte was there."""
    received: float
    """When its last byte was there."""
    status: int = 0
    sent: list[float] = field(default_factory=list)
    """When each event went out, or the whole body."""
    end: AnswerEnd | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def first_sent(self) -> float:
        return self.sent[0]

    @property
    def last_sent(self) -> float:
        return self.sent[-1]

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["messages"]
        return found

    def finish(self, end: AnswerEnd) -> None:
        self.end = end
        self._ended.set()

    def wait_until_ended(self, seconds: float = WAIT_SECONDS) -> AnswerEnd:
        """How the answer ended: it is whole, was cut, or the client left."""
        if not self._ended.wait(seconds) or self.end is None:
            raise TimeoutError(f"the answer to request {self.number} has not ended in {seconds} s")
        return self.end

    async def wait_until_ended_async(self, seconds: float = WAIT_SECONDS) -> AnswerEnd:
        """The same for a test that is a coroutine."""
        return await anyio.to_thread.run_sync(self.wait_until_ended, seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "conversation": self.conversation,
            "step": self.step,
            "messages": self.message_count,
            "size": self.size,
            "status": self.status,
            "began": self.began,
            "received": self.received,
            "sent": self.sent,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class Violation:
    """A request that the real API would refuse."""

    request: int
    conversation: str
    text: str

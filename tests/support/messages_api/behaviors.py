"""What the scripted server does, step by step, while it answers."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread

WAIT_SECONDS: Final = 30
"""How long a test waits for something before it counts as lost."""


class Gate:
    """Holds an answer in the middle until the test opens it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let everybody go on, now and later."""
        with self._lock:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    def wait_until_reached(self, seconds: float = WAIT_SECONDS) -> None:
        """Return when an answer stands at the gate."""
        if not self._arrived.wait(seconds):
            raise TimeoutError(f"no answer came to the gate in {seconds} s")

    async def wait_until_reached_async(self, seconds: float = WAIT_SECONDS) -> None:
        """The same for a test that is a coroutine."""
        await anyio.to_thread.run_sync(self.wait_until_reached, seconds)

    async def pass_through(self) -> None:
        """For the server: wait until it is open."""
        event = asyncio.Event()
        with self._lock:
            if not self._open:
                self._waiting.append((asyncio.get_running_loop(), event))
            else:
                event.set()
        self._arrived.set()
        await event.wait()


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that an answer says it took."""

    input_tokens: int = 100
    output_tokens: int = 20
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """Send `message_start`, with the model of the request and an id of its own."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Send:
    """Send these bytes, usually one event."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Clock:
    """Send a text delta that says when it was sent: `time.monotonic_ns()` in decimal, and a space."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop until the gate is open."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more, until the client leaves."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection in the middle of the body."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST)."""


@dataclass(frozen=True, slots=True)
class Forever:
    """Send the same again and again, until the client leaves."""

    data: bytes
    seconds: float


Act = Start | Send | Clock | Pause | Hold | Hang | Cut | Reset | Forever

_EVENT_STREAM: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: a stream of acts, or a whole body."""

    acts: tuple[Act, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENT_STREAM)
    body: bytes | None = None
    """Sent with its length in place of a stream."""
    before: tuple[Act, ...] = ()
    """What happens before the headers."""
    stop_reason: str | None = None
    whole: bool = False
    """The message comes whole as JSON, although a stream was asked for."""

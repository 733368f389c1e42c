"""One reader of the log: what it watches, and the bounded queue in front of it."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from ostler.protocol.events import StreamEnd
from ostler.protocol.ids import Cursor, SessionId
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.frames import Frame, passing_frame
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent

_COMMENT: Final = Frame(None, "", None, None, b": still here\n\n", 0)


@dataclass(slots=True)
class Watch:
    """Which sessions a reader wants to hear about, each with all that work for it."""

    roots: frozenset[SessionId] | None = None
    """Sessions at the top; None is everything there is."""
    members: dict[SessionId, SessionId] = field(default_factory=dict)
    """Agents and theirs, where not the whole tree was asked for, each with the session at its top."""

    def wants(self, frame: Frame) -> bool:
        return self.roots is None or frame.root_id in self.roots or frame.session_id in self.members

    def covers(self, scope: Scope) -> bool:
        """Whether what is said about a session reaches this reader."""
        return self.roots is None or scope.root_id in self.roots or scope.session_id in self.members

    @property
    def trees(self) -> list[SessionId] | None:
        """The sessions at the top of all that is watched; None is everything."""
        return None if self.roots is None else sorted({*self.roots, *self.members.values()})

    def adopt(self, event: LoggedEvent) -> None:
        """An agent that was created, or is gone since, is watched by whoever watches its parent."""
        if not self.members or event.session_id is None or event.root_id is None:
            return
        if orjson.loads(event.data)["session"]["parent_id"] in self.members:
            self.members[event.session_id] = event.root_id


class Reader:
    """Takes frames without ever making the log wait; a client that cannot keep up is cut off."""

    def __init__(self, watch: Watch, *, position: Cursor, deltas: bool, max_events: int, max_bytes: int) -> None:
        self.watch = watch
        self.position = position
        """The last stored event that was taken or passed over."""
        self.lagged = False
        self._deltas = deltas
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._first: deque[Frame] = deque()
        """What was in progress when it was attached: never dropped, since the reader has not been slow yet."""
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._rest: Iterator[bytes] = iter(())
        """Of a long frame that is being given away."""
        self._strained = False
        self._closed = False
        # asyncio's, which can be used again: a new one for every wake-up of fifty readers costs more than their bytes.
        self._wake = asyncio.Event()

    @property
    def queued_bytes(self) -> int:
        return self._bytes

    def offer(self, frame: Frame) -> None:
        """Queue a frame if this reader wants it; called for every event there is."""
        if self.lagged or self._closed or not self.watch.wants(frame):
            return
        if frame.cursor is None:
            if self._strained or (frame.kind == "message.delta" and not self._deltas):
                return
        elif frame.cursor <= self.position:
            return  # it was replayed from the database before it was published
        self._frames.append(frame)
        self._bytes += frame.size
        if self._is_full():
            self._relieve()
        self._wake.set()

    def begin(self, frames: Iterable[Frame]) -> None:
        """What has been said already of what is not stored yet, before all that comes."""
        if self._deltas:
            self._first.extend(frame for frame in frames if self.watch.wants(frame))
            self._wake.set()

    def remind(self) -> None:
        """Say something, so that the connection is not taken for dead; unless there is something to say."""
        if not (self._first or self._frames):
            self._first.append(_COMMENT)
            self._wake.set()

    def close(self) -> None:
        """End the stream after what is queued."""
        self._closed = True
        self._wake.set()

    def let_go(self) -> None:
        """Nobody takes anything any more."""
        self.close()
        self._rest = iter(())
        self._first.clear()
        self._frames.clear()
        self._bytes = 0

    async def take(self) -> bytes | None:
        """Everything that is queued, joined, up to a chunk; None at the end of the stream."""
        if (rest := next(self._rest, None)) is not None:
            await asyncio.sleep(0)  # else nobody notices that the client has left
            return rest
        while not self._first:
            if self._frames:
                return self._chunk()
            if self.lagged or self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        self._rest = self._first.popleft().chunks()
        return next(self._rest)

    def _chunk(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._frames and size < CHUNK_BYTES:
            frame = self._frames.popleft()
            size += frame.size
            if frame.cursor is not None:
                self.position = frame.cursor
            if frame.long_data:
                self._rest = frame.chunks()
                break
            parts.append(frame.sse)
        self._bytes -= size
        self._strained = self._strained and bool(self._frames)
        return b"".join(parts) if parts else next(self._rest)

    def _relieve(self) -> None:
        """Over the limit: first what is not stored goes, then the reader itself."""
        self._frames = deque(frame for frame in self._frames if frame.cursor is not None)
        self._bytes = sum(frame.size for frame in self._frames)
        # Until the queue is empty again; else each further delta would cost another walk through it.
        self._strained = bool(self._frames)
        if self._is_full():
            self._cut()

    def _is_full(self) -> bool:
        # One event alone is never too much, whatever its size: its reader has not been slow yet.
        return len(self._frames) > 1 and (len(self._frames) > self._max_events or self._bytes > self._max_bytes)

    def _cut(self) -> None:
        self.lagged = True
        end = StreamEnd(cursor=self.position, reason="This reader was too slow; reconnect from the cursor.")
        farewell = passing_frame("stream.lagged", Scope(), end, self.position)
        self._frames = deque([farewell])
        self._bytes = farewell.size

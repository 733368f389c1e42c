"""A subscriber of the event log: its session filter, and its bounded queue."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from ostler.protocol.events import StreamEnd
from ostler.protocol.ids import Cursor, SessionId
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.frames import Frame, build_transient_frame
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent

_COMMENT: Final = Frame(None, "", None, None, b": still here\n\n", 0)


@dataclass(slots=True)
class SessionFilter:
    """Which sessions a subscriber wants events of, each with its agents."""

    roots: frozenset[SessionId] | None = None
    """Root sessions; None means all sessions."""
    members: dict[SessionId, SessionId] = field(default_factory=dict)
    """Agents and their own agents, where not the whole tree was asked for, each with its root session."""

    def wants(self, frame: Frame) -> bool:
        return self.roots is None or frame.root_id in self.roots or frame.session_id in self.members

    def covers(self, scope: Scope) -> bool:
        """Whether an event with this scope passes the filter."""
        return self.roots is None or scope.root_id in self.roots or scope.session_id in self.members

    @property
    def trees(self) -> list[SessionId] | None:
        """The root sessions of all that is watched; None means all."""
        return None if self.roots is None else sorted({*self.roots, *self.members.values()})

    def add_agent(self, event: LoggedEvent) -> None:
        """Add a created or deleted agent to the filter if its parent is in it."""
        if not self.members or event.session_id is None or event.root_id is None:
            return
        if orjson.loads(event.data)["session"]["parent_id"] in self.members:
            self.members[event.session_id] = event.root_id


class Subscriber:
    """Queues frames for one client without ever making the log wait; a client that cannot keep up is cut off."""

    def __init__(
        self, session_filter: SessionFilter, *, position: Cursor, deltas: bool, max_events: int, max_bytes: int
    ) -> None:
        self.session_filter = session_filter
        self.position = position
        """The cursor of the last stored event that was sent or skipped."""
        self.lagged = False
        self._deltas = deltas
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._priority_frames: deque[Frame] = deque()
        """Sent first, never dropped: what is in progress at attaching (the client is not slow yet), and keep-alives."""
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._rest_chunks: Iterator[bytes] = iter(())
        """The remaining chunks of a long frame that is being sent."""
        self._drops_transient = False
        self._closed = False
        # asyncio's event, which can be reused: a new one for each wake-up of fifty clients costs more than their bytes.
        self._wake = asyncio.Event()

    @property
    def queued_bytes(self) -> int:
        return self._bytes

    def offer(self, frame: Frame) -> None:
        """Queue a frame if it passes the filter; called for every event there is."""
        if self.lagged or self._closed or not self.session_filter.wants(frame):
            return
        if frame.cursor is None:
            if self._drops_transient or (frame.kind == "message.delta" and not self._deltas):
                return
        elif frame.cursor <= self.position:
            return  # it was replayed from the database before it was published
        self._frames.append(frame)
        self._bytes += frame.size
        if self._is_full():
            self._reduce_queue()
        self._wake.set()

    def queue_progress_so_far(self, frames: Iterable[Frame]) -> None:
        """Queue the messages in progress, and what running calls have printed, before everything else."""
        self._priority_frames.extend(frame for frame in frames if self._deltas or frame.kind != "message.delta")
        self._wake.set()

    def queue_keepalive(self) -> None:
        """Queue a comment if nothing else is queued, so that the connection is not taken for dead."""
        if not (self._priority_frames or self._frames):
            self._priority_frames.append(_COMMENT)
            self._wake.set()

    def close(self) -> None:
        """End the stream after what is queued."""
        self._closed = True
        self._wake.set()

    def discard(self) -> None:
        """Close, and drop everything that is queued: the client has left."""
        self.close()
        self._rest_chunks = iter(())
        self._priority_frames.clear()
        self._frames.clear()
        self._bytes = 0

    async def next_chunk(self) -> bytes | None:
        """Everything that is queued, joined, up to a chunk; None at the end of the stream."""
        if (rest := next(self._rest_chunks, None)) is not None:
            await asyncio.sleep(0)  # else nobody notices that the client has left
            return rest
        while not self._priority_frames:
            if self._frames:
                return self._join_frames()
            if self.lagged or self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        self._rest_chunks = self._priority_frames.popleft().iter_chunks()
        return next(self._rest_chunks)

    def _join_frames(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._frames and size < CHUNK_BYTES:
            frame = self._frames.popleft()
            size += frame.size
            if frame.cursor is not None:
                self.position = frame.cursor
            if frame.long_data:
                self._rest_chunks = frame.iter_chunks()
                break
            parts.append(frame.sse)
        self._bytes -= size
        self._drops_transient = self._drops_transient and bool(self._frames)
        return b"".join(parts) if parts else next(self._rest_chunks)

    def _reduce_queue(self) -> None:
        """Over the limit: first the transient frames are dropped, then the subscriber is cut off."""
        self._frames = deque(frame for frame in self._frames if frame.cursor is not None)
        self._bytes = sum(frame.size for frame in self._frames)
        # Transient frames are refused until the queue is empty; else each further delta would cost another pass.
        self._drops_transient = bool(self._frames)
        if self._is_full():
            self._cut_off()

    def _is_full(self) -> bool:
        # One event alone is never too much, whatever its size: its client has not been slow yet.
        return len(self._frames) > 1 and (len(self._frames) > self._max_events or self._bytes > self._max_bytes)

    def _cut_off(self) -> None:
        self.lagged = True
        end = StreamEnd(cursor=self.position, reason="This reader was too slow; reconnect from the cursor.")
        last_frame = build_transient_frame("stream.lagged", Scope(), end, self.position)
        self._frames = deque([last_frame])
        self._bytes = last_frame.size

"""The event log: the only way that anything becomes visible.

What changes a session is written in a unit of work that also appends to the log. When the unit is on the disk,
its events are published, in the order of their cursors. What is not stored is published too, but never before
the events that were written before it for the same session tree.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import EVENT_TYPES, MessageDelta
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.server.events.frames import Frame, passing_frame, stored_frame
from ostler.server.events.partial_messages import MessagesInProgress
from ostler.server.events.subscriber import Reader
from ostler.storage import Ahead, Scope, Store, Tx
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite import long_json

T = TypeVar("T")

_Held = tuple[str, Scope, Shape]
_UNIT = None


class EventLog:
    """Writes, publishes, and keeps the readers that are up to date."""

    def __init__(self, store: Store) -> None:
        self.head: Cursor = store.head
        """The last stored event that was published."""
        self.in_progress = MessagesInProgress()
        self.readers: set[Reader] = set()
        self.followers: list[Callable[[LoggedEvent], None]] = []
        """Called with every stored event, before the readers get it."""
        self.readers_cut = 0
        self._store = store
        self._advanced: anyio.Event | None = None
        """Set at the next event; there only while somebody waits for one."""
        # By session tree, in the order made: _UNIT for a unit that is being written, else what waits behind it.
        self._waiting: dict[SessionId | None, deque[_Held | None]] = {}

    async def write(self, work: Callable[[Tx], T], root_id: SessionId | None = None) -> T:
        """Run a unit of work about one session tree, and wait until it is on the disk and published."""
        return await self.submit(work, root_id)

    def submit(
        self,
        work: Callable[[Tx], T],
        root_id: SessionId | None = None,
        *,
        urgent: bool = True,
        ahead: Ahead | None = None,
    ) -> asyncio.Future[T]:
        """Queue a unit of work; it is urgent where somebody waits for it, because something was promised."""

        def tell(appended: list[LoggedEvent]) -> None:
            self._committed(root_id, appended)

        future = self._store.writer.submit(work, tell, urgent=urgent, ahead=ahead)
        self._waiting.setdefault(root_id, deque()).append(_UNIT)
        return future

    def is_last(self, unit: "asyncio.Future[Any]", root_id: SessionId | None) -> bool:
        """Whether nothing was written, nor said in the same session tree, after a unit that waits to be written."""
        return self._store.writer.is_last(unit) and self._waiting[root_id][-1] is _UNIT

    def submit_quietly(self, work: Callable[[Tx], object]) -> None:
        """Write something that nobody waits for; where it cannot be written, it is not."""
        try:
            future = self.submit(work, urgent=False)
        except ProtocolError:
            return
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._store.read(work)

    async def reached(self, cursor: Cursor) -> None:
        """Wait until this place has been published: a snapshot may be a moment ahead of what readers were told."""
        while self.head < cursor:
            self._advanced = self._advanced or anyio.Event()
            await self._advanced.wait()

    def say(self, kind: str, scope: Scope, data: Shape) -> None:
        """Publish something that is not stored, after everything that was written before it."""
        assert not EVENT_TYPES[kind].stored, f"{kind} has to be written"
        waiting = self._waiting.get(scope.root_id)
        if waiting:
            waiting.append((kind, scope, data))
        else:
            self._publish_passing(kind, scope, data)

    def attach(self, reader: Reader) -> None:
        """Go live: from here on the reader gets everything, first the messages in progress from their start."""
        again = self.in_progress.again(reader.watch.covers)
        reader.begin(passing_frame("message.delta", scope, delta, self.head) for scope, delta in again)
        self.readers.add(reader)

    def detach(self, reader: Reader) -> None:
        self.readers.discard(reader)
        self.readers_cut += reader.lagged

    def _committed(self, root_id: SessionId | None, appended: list[LoggedEvent]) -> None:
        for event in appended:
            self._publish_stored(event)
        waiting = self._waiting[root_id]
        waiting.popleft()
        while waiting and (held := waiting[0]) is not None:
            waiting.popleft()
            self._publish_passing(*held)
        if not waiting:
            del self._waiting[root_id]

    def _publish_stored(self, event: LoggedEvent) -> None:
        self.head = event.cursor
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None
        self.in_progress.see(event)
        for follow in self.followers:
            follow(event)
        if event.type == "session.created":
            for reader in self.readers:
                reader.watch.adopt(event)
        self._spread(stored_frame(event))

    def _publish_passing(self, kind: str, scope: Scope, data: Shape) -> None:
        encoded = long_json.encoded(data)
        if isinstance(data, MessageDelta):
            self.in_progress.see_delta(scope.session_id, data, encoded)
        self._spread(passing_frame(kind, scope, encoded, self.head))

    def _spread(self, frame: Frame) -> None:
        for reader in self.readers:
            reader.offer(frame)

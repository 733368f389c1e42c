"""The event log: writes units of work, and publishes their events to the subscribers.

It is the only way by which anything becomes visible to clients.

What changes a session is written in a unit of work that also appends to the log. When the unit is on the disk,
its events are published, in the order of their cursors. Transient events, which are not stored, are published too,
but never before the events that were written before them for the same session tree.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import EVENT_TYPES, MessageDelta, ToolProgress
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.server.events.activity import Activity
from ostler.server.events.frames import Frame, build_stored_frame, build_transient_frame
from ostler.server.events.partial_messages import PartialMessages
from ostler.server.events.running_calls import RunningCalls
from ostler.server.events.subscriber import Subscriber
from ostler.storage import CommitProgress, Scope, Snapshot, Store, Tx
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite import long_json

T = TypeVar("T")

_HeldEvent = tuple[str, Scope, Shape]
_UNIT = None


class EventLog:
    """Writes and publishes events, and holds the subscribers that are live."""

    def __init__(self, store: Store) -> None:
        self.head: Cursor = store.head
        """The last stored event that was published."""
        self.partial_messages = PartialMessages()
        self.running_calls = RunningCalls()
        self.activity = Activity()
        self.subscribers: set[Subscriber] = set()
        self.followers: list[Callable[[LoggedEvent], None]] = []
        """Called with every stored event, before the subscribers get it."""
        self.subscribers_cut = 0
        self._store = store
        self._advanced: anyio.Event | None = None
        """Set at the next stored event; it exists only while somebody waits for one."""
        # By session tree, in order: _UNIT for a unit that is being written, else a transient event that waits for it.
        self._waiting: dict[SessionId | None, deque[_HeldEvent | None]] = {}

    async def write(self, work: Callable[[Tx], T], root_id: SessionId | None = None) -> T:
        """Run a unit of work about one session tree, and wait until it is on the disk and published."""
        return await self.submit(work, root_id)

    def submit(
        self,
        work: Callable[[Tx], T],
        root_id: SessionId | None = None,
        *,
        urgent: bool = True,
        progress: CommitProgress | None = None,
    ) -> asyncio.Future[T]:
        """Queue a unit of work; it is urgent where somebody waits for its commit."""

        def publish(appended: list[LoggedEvent]) -> None:
            self._publish_committed(root_id, appended)

        future = self._store.writer.submit(work, publish, urgent=urgent, progress=progress)
        self._waiting.setdefault(root_id, deque()).append(_UNIT)
        return future

    def is_last(self, unit: "asyncio.Future[Any]", root_id: SessionId | None) -> bool:
        """Whether this unit still waits, no other was queued after it, and nothing was published later in its tree."""
        return self._store.writer.is_last(unit) and self._waiting[root_id][-1] is _UNIT

    def submit_quietly(self, work: Callable[[Tx], object]) -> None:
        """Write something that nobody waits for; where it cannot be written, it is dropped."""
        try:
            future = self.submit(work, urgent=False)
        except ProtocolError:
            return
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        return await self._store.read(work)

    async def wait_for_cursor(self, cursor: Cursor) -> None:
        """Wait until this cursor has been published: a snapshot may be a moment ahead of what subscribers got."""
        while self.head < cursor:
            self._advanced = self._advanced or anyio.Event()
            await self._advanced.wait()

    def publish_transient(self, kind: str, scope: Scope, data: Shape) -> None:
        """Publish an event that is not stored, after everything that was written before it in its session tree."""
        assert not EVENT_TYPES[kind].stored, f"{kind} has to be written"
        waiting = self._waiting.get(scope.root_id)
        if waiting:
            waiting.append((kind, scope, data))
        else:
            self._publish_transient(kind, scope, data)

    def attach(self, subscriber: Subscriber) -> None:
        """Go live: from here on the subscriber gets every event.

        First come the partial messages from their start, and what the running calls have printed: those events are not
        stored, so that the subscriber may have missed some.
        """
        covers = subscriber.session_filter.covers
        subscriber.queue_progress_so_far(
            build_transient_frame("message.delta", scope, delta, self.head)
            for scope, delta in self.partial_messages.replay_deltas(covers)
        )
        subscriber.queue_progress_so_far(
            build_transient_frame("tool.progress", scope, progress, self.head)
            for scope, progress in self.running_calls.replay_progress(covers)
        )
        self.subscribers.add(subscriber)

    def detach(self, subscriber: Subscriber) -> None:
        self.subscribers.discard(subscriber)
        self.subscribers_cut += subscriber.lagged

    def _publish_committed(self, root_id: SessionId | None, appended: list[LoggedEvent]) -> None:
        for event in appended:
            self._publish_stored(event)
        waiting = self._waiting[root_id]
        waiting.popleft()
        while waiting and (held := waiting[0]) is not None:
            waiting.popleft()
            self._publish_transient(*held)
        if not waiting:
            del self._waiting[root_id]

    def _publish_stored(self, event: LoggedEvent) -> None:
        self.head = event.cursor
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None
        self.partial_messages.track_event(event)
        self.running_calls.track_event(event)
        self.activity.note(event.session_id)
        for follow in self.followers:
            follow(event)
        if event.type == "session.created":
            for subscriber in self.subscribers:
                subscriber.session_filter.add_agent(event)
        self._broadcast(build_stored_frame(event))

    def _publish_transient(self, kind: str, scope: Scope, data: Shape) -> None:
        encoded = long_json.encode(data)
        if isinstance(data, MessageDelta):
            self.partial_messages.track_delta(scope.session_id, data, encoded)
        elif isinstance(data, ToolProgress):
            self.running_calls.track_progress(scope, data)
        self.activity.note_transient(scope.session_id, data)
        self._broadcast(build_transient_frame(kind, scope, encoded, self.head))

    def _broadcast(self, frame: Frame) -> None:
        for subscriber in self.subscribers:
            subscriber.offer(frame)

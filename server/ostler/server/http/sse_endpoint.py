"""`GET /events`: replay from a cursor, then live, with no gap between the two."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import orjson
from starlette.types import Receive, Scope, Send

from ostler.protocol.config import Limits
from ostler.protocol.errors import InvalidParams, Overloaded, ProtocolError, SessionNotFound, ShuttingDown
from ostler.protocol.events import StreamEnd
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.limits import SSE_COMMENT_SECONDS
from ostler.server.clients.presence import Presence
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.event_log import EventLog
from ostler.server.events.frames import Frame, build_stored_frame, build_transient_frame
from ostler.server.events.subscriber import SessionFilter, Subscriber
from ostler.server.http.asgi import EventStream, Request, Response
from ostler.storage import Scope as EventScope
from ostler.storage import Snapshot
from ostler.storage.repositories.clients import ClientRecord
from ostler.storage.repositories.events import LoggedEvent

_PAGE_EVENTS: Final = 500
_STATUS: Final = {"session_not_found": 404, "overloaded": 503, "shutting_down": 503}


class SseEndpoint:
    """Opens event streams, within the limit, and ends them all when the daemon stops."""

    def __init__(self, log: EventLog, presence: Presence, limits: Limits) -> None:
        self._log = log
        self._presence = presence
        self.limits = limits
        self._subscribers: set[Subscriber] = set()
        self._closing = False

    @property
    def count(self) -> int:
        return len(self._subscribers)

    def close(self) -> None:
        self._closing = True
        for subscriber in self._subscribers:
            subscriber.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response, subscriber = await self._respond(Request(scope))
        try:
            await response(scope, receive, send)
        finally:
            # Here and not in the stream itself, which may be cancelled before it has begun.
            if subscriber is not None:
                self._subscribers.discard(subscriber)
                self._log.detach(subscriber)
                subscriber.discard()

    async def _respond(self, request: Request) -> tuple[Response | EventStream, Subscriber | None]:
        if request.method not in {"GET", "HEAD"}:
            return Response(405, headers={"allow": "GET"}), None
        try:
            after = _parse_cursor(request)
            session_filter, head = await self._resolve_filter(
                [SessionId(value) for name, value in request.query if name == "session"]
            )
            if after is None and session_filter.members:
                # From the cursor at which they were looked up: an agent that is created in between must not be missed.
                after = head
            client = await self._presence.find_client(request.find_header("ostler-client"))
            if request.method == "HEAD":
                return Response(media_type="text/event-stream; charset=utf-8"), None
            subscriber = self._subscribe(session_filter, after, client)
        except ProtocolError as error:
            return _build_refusal(error), None
        return EventStream(self._stream_events(subscriber, after, client)), subscriber

    async def _resolve_filter(self, asked: list[SessionId]) -> tuple[SessionFilter, Cursor]:
        """The filter for the sessions asked for, and the end of the log when they were looked up."""
        if not asked:
            return SessionFilter(), self._log.head

        def look(snapshot: Snapshot) -> tuple[SessionFilter, Cursor]:
            roots = snapshot.sessions.find_roots(asked)
            for session_id in asked:
                if session_id not in roots:
                    raise SessionNotFound(session_id)
            agents = [session_id for session_id in asked if roots[session_id] != session_id]
            members = {one.id: one.root_id for agent in agents for one in snapshot.sessions.list_family(agent)}
            whole = frozenset(one for one in asked if roots[one] == one)
            return SessionFilter(whole, members), snapshot.events.load_head()

        return await self._log.read(look)

    def _subscribe(
        self, session_filter: SessionFilter, after: Cursor | None, client: ClientRecord | None
    ) -> Subscriber:
        """Register a subscriber before the response begins: nothing that happens after the headers is missed."""
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        if len(self._subscribers) >= self.limits.readers:
            raise Overloaded(f"{len(self._subscribers)} event streams are open already.", retry_after_ms=1000)
        subscriber = Subscriber(
            session_filter,
            position=self._log.head if after is None else after,
            deltas=client is None or bool(client.capabilities.get("deltas", True)),
            max_events=self.limits.queue_events,
            max_bytes=self.limits.queue_bytes,
        )
        self._subscribers.add(subscriber)
        if after is None:
            self._log.attach(subscriber)
        return subscriber

    async def _stream_events(
        self, subscriber: Subscriber, after: Cursor | None, client: ClientRecord | None
    ) -> AsyncGenerator[bytes, None]:
        with self._presence.attach(client, subscriber.session_filter), _keep_alive(subscriber):
            # A first comment, so that a client behind a buffering proxy sees that the stream is open.
            yield b": ostler\n\n"
            if after is not None:
                async for replayed in self._replay(subscriber):
                    yield replayed
            while (chunk := await subscriber.next_chunk()) is not None:
                yield chunk

    async def _replay(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """Send page after page from the database, until everything that was published has been read."""
        while not self._closing:
            events, position, head, reset_reason = await self._log.read(
                lambda snapshot: _read_page(snapshot, subscriber)
            )
            if reset_reason is not None:
                yield _build_reset_frame(reset_reason, head).sse
                subscriber.close()
                return
            try:
                for chunk in _encode_chunks(subscriber.session_filter, events):
                    yield chunk
                    await asyncio.sleep(0)  # else nobody notices that the client has left
            finally:
                # A client that leaves in the middle leaves this frame in its exception: megabytes, until a collection.
                events.clear()
            subscriber.position = position
            # What was read may not have been published yet; only then are the partial messages up to date.
            await self._log.wait_for_cursor(position)
            # No await between this check and attaching: whatever is published next reaches the subscriber.
            if self._log.head <= position:
                self._log.attach(subscriber)
                return


@contextmanager
def _keep_alive(subscriber: Subscriber) -> Iterator[None]:
    """Keep a quiet stream alive with an SSE comment now and then."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def remind() -> None:
        nonlocal timer
        subscriber.queue_keepalive()
        timer = loop.call_later(SSE_COMMENT_SECONDS, remind)

    timer = loop.call_later(SSE_COMMENT_SECONDS, remind)
    try:
        yield
    finally:
        timer.cancel()


class _ReplayPage(NamedTuple):
    """A page of the log, read from one snapshot."""

    events: list[LoggedEvent]
    position: Cursor
    """Where the next page begins."""
    head: Cursor
    reset_reason: str | None
    """Why there is no page: the cursor asked for is past the end of this log, or was pruned."""


def _read_page(snapshot: Snapshot, subscriber: Subscriber) -> _ReplayPage:
    head = snapshot.events.load_head()
    # Checked for each page, since old events may be pruned while a slow subscriber works through them.
    reset_reason = _check_cursor(subscriber.position, head, snapshot.events.load_pruned_cursor())
    if reset_reason is not None:
        return _ReplayPage([], subscriber.position, head, reset_reason)
    found, more_after = snapshot.events.list_page(
        subscriber.position, subscriber.session_filter.trees, _PAGE_EVENTS, CHUNK_BYTES
    )
    return _ReplayPage(found, more_after if more_after is not None else head, head, None)


def _check_cursor(after: Cursor, head: Cursor, pruned: Cursor) -> str | None:
    if after > head:
        return f"Cursor {after} is past the end of the log; it may be of another database."
    if 0 < after < pruned:
        return f"Events up to {pruned} are not kept any more."
    return None


def _build_reset_frame(reason: str, head: Cursor) -> Frame:
    return build_transient_frame("stream.reset", EventScope(), StreamEnd(cursor=head, reason=reason), head)


def _encode_chunks(session_filter: SessionFilter, page: list[LoggedEvent]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for event in page:
        if event.type in {"session.created", "session.deleted"}:
            # In a replay too: agents created after the sessions were looked up, and agents deleted since.
            session_filter.add_agent(event)
        frame = build_stored_frame(event)
        if not session_filter.wants(frame):
            continue
        if frame.long_data:
            yield b"".join(parts)
            yield from frame.iter_chunks()
            parts, size = [], 0
            continue
        parts.append(frame.sse)
        size += len(frame.sse)
        if size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _parse_cursor(request: Request) -> Cursor | None:
    """Where to begin; None is now. The header wins, because it is what a browser sends when it reconnects."""
    known = {"session", "after"}
    if unknown := {name for name, _ in request.query} - known:
        raise InvalidParams.of(sorted(unknown)[0], "unknown parameter; there are `session` and `after`")
    asked = request.find_header("last-event-id") or dict(request.query).get("after") or "now"
    if asked == "now":
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 18):
        raise InvalidParams.of("after", f"{asked[:40]!r} is no cursor: a number, or `now`")
    return Cursor(int(asked))


def _build_refusal(error: ProtocolError) -> Response:
    status = _STATUS.get(str(error.data.get("code")), 400)
    headers: Mapping[str, str] = {"retry-after": "1"} if status == 503 else {}
    body = {"error": {"code": error.code, "message": error.message, "data": error.data}}
    return Response(status, orjson.dumps(body), media_type="application/json", headers=headers)

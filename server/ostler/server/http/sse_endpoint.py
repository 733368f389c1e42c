"""`GET /events`: replay from a cursor, then live, with no gap between the two."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from ostler.protocol.config import Limits
from ostler.protocol.errors import InvalidParams, Overloaded, ProtocolError, SessionNotFound, ShuttingDown
from ostler.protocol.events import StreamEnd
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.limits import SSE_COMMENT_SECONDS
from ostler.server.clients.presence import Presence
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.event_log import EventLog
from ostler.server.events.frames import Frame, passing_frame, stored_frame
from ostler.server.events.subscriber import Reader, Watch
from ostler.storage import Scope as EventScope
from ostler.storage.repositories import events, sessions
from ostler.storage.repositories.clients import ClientRecord
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite.database import head_of

_PAGE: Final = 500
_STATUS: Final = {"session_not_found": 404, "overloaded": 503, "shutting_down": 503}


class Streams:
    """Opens event streams, within the limit, and ends them all when the daemon stops."""

    def __init__(self, log: EventLog, presence: Presence, limits: Limits) -> None:
        self._log = log
        self._presence = presence
        self.limits = limits
        self._open: set[Reader] = set()
        self._closing = False

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        self._closing = True
        for reader in self._open:
            reader.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response, reader = await self._respond(Request(scope))
        try:
            await response(scope, receive, send)
        finally:
            # Here and not in the stream itself, which may be cancelled before it has begun.
            if reader is not None:
                self._open.discard(reader)
                self._log.detach(reader)
                reader.let_go()

    async def _respond(self, request: Request) -> tuple[Response, Reader | None]:
        if request.method not in {"GET", "HEAD"}:
            return Response(status_code=405, headers={"allow": "GET"}), None
        try:
            after = _asked_cursor(request)
            watch, head = await self._watch([SessionId(one) for one in request.query_params.getlist("session")])
            if after is None and watch.members:
                # From where they were looked up: an agent that is made before we are attached must be seen being made.
                after = head
            client = await self._presence.known(request.headers.get("ostler-client"))
            if request.method == "HEAD":
                return Response(media_type="text/event-stream"), None
            reader = self._reader(watch, after, client)
        except ProtocolError as error:
            return _refusal(error), None
        stream = EventSourceResponse(
            self._follow(reader, after, client),
            ping=0,  # it would stand in the middle of an event that is sent in pieces: ours waits for its end
            sep="\n",
        )
        return stream, reader

    async def _watch(self, asked: list[SessionId]) -> tuple[Watch, Cursor]:
        """Whom to watch, and the place in the log at which that was known."""
        if not asked:
            return Watch(), self._log.head

        def look(connection: sqlite3.Connection) -> tuple[Watch, Cursor]:
            roots = sessions.roots_of(connection, asked)
            for session_id in asked:
                if session_id not in roots:
                    raise SessionNotFound(session_id)
            agents = [session_id for session_id in asked if roots[session_id] != session_id]
            members = {one.id: one.root_id for agent in agents for one in sessions.family(connection, agent)}
            return Watch(frozenset(one for one in asked if roots[one] == one), members), head_of(connection)

        return await self._log.read(look)

    def _reader(self, watch: Watch, after: Cursor | None, client: ClientRecord | None) -> Reader:
        """Subscribed before the response begins: nothing that happens after the headers is missed."""
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        if len(self._open) >= self.limits.readers:
            raise Overloaded(f"{len(self._open)} event streams are open already.", retry_after_ms=1000)
        reader = Reader(
            watch,
            position=self._log.head if after is None else after,
            deltas=client is None or bool(client.capabilities.get("deltas", True)),
            max_events=self.limits.queue_events,
            max_bytes=self.limits.queue_bytes,
        )
        self._open.add(reader)
        if after is None:
            self._log.attach(reader)
        return reader

    async def _follow(self, reader: Reader, after: Cursor | None, client: ClientRecord | None) -> AsyncIterator[bytes]:
        with self._presence.attached(client, reader.watch), _reminded(reader):
            # A first word, so that a client behind a buffering proxy sees that the stream stands.
            yield b": ostler\n\n"
            if after is not None:
                async for replayed in self._replay(reader):
                    yield replayed
            while (chunk := await reader.take()) is not None:
                yield chunk

    async def _replay(self, reader: Reader) -> AsyncIterator[bytes]:
        """Page after page from the database, until there is nothing that was published and not yet read."""
        while not self._closing:
            events, position, head, unknown = await self._log.read(lambda connection: _read_page(connection, reader))
            if unknown is not None:
                yield _reset(unknown, head).sse
                reader.close()
                return
            try:
                for chunk in _chunks(reader.watch, events):
                    yield chunk
                    await asyncio.sleep(0)  # else nobody notices that the client has left
            finally:
                # A client that leaves in the middle leaves this frame in its exception: megabytes, until a collection.
                events.clear()
            reader.position = position
            # What was read may not have been told to the others yet; only then is it known what is in progress.
            await self._log.reached(position)
            # No await between the question and the answer: what is published next finds the reader attached.
            if self._log.head <= position:
                self._log.attach(reader)
                return


@contextmanager
def _reminded(reader: Reader) -> Iterator[None]:
    """A quiet stream says something now and then."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def remind() -> None:
        nonlocal timer
        reader.remind()
        timer = loop.call_later(SSE_COMMENT_SECONDS, remind)

    timer = loop.call_later(SSE_COMMENT_SECONDS, remind)
    try:
        yield
    finally:
        timer.cancel()


class _Page(NamedTuple):
    """A piece of the log, all of one moment."""

    events: list[LoggedEvent]
    position: Cursor
    """Where the next page begins."""
    head: Cursor
    unknown: str | None
    """Why there is no page: the place asked for is not of this log, or not any more."""


def _read_page(connection: sqlite3.Connection, reader: Reader) -> _Page:
    head = head_of(connection)
    # Asked for each page, since old events may be dropped while a slow reader works through them.
    unknown = _unknown(reader.position, head, events.pruned_through(connection))
    if unknown is not None:
        return _Page([], reader.position, head, unknown)
    found, more_after = events.page(connection, reader.position, reader.watch.trees, _PAGE, CHUNK_BYTES)
    return _Page(found, more_after if more_after is not None else head, head, None)


def _unknown(after: Cursor, head: Cursor, pruned: Cursor) -> str | None:
    if after > head:
        return f"Cursor {after} is past the end of the log; it may be of another database."
    if 0 < after < pruned:
        return f"Events up to {pruned} are not kept any more."
    return None


def _reset(reason: str, head: Cursor) -> Frame:
    return passing_frame("stream.reset", EventScope(), StreamEnd(cursor=head, reason=reason), head)


def _chunks(watch: Watch, page: list[LoggedEvent]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for event in page:
        if event.type in {"session.created", "session.deleted"}:
            # Here too: who was created after the sessions to watch were looked up, and who is gone since.
            watch.adopt(event)
        frame = stored_frame(event)
        if not watch.wants(frame):
            continue
        if frame.long_data:
            yield b"".join(parts)
            yield from frame.chunks()
            parts, size = [], 0
            continue
        parts.append(frame.sse)
        size += len(frame.sse)
        if size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _asked_cursor(request: Request) -> Cursor | None:
    """Where to begin; None is now. The header wins, because it is what a browser sends when it reconnects."""
    known = {"session", "after"}
    if unknown := set(request.query_params) - known:
        raise InvalidParams.of(sorted(unknown)[0], "unknown parameter; there are `session` and `after`")
    asked = request.headers.get("last-event-id") or request.query_params.get("after") or "now"
    if asked == "now":
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 18):
        raise InvalidParams.of("after", f"{asked[:40]!r} is no cursor: a number, or `now`")
    return Cursor(int(asked))


def _refusal(error: ProtocolError) -> Response:
    status = _STATUS.get(str(error.data.get("code")), 400)
    headers: Mapping[str, str] = {"retry-after": "1"} if status == 503 else {}
    body = {"error": {"code": error.code, "message": error.message, "data": error.data}}
    return JSONResponse(body, status_code=status, headers=dict(headers))

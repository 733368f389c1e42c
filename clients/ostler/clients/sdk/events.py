"""The event stream, which reconnects by itself: it goes on after its last cursor, without gap or duplicate."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Literal

import anyio
import httpx2
from pydantic import ValidationError

from ostler.clients.sdk.deltas import DeltaFilter
from ostler.clients.sdk.errors import ClientError, DaemonUnreachable, UnexpectedAnswer
from ostler.clients.sdk.http import build_http_error, map_http_errors, open_http
from ostler.clients.sdk.rpc import RpcConnection
from ostler.protocol import times
from ostler.protocol.backoff import Backoff
from ostler.protocol.errors import Overloaded, ProtocolError, ShuttingDown
from ostler.protocol.events import Event, StreamEnd
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.limits import SSE_COMMENT_SECONDS
from ostler.protocol.methods import SERVER_INFO, SESSION_GET
from ostler.protocol.session import SessionRef
from ostler.protocol.sse import Frame, SseParser
from ostler.protocol.wire import Nothing

StartCursor = Cursor | int | Literal["now"]
OnConnection = Callable[[Literal["lost", "back"]], None]
"""Called when the daemon cannot be reached any more, and when it is there again."""

_SILENCE_SECONDS: Final = 3.0 * SSE_COMMENT_SECONDS
"""A stream that says nothing for so long is dead, since a living one sends a comment."""
_BACKOFF: Final = Backoff(first_seconds=0.1, most_seconds=5.0)
_RETRY_STATUSES: Final = frozenset({429, 500, 502, 503, 504})


class EventStream:
    """Events as they happen. Iterate over it; as a context manager it is connected from the start of the block on."""

    def __init__(
        self,
        rpc: RpcConnection,
        session_ids: tuple[SessionId, ...],
        after: StartCursor,
        *,
        on_connection: OnConnection | None = None,
        patience_seconds: float | None = None,
    ) -> None:
        self.cursor: Cursor | None = None if after == "now" else Cursor(int(after))
        """The last stored event that was handed out: where another stream could go on."""
        self._rpc = rpc
        self._session_ids = session_ids
        self._after = self.cursor
        self._waiting: deque[Event] = deque()
        self._deltas = DeltaFilter()
        self._chunks: AsyncIterator[bytes] | None = None
        self._connection = AsyncExitStack()
        self._parser = SseParser()
        self._failures = 0
        self._database_id: str | None = None
        self._reset: StreamEnd | None = None
        self._reset_before = False
        self._closed = False
        self._on_connection = on_connection
        self._patience_seconds = patience_seconds
        self._lost_since: float | None = None

    async def __aenter__(self) -> "EventStream":
        while self._chunks is None:
            await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            await self._read()
        event = self._waiting.popleft()
        if event.cursor is not None:
            self.cursor = event.cursor
        return event

    async def aclose(self) -> None:
        """Close the connection; nothing more comes."""
        self._closed = True
        await self._disconnect()

    async def _read(self) -> None:
        if self._chunks is None:
            await self._connect()
            return
        try:
            chunk = await anext(self._chunks)
        except (StopAsyncIteration, httpx2.HTTPError, httpx2.StreamError):
            await self._disconnect()
            await self._back_off()
            return
        self._failures = 0
        try:
            await self._handle_frames(self._parser.feed(chunk))
        except ClientError:
            await self.aclose()
            raise

    async def _handle_frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            await self._handle_frame(frame)
            if self._chunks is None:
                return  # that one was the end of the stream

    async def _connect(self) -> None:
        try:
            await self._resolve_cursor()
            await self._open()
            self._report_back()
        except (DaemonUnreachable, ShuttingDown, Overloaded) as gone:
            await self._disconnect()
            await self._report_lost(gone)
            await self._back_off()
        except (ClientError, ProtocolError):
            await self.aclose()
            raise
        except BaseException:
            # Cancelled by whoever waits for the next event: they may well come back for it.
            await self._disconnect()
            raise

    async def _report_lost(self, why: ProtocolError | ClientError) -> None:
        now = anyio.current_time()
        if self._lost_since is None:
            self._lost_since = now
            if self._on_connection is not None:
                self._on_connection("lost")
        if self._patience_seconds is not None and now - self._lost_since >= self._patience_seconds:
            await self.aclose()
            raise why

    def _report_back(self) -> None:
        if self._lost_since is not None and self._on_connection is not None:
            self._on_connection("back")
        self._lost_since = None

    async def _resolve_cursor(self) -> None:
        """Find the cursor to go on from, which may not be the one that we were at."""
        if self._database_id is None:
            self._database_id = self._rpc.daemon.database_id
        elif self._database_id != await self._rpc.fetch_database_id():
            await self._start_over()
        if self._reset is not None:
            self._after = await self._find_reset_cursor(self._reset)
            self._reset, self._reset_before = None, True
        if self._after is None:
            # A number instead of `now`: whatever happens until a connection stands is then not missed.
            self._after = await self._fetch_log_end()

    async def _fetch_log_end(self) -> Cursor:
        return (await self._rpc.call(SERVER_INFO, Nothing())).cursor

    async def _open(self) -> None:
        address = await self._rpc.find()
        http = await self._connection.enter_async_context(open_http(address, read_seconds=_SILENCE_SECONDS))
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._after), **self._rpc.headers}
        request = http.build_request("GET", "/events", params=[("session", one) for one in self._session_ids])
        request.headers.update(headers)
        with map_http_errors(address):
            response = await http.send(request, stream=True)
            self._connection.push_async_callback(response.aclose)
            if response.status_code in _RETRY_STATUSES:
                raise DaemonUnreachable(f"The daemon at {address} answers HTTP {response.status_code}.")
            if response.status_code != 200:
                raise build_http_error(address, response.status_code, await response.aread())
        self._parser = SseParser()
        self._chunks = response.aiter_raw()

    async def _disconnect(self) -> None:
        self._chunks = None
        connection, self._connection = self._connection, AsyncExitStack()
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await connection.aclose()

    async def _back_off(self) -> None:
        self._failures += 1
        await anyio.sleep(_BACKOFF.compute_wait(self._failures))

    async def _handle_frame(self, frame: Frame) -> None:
        event = _parse_event(frame)
        if event.type == "stream.lagged":
            self._advance_cursor(_parse_stream_end(event).cursor)
            await self._disconnect()
        elif event.type == "stream.reset":
            self._reset = _parse_stream_end(event)
            self._waiting.append(event)
            await self._disconnect()
        else:
            self._accept(event)

    def _accept(self, event: Event) -> None:
        self._reset_before = False
        if event.cursor is not None:
            if self._after is not None and event.cursor <= self._after:
                return
            self._after = event.cursor
        unseen = self._deltas.drop_seen(event)
        if unseen is not None:
            self._waiting.append(unseen)

    def _advance_cursor(self, cursor: Cursor) -> None:
        self._after = cursor if self._after is None else max(self._after, cursor)

    async def _find_reset_cursor(self, end: StreamEnd) -> Cursor:
        """The cursor that fresh state belongs to: the reader fetches the state, the stream goes on from there."""
        # Twice in a row: the session's own cursor is not in the log any more, so the end of the log it is.
        if not self._session_ids or self._reset_before:
            return end.cursor
        states = [await self._rpc.call(SESSION_GET, SessionRef(session_id=one)) for one in self._session_ids]
        return min(state.cursor for state in states)

    async def _start_over(self) -> None:
        """The daemon has another database: a cursor of the old one would silently skip or repeat events."""
        self._after = await self._fetch_log_end()
        self._database_id = self._rpc.daemon.database_id
        self._deltas = DeltaFilter()
        self._reset = None
        self._waiting.append(_build_reset_event(self._after))


def _build_reset_event(cursor: Cursor) -> Event:
    end = StreamEnd(cursor=cursor, reason="The daemon has another database now; earlier cursors mean nothing.")
    return Event(
        cursor=None,
        after=cursor,
        session_id=None,
        root_id=None,
        time=times.now(),
        type="stream.reset",
        data=end.model_dump(),
    )


def _parse_event(frame: Frame) -> Event:
    try:
        return Event.model_validate_json(frame.data)
    except ValidationError as wrong:
        raise UnexpectedAnswer(f"The event stream carries a {frame.event!r} that is no event: {wrong}") from wrong


def _parse_stream_end(event: Event) -> StreamEnd:
    try:
        return StreamEnd.model_validate(event.data)
    except ValidationError as wrong:
        raise UnexpectedAnswer(f"The {event.type!r} of the event stream has no cursor: {wrong}") from wrong

"""`POST /rpc`: HTTP around the dispatcher."""

from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ostler.protocol.envelope import failure
from ostler.protocol.errors import ProtocolError
from ostler.protocol.limits import MAX_BODY_BYTES
from ostler.server.events.chunks import LongResponse
from ostler.server.rpc.dispatcher import Body, Caller, Dispatcher
from ostler.storage.sqlite.long_json import LONG_CHARS
from ostler.tools.threads import read_in_thread

_DISCARD_BYTES: Final = 4 * MAX_BODY_BYTES
_DISCARD_SECONDS: Final = 2.0


class _TooLarge(Exception):
    """The body is over the limit."""


class Gone(Exception):
    """The client left in the middle of its own request."""


class RpcTransport:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope), receive)
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request, receive: Receive) -> Response | None:
        if request.method != "POST":
            return Response(status_code=405, headers={"allow": "POST"})
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return Response(status_code=415)
        try:
            parts, size = await _body(request, receive)
        except _TooLarge:
            return Response(status_code=413, headers={"connection": "close"})
        except Gone:
            return None
        try:
            # What is long is read on a thread: whatever it holds, others wait meanwhile.
            body = self._read(parts) if size < LONG_CHARS else await read_in_thread(self._read, parts)
        except ProtocolError as error:
            return _json(failure(None, error))
        answer = await self._answer(body, request.headers.get("ostler-client"), receive)
        return Response(status_code=202) if answer is None else _json(answer)

    def _read(self, parts: list[bytes]) -> Body:
        return self._dispatcher.read(parts[0] if len(parts) == 1 else b"".join(parts))

    async def _answer(self, body: Body, client_id: str | None, receive: Receive) -> bytes | None:
        answer: bytes | None = None
        if not self._dispatcher.waits(body):
            return await self._dispatcher.answer(body, Caller(client_id))
        gone = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(_watch, receive, gone)
            answer = await self._dispatcher.answer(body, Caller(client_id, gone))
            group.cancel_scope.cancel()
        return answer


def _json(body: bytes) -> Response:
    kind = Response if len(body) < LONG_CHARS else LongResponse
    return kind(body, media_type="application/json")


async def _watch(receive: Receive, gone: anyio.Event) -> None:
    """Tell whoever waits that the connection has closed."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _body(request: Request, receive: Receive) -> tuple[list[bytes], int]:
    """All parts of the body, and its size, counted while it comes in; a promise to send too much is refused, too."""
    promised = request.headers.get("content-length", "0")
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        part, more = _part(await receive())
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES or int(promised) > MAX_BODY_BYTES:
            await _discard(receive, more)
            raise _TooLarge
    return parts, size


def _part(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise Gone
    return message.get("body", b""), message.get("more_body", False)


async def _discard(receive: Receive, more: bool) -> None:
    """Read on for a moment: a client that is still sending would miss the answer if the connection closed now."""
    discarded = 0
    with anyio.move_on_after(_DISCARD_SECONDS):
        while more and discarded < _DISCARD_BYTES:
            part, more = _part(await receive())
            discarded += len(part)

"""`POST /rpc`: reads the body of an HTTP request, gives it to the dispatcher, and sends the answer."""

from dataclasses import replace
from typing import Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from ostler.protocol.envelope import failure
from ostler.protocol.errors import ProtocolError
from ostler.protocol.limits import MAX_BODY_BYTES
from ostler.server.http.asgi import ChunkedResponse, Request, Response
from ostler.server.rpc.dispatcher import Body, Caller, Dispatcher
from ostler.storage.sqlite.long_json import LONG_CHARS
from ostler.tools.threads import read_in_thread

_WANTED_TYPE: Final = b"Wanted: `Content-Type: application/json`, with a JSON-RPC 2.0 request as the body.\n"
_DISCARD_BYTES: Final = 4 * MAX_BODY_BYTES
_DISCARD_SECONDS: Final = 2.0


class _TooLarge(Exception):
    """The body is over the limit."""


class ClientDisconnected(Exception):
    """The client left in the middle of its own request."""


class RpcEndpoint:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope), receive)
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request, receive: Receive) -> Response | None:
        if request.method != "POST":
            return Response(405, headers={"allow": "POST"})
        if (request.find_header("content-type") or "").split(";")[0].strip().lower() != "application/json":
            return Response(415, _WANTED_TYPE, media_type="text/plain; charset=utf-8")
        try:
            parts, size = await _receive_body(request, receive)
        except _TooLarge:
            return Response(413, headers={"connection": "close"})
        except ClientDisconnected:
            return None
        try:
            # A long body is parsed on a thread: on the event loop it would block all other requests.
            body = self._parse_body(parts) if size < LONG_CHARS else await read_in_thread(self._parse_body, parts)
        except ProtocolError as error:
            return _build_response(failure(None, error))
        caller = Caller(request.find_header("ostler-client"), request.is_on_socket)
        answer = await self._answer(body, caller, receive)
        return Response(202) if answer is None else _build_response(answer)

    def _parse_body(self, parts: list[bytes]) -> Body:
        return self._dispatcher.parse_body(parts[0] if len(parts) == 1 else b"".join(parts))

    async def _answer(self, body: Body, caller: Caller, receive: Receive) -> bytes | None:
        answer: bytes | None = None
        if not self._dispatcher.has_waiting_call(body):
            return await self._dispatcher.answer(body, caller)
        disconnected = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(_watch_connection, receive, disconnected)
            answer = await self._dispatcher.answer(body, replace(caller, disconnected=disconnected))
            group.cancel_scope.cancel()
        return answer


def _build_response(body: bytes) -> Response:
    kind = Response if len(body) < LONG_CHARS else ChunkedResponse
    return kind(200, body, media_type="application/json")


async def _watch_connection(receive: Receive, disconnected: anyio.Event) -> None:
    """Set `disconnected` when the connection closes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected.set()


async def _receive_body(request: Request, receive: Receive) -> tuple[list[bytes], int]:
    """All parts of the body, and its size, counted while it comes in; a too large `Content-Length` is refused too."""
    declared = request.find_header("content-length") or "0"
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        part, more = _read_part(await receive())
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES or int(declared) > MAX_BODY_BYTES:
            await _discard(receive, more)
            raise _TooLarge
    return parts, size


def _read_part(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)


async def _discard(receive: Receive, more: bool) -> None:
    """Read on for a moment: a client that is still sending would miss the answer if the connection closed now."""
    discarded = 0
    with anyio.move_on_after(_DISCARD_SECONDS):
        while more and discarded < _DISCARD_BYTES:
            part, more = _read_part(await receive())
            discarded += len(part)

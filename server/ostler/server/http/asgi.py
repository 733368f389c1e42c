"""Requests and responses of the paths that are used most, on plain ASGI.

starlette's own come with forms, cookies and templates of headers, and take 10 ms of the start to import. They serve the
other pages, which are loaded when somebody asks for one.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property
from typing import Final
from urllib.parse import parse_qsl

import anyio
from starlette.types import Receive, Scope, Send

from ostler.server.events.chunks import split_chunks

_STREAM_HEADERS: Final = {
    "cache-control": "no-store",
    "connection": "keep-alive",
    "x-accel-buffering": "no",  # nginx would hold events back
}
_CLEANUP_SECONDS: Final = 5
"""How long a stream may take to let go of what it holds, once its client has left."""


class Request:
    """What the head of a request says."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self._scope = scope

    def find_header(self, name: str) -> str | None:
        """The first of this name, which is written in small letters."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._scope["headers"] if key == wanted), None)

    @cached_property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(self._scope["query_string"].decode("latin-1"), keep_blank_values=True)

    @property
    def is_on_socket(self) -> bool:
        """Whether it came over the Unix socket."""
        return self._scope["state"].get("peer") is not None


class Response:
    """An answer that is there as a whole."""

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        *,
        media_type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._status = status
        self._body = body
        kind = {"content-type": media_type} if media_type else {}
        self._headers = {"content-length": str(len(body)), **kind, **(headers or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _send_head(send, self._status, self._headers)
        await send({"type": "http.response.body", "body": self._body})


class ChunkedResponse(Response):
    """A long one is sent in chunks: sending it at once would copy it twice."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _send_head(send, self._status, self._headers)
        for chunk in split_chunks(self._body):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)  # else nobody notices that the client has left
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream:
    """Server-sent events, encoded already, until they end or the client leaves."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
            await self._send(send)
            group.cancel_scope.cancel()

    async def _send(self, send: Send) -> None:
        try:
            await _send_head(send, 200, {"content-type": "text/event-stream; charset=utf-8", **_STREAM_HEADERS})
            async for chunk in self._events:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                await self._events.aclose()


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send_head(send: Send, status: int, headers: Mapping[str, str]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})

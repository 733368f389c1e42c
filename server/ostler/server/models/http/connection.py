"""One connection of HTTP/1.1: a request and its answer at a time."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast

import anyio

from ostler.server.models.http.errors import ConnectionBroken, SilenceTimeout
from ostler.server.models.http.response import Response

_WRITE_BYTES: Final = 2 * 1024 * 1024
"""The most that is written at once: the transport copies what it cannot send right away."""


class Connection(asyncio.Protocol):
    """Made by the event loop for each connection."""

    def __init__(self) -> None:
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    async def send(
        self,
        parts: Sequence[bytes],
        silence: float | None,
        release: Callable[[bool], None],
    ) -> Response:
        """Send a request; returns when the head of its answer is there. Raises OSError."""
        response = self._response = Response(self._pause_reading, release, silence)
        try:
            await self._write(parts, response, silence)
            await response.wait_for_head()
        except BaseException:
            response.close()
            raise
        return response

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Encrypt what follows, after a proxy has opened the way. Raises OSError."""
        assert self._transport is not None
        self._response = None
        made = await asyncio.get_running_loop().start_tls(self._transport, self, context, server_hostname=host)
        if made is None:
            raise ConnectionBroken("the connection was closed")
        self._transport = made

    def finish(self) -> None:
        """The answer was read; whatever comes now was not asked for."""
        self._response = None

    def leave(self) -> None:
        """Politely: what is still to be sent goes out first."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    async def wait_until_closed(self) -> None:
        await self._lost.wait()

    def close(self) -> None:
        """At once: nobody waits for what is still to be sent."""
        self.is_closed = True
        response, self._response = self._response, None
        if response is not None:
            response.fail(ConnectionBroken("the connection was closed"))
        if self._transport is not None:
            self._transport.abort()

    async def _write(self, parts: Sequence[bytes], response: Response, silence: float | None) -> None:
        transport = self._transport
        if transport is None or self.is_closed:
            raise ConnectionBroken("the connection was closed")
        for part in parts:
            for at in range(0, len(part), _WRITE_BYTES):
                if self.is_closed or response.has_begun:
                    # It was refused before its end, or answered without it: who asked reads why.
                    response.can_continue = False
                    return
                transport.write(memoryview(part)[at : at + _WRITE_BYTES] if len(part) > _WRITE_BYTES else part)
                if not self._writable.is_set():
                    await self._wait_until_writable(silence)

    async def _wait_until_writable(self, silence: float | None) -> None:
        try:
            with anyio.fail_after(silence):
                await self._writable.wait()
        except TimeoutError:
            raise SilenceTimeout from None

    def _pause_reading(self, paused: bool) -> None:
        if self._transport is None or self.is_closed or self._transport.is_closing():
            return
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.close()  # nobody asked for anything
            return
        self._response.feed(data)
        if self._response.has_begun:
            self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._lost.set()
        if self._response is not None:
            self._response.end(exc)
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

"""Connections to one origin, used again where they can be: straight to it, or through a proxy."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import anyio
import anyio.lowlevel

from ostler.server.models.http.address import Address
from ostler.server.models.http.connection import Connection
from ostler.server.models.http.errors import ConnectionBroken, ConnectTimeout, ProxyRefused, SilenceTimeout
from ostler.server.models.http.response import Response

_MAX_CONNECTIONS: Final = 1000
_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is kept while tools run: a new one costs a handshake in each request."""
_HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""After which the next address of a name is tried beside the first."""
_LEAVE_SECONDS: Final = 0.5
"""How long the other side may take to say good-bye, where it is encrypted."""
_JOINED_BYTES: Final = 128 * 1024
"""A short request leaves in one piece. A long one is written as it is: to put it together would take longer the longer
the conversation is."""


class HttpClient:
    """For one event loop, which it meets with the first request; it may be made on a thread."""

    def __init__(
        self,
        origin: Address,
        *,
        headers: Mapping[str, str],
        proxy: Address | None,
        tls: ssl.SSLContext | None,
        connect_seconds: float,
    ) -> None:
        """`tls` is needed where the origin or the proxy is encrypted. Raises ValueError for a header that is none."""
        self._origin = origin
        self._proxy = proxy
        self._tls = tls
        self._connect_seconds = connect_seconds
        greeting = proxy.build_credentials() if proxy else {}
        # Where nothing is encrypted it is the proxy itself that reads the request.
        own = greeting if proxy and not origin.is_encrypted else {}
        self._fields = _encode_fields({"host": origin.host_header, **headers, **own})
        self._connect_fields = _encode_fields({"host": origin.authority, **greeting})
        self._idle: list[tuple[Connection, asyncio.TimerHandle]] = []
        self._in_use: set[Connection] = set()
        self._free = anyio.Semaphore(_MAX_CONNECTIONS, fast_acquire=True)
        self._is_closed = False

    async def request(
        self,
        method: str,
        address: Address,
        body: Sequence[bytes] = (),
        *,
        silence: float | None,
        ready: Callable[[], Awaitable[None]] | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Response:
        """Send a request, as soon as `ready` returns: all else is done by then. Returns when the answer has begun.

        `silence` is how long nothing may come before and in the middle of the answer. Raises OSError, and what
        `ready` raises.
        """
        size = sum(map(len, body))
        head = self._encode_head(method, address, size, headers)
        parts = [head + b"".join(body)] if size < _JOINED_BYTES else [head, *body]
        await self._wait_for_place(silence)
        connection = None
        try:
            connection = await self._take_connection()
            if ready is not None:
                await ready()
                if connection.is_closed:  # it was an old one, and the disk took its time
                    connection = await self._take_connection()
        except BaseException:
            self._give_back(connection, reusable=True)
            raise
        taken = connection
        return await taken.send(parts, silence, lambda reusable: self._give_back(taken, reusable=reusable))

    async def close(self) -> None:
        """Let go of all connections: of those that nobody uses with a word to the other side."""
        self._is_closed = True
        idle = [connection for connection, _ in self._idle]
        for connection, timer in self._idle:
            timer.cancel()
            connection.leave()
        self._idle.clear()
        with anyio.move_on_after(_LEAVE_SECONDS):
            for connection in idle:
                await connection.wait_until_closed()
        for connection in (*idle, *self._in_use):
            connection.close()
        await anyio.lowlevel.checkpoint()  # in which the event loop closes the sockets

    def _encode_head(self, method: str, address: Address, size: int, headers: Mapping[str, str]) -> bytes:
        # A proxy that reads the request is told the whole address.
        place = address.origin if self._proxy and not address.is_encrypted else ""
        length = f"content-length: {size}\r\n" if method == "POST" else ""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {place}{address.target} HTTP/1.1\r\n{length}{more}".encode() + self._fields + b"\r\n"

    async def _wait_for_place(self, seconds: float | None) -> None:
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            try:
                with anyio.fail_after(seconds):
                    await self._free.acquire()
            except TimeoutError:
                raise SilenceTimeout from None

    async def _take_connection(self) -> Connection:
        while self._idle:
            connection, timer = self._idle.pop()
            timer.cancel()
            if not connection.is_closed:
                self._in_use.add(connection)
                return connection
        connection = await self._connect()
        self._in_use.add(connection)
        return connection

    def _give_back(self, connection: Connection | None, *, reusable: bool) -> None:
        self._free.release()
        if connection is None:
            return
        self._in_use.discard(connection)
        if not reusable or connection.is_closed or self._is_closed:
            connection.close()
            return
        connection.finish()
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.call_later(_KEEP_ALIVE_SECONDS, self._close_idle, connection)))

    def _close_idle(self, connection: Connection) -> None:
        self._idle = [kept for kept in self._idle if kept[0] is not connection]
        connection.leave()

    async def _connect(self) -> Connection:
        if self._is_closed:
            raise ConnectionBroken("the client is closed")
        connection = Connection()
        try:
            with anyio.fail_after(self._connect_seconds):
                await self._open(connection)
        except TimeoutError as error:
            connection.close()
            raise ConnectTimeout from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open(self, connection: Connection) -> None:
        nearest = self._proxy or self._origin
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            nearest.host,
            nearest.port,
            ssl=self._tls if nearest.is_encrypted else None,
            happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS,
        )
        if self._proxy is not None and self._origin.is_encrypted:
            await self._open_tunnel(connection)

    async def _open_tunnel(self, connection: Connection) -> None:
        """The proxy passes on what it cannot read: it sees neither the key nor the request."""
        assert self._tls is not None  # as the constructor says
        head = f"CONNECT {self._origin.authority} HTTP/1.1\r\n".encode() + self._connect_fields + b"\r\n"
        answer = await connection.send([head], None, lambda reusable: None)
        if not 200 <= answer.status < 300:
            raise ProxyRefused(f"the proxy answered {answer.status}")
        await connection.start_tls(self._tls, self._origin.host)


def _encode_fields(headers: Mapping[str, str]) -> bytes:
    for name, value in headers.items():
        if any(mark in name + value for mark in "\r\n\0"):
            raise ValueError(f"the header {name!r} has a line break in it")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()

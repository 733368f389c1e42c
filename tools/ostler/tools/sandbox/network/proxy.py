"""The sandbox's HTTP proxy: on the host, it checks a request's host name, resolves it, checks the address and dials it.

It listens on a socket in a folder of its own, which is bound into the sandbox. CONNECT makes a tunnel; a request with a
whole URL is sent on, once. What flows through a tunnel is not looked at: whoever owns an allowed host sees it.
"""

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from ostler.tools.sandbox.network.allowlist import HostAllowlist, is_public, normalize_host, parse_address

_MAX_HEAD: Final = 64 * 1024
_MAX_CONNECTIONS: Final = 64
_HEAD_SECONDS: Final = 30.0
_DIAL_SECONDS: Final = 20.0
_IDLE_SECONDS: Final = 600.0
_LAST_SECONDS: Final = 1.0
_DROPPED: Final = frozenset({b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive"})


class _Refused(Exception):
    """Refuses a request: the status and message that the client gets."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Request:
    host: str
    port: int
    head: bytes
    """What the server gets before anything else: nothing in a tunnel."""
    tunnel: bool


class Proxy:
    """Open within `async with`; its `path` belongs into the profile."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = HostAllowlist(hosts)
        self._slots = anyio.Semaphore(_MAX_CONNECTIONS)
        self._tasks: TaskGroup | None = None
        self._folder = ""
        self.path = ""

    async def __aenter__(self) -> Self:
        self._folder = await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "ostler-proxy-")
        self.path = os.path.join(self._folder, "proxy.sock")
        try:
            listener = await anyio.create_unix_listener(self.path, mode=0o600)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._listen, listener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        try:
            # What was raised in the body is not the task group's own, and goes on as it is.
            await self._tasks.__aexit__(None, None, None)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _listen(self, listener: Listener[SocketStream]) -> None:
        async with listener:
            await listener.serve(self._serve)

    async def _serve(self, client: SocketStream) -> None:
        # A client that goes away, or a server that does, is nobody's fault here.
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            async with client, self._slots:
                try:
                    await self._handle_request(client)
                except _Refused as refused:
                    await client.send(_format_response(refused.status, f"{refused}\n".encode()))

    async def _handle_request(self, client: SocketStream) -> None:
        incoming = BufferedByteReceiveStream(client)
        request = await _read_request(incoming)
        if not self._hosts.allows(request.host):
            raise _Refused("403 Forbidden", f"{request.host} is not among the hosts that this command may reach.")
        async with await self._dial(request) as server:
            if request.tunnel:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await server.send(request.head + incoming.buffer)
            await _relay(client, server)

    async def _dial(self, request: _Request) -> SocketStream:
        """The address that is checked is the address that is dialled: a second look-up could answer otherwise."""
        for address in await _resolve_addresses(request.host, request.port):
            with contextlib.suppress(OSError, TimeoutError), anyio.fail_after(_DIAL_SECONDS):
                return await anyio.connect_tcp(address, request.port)
        raise _Refused("502 Bad Gateway", f"{request.host} cannot be reached.")


async def _resolve_addresses(host: str, port: int) -> list[str]:
    written = parse_address(host)
    if written is not None:
        # Somebody wrote this very address into the list.
        return [str(written)]
    found = None
    with contextlib.suppress(OSError, UnicodeError), anyio.move_on_after(_DIAL_SECONDS):
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not found:
        raise _Refused("502 Bad Gateway", f"{host} cannot be resolved.")
    texts = dict.fromkeys(str(entry[4][0]) for entry in found)
    public = [text for text in texts if (address := parse_address(text)) is not None and is_public(address)]
    if not public:
        raise _Refused("403 Forbidden", f"{host} leads to an address that is not public.")
    return public


async def _read_request(incoming: BufferedByteReceiveStream) -> _Request:
    try:
        with anyio.fail_after(_HEAD_SECONDS):
            head = await incoming.receive_until(b"\r\n\r\n", _MAX_HEAD)
    except TimeoutError:
        raise _Refused("408 Request Timeout", "The request took too long.") from None
    except (anyio.DelimiterNotFound, anyio.IncompleteRead):
        raise _Refused("400 Bad Request", "This is not an HTTP request.") from None
    line, *fields = head.split(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        # Other control characters would let one reader see two lines where another sees one.
        if not version.startswith("HTTP/1.") or any(
            byte < 32 and byte != 9 for each in (line, *fields) for byte in each
        ):
            raise ValueError
        return _parse_tunnel(target) if method == "CONNECT" else _parse_forward(method, target, fields)
    except ValueError:
        raise _Refused("400 Bad Request", "The proxy takes CONNECT host:port and whole http:// URLs.") from None


def _parse_tunnel(target: str) -> _Request:
    host, _, port = target.rpartition(":")
    return _Request(_parse_host(host), _parse_port(port), b"", tunnel=True)


def _parse_forward(method: str, target: str, fields: list[bytes]) -> _Request:
    url = urlsplit(target)
    if url.scheme != "http" or url.hostname is None or url.username is not None or not method.isalpha():
        raise ValueError
    host, port = _parse_host(url.hostname), 80 if url.port is None else url.port
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    # The name that was checked is the name that the server is told; one request, so that no other name follows.
    host_field = f"[{host}]" if ":" in host else host
    lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {host_field}:{port}".encode(), b"Connection: close"]
    lines += [field for field in fields if field.split(b":")[0].strip().lower() not in _DROPPED]
    return _Request(host, _parse_port(str(port)), b"\r\n".join(lines) + b"\r\n\r\n", tunnel=False)


def _parse_host(host: str) -> str:
    name = normalize_host(host)
    if name is None:
        raise ValueError
    return name


def _parse_port(port: str) -> int:
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError
    return int(port)


def _format_response(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _relay(client: SocketStream, server: SocketStream) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_copy, client, server)
        await _copy(server, client)
        # Whatever the client still says, nobody answers it. The stream ends, and with it who reads from it: a reader
        # that is cancelled in the moment in which something comes would fail on the event loop.
        with contextlib.suppress(OSError):
            client.extra(SocketAttribute.raw_socket).shutdown(socket.SHUT_RD)  # noqa: S610 - it is not Django's
        group.cancel_scope.deadline = anyio.current_time() + _LAST_SECONDS


async def _copy(reader: ByteStream, writer: ByteStream) -> None:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
        while True:
            with anyio.fail_after(_IDLE_SECONDS):
                data = await reader.receive()
            await writer.send(data)
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await writer.send_eof()

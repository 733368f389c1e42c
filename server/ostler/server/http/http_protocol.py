"""uvicorn's HTTP protocol with the limits that it lacks, and with the peer of a Unix socket.

httptools parses whatever comes for as long as it comes: without these a stranger could hold connections open by
sending a byte a minute, or fill the memory with one header.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

from ostler.server.http.access import Peer
from ostler.server.http.uvicorn_parts import HttpToolsProtocol


@dataclass(frozen=True, slots=True)
class HttpLimits:
    connections: int
    header_bytes: int
    header_seconds: float
    body_seconds: float


class LimitedProtocol(HttpToolsProtocol):
    """Made by uvicorn for each connection; `bind_limits` binds the limits."""

    limits: ClassVar[HttpLimits]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._peer: Peer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._field_bytes = 0
        self._in_headers = True
        self._in_message = False
        self._last_data = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = _read_peer(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_send_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._last_data = self.loop.time()
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > self.limits.header_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._timer is None and self._is_between_requests():
            # Bytes that begin no request, like a blank line: uvicorn has cancelled its own keep-alive timer for them.
            self._wait_for_headers()

    def _is_between_requests(self) -> bool:
        return not self._in_message and (self.cycle is None or self.cycle.response_complete)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope.setdefault("state", {})["peer"] = self._peer
        self._in_headers = self._in_message = True
        self._field_bytes = 0
        self._wait_for_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come this way too, after the headers and for as long as a client likes to send them.
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > self.limits.header_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._header_bytes = 0
        self._stop_timer()
        if self._field_bytes > self.limits.header_bytes:
            return  # refused by now
        super().on_headers_complete()
        self._timer = self.loop.call_later(self.limits.body_seconds, self._check_body_timeout)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._in_message = False
        # Without a cycle the request was refused before it began.
        if self.cycle is not None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._header_bytes = 0
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_send_timer()

    def resume_writing(self) -> None:
        self._stop_send_timer()
        super().resume_writing()

    def _start_send_timer(self) -> None:
        """A client that reads nothing for `body_seconds` counts as gone, even if its connection is open."""
        left = self.transport.get_write_buffer_size()
        self._send_timer = self.loop.call_later(self.limits.body_seconds, self._check_send_progress, left)

    def _check_send_progress(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._start_send_timer()
        else:
            # Aborted, not closed: closing would wait for the client to read the rest.
            self.transport.abort()

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _wait_for_headers(self) -> None:
        """Start the header timeout: from connecting to the first byte, and from there to the end of the headers."""
        self._stop_timer()
        self._timer = self.loop.call_later(self.limits.header_seconds, self._refuse, b"408 Request Timeout")

    def _check_body_timeout(self) -> None:
        silent = self.loop.time() - self._last_data
        if self.flow.read_paused:
            silent = 0.0  # we paused reading ourselves
        if silent < self.limits.body_seconds:
            self._timer = self.loop.call_later(self.limits.body_seconds - silent, self._check_body_timeout)
        else:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        # Without uvicorn's own words, which tell a stranger what runs here.
        self._refuse(b"400 Bad Request")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()


def bind_limits(limits: HttpLimits) -> type[LimitedProtocol]:
    return type("BoundProtocol", (LimitedProtocol,), {"limits": limits})


def _read_peer(transport: asyncio.Transport) -> Peer | None:
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return None
    if not hasattr(socket, "SO_PEERCRED"):
        return Peer(pid=0, uid=-1)  # on the socket, but nobody that we know: the token decides
    pid, uid, _ = struct.unpack("3i", found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return Peer(pid, uid)

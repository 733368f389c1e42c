"""HTTP clients on plain sockets that do only what the measures need, so that they use little processor time."""

import json
import socket
from typing import Any, Final

EVENT_MARKER: Final = b"\nevent: "
"""Stands once in every event, and in no comment."""

_HEADERS: Final = "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"


def build_call_request(port: int, token: str, method: str, **params: Any) -> bytes:
    """A whole JSON-RPC request."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    head = f"POST /rpc HTTP/1.1\r\n{_HEADERS}Content-Type: application/json\r\nContent-Length: {{length}}\r\n\r\n"
    return head.format(port=port, token=token, length=len(body)).encode() + body


def build_events_request(port: int, token: str, query: str = "") -> bytes:
    """A whole request for the event stream."""
    return f"GET /events{query} HTTP/1.1\r\n{_HEADERS}\r\n".format(port=port, token=token).encode()


def parse_answer_length(data: bytes | bytearray) -> int | None:
    """The length of the answer that `data` begins with, headers included; None until the headers are complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    start = data.find(b"content-length: ", 0, end)
    length = int(data[start + 16 : data.find(b"\r\n", start)])
    return end + 4 + length


class Caller:
    """One keep-alive connection, one call at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def read_answer(self) -> bytes:
        """The whole answer, headers included; anything but a result is a failure."""
        data = bytearray()
        while (length := parse_answer_length(data)) is None or len(data) < length:
            data += _receive(self._socket)
        if b'"result"' not in data:
            raise RuntimeError(f"not a result: {bytes(data[-500:])!r}")
        return bytes(data)

    def call(self, request: bytes) -> bytes:
        self.send(request)
        return self.read_answer()

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class Follower:
    """One open event stream: its first comment has come."""

    def __init__(self, port: int, request: bytes, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(30)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(request)
        self._data = bytearray()
        head = self._read_frame()
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"no event stream: {head!r}")

    def read_event(self) -> bytes:
        """The next event as it came, comments left out."""
        while EVENT_MARKER not in b"\n" + (frame := self._read_frame()):
            pass
        return frame

    def _read_frame(self) -> bytes:
        while (end := self._data.find(b"\n\n")) < 0:
            self._data += _receive(self._socket)
        frame = bytes(self._data[: end + 2])
        del self._data[: end + 2]
        return frame

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _receive(source: socket.socket) -> bytes:
    data = source.recv(262_144)
    if not data:
        raise RuntimeError("the connection was closed")
    return data

"""A process with many readers of the event stream, which only count the events and bytes that they receive."""

import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

from tests.bench.wire import EVENT_MARKER

_BUFFER_BYTES: Final = 262_144
_READ_TIMEOUT_SECONDS: Final = 30.0
_OVERLAP_BYTES: Final = len(EVENT_MARKER) - 1


@dataclass(slots=True)
class _Reader:
    socket: socket.socket
    wanted: int
    events: int = 0
    received: int = 0
    tail: bytes = b"\n"

    def receive(self, buffer: bytearray) -> None:
        size = self.socket.recv_into(buffer)
        if not size:
            raise RuntimeError(f"a reader was cut after {self.events} of {self.wanted} events")
        self.received += size
        # A marker may lie across two pieces: then it is in the end of one and the beginning of the next together.
        overlap = self.tail + bytes(buffer[: min(size, _OVERLAP_BYTES)])
        self.events += buffer.count(EVENT_MARKER, 0, size) + overlap.count(EVENT_MARKER)
        self.tail = (self.tail + bytes(buffer[max(0, size - _OVERLAP_BYTES) : size]))[-_OVERLAP_BYTES:]


def _open_reader(port: int, request: bytes, wanted: int) -> _Reader:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_READ_TIMEOUT_SECONDS)
    connection.sendall(request)
    head = b""
    while not head.endswith(b"\n\n"):
        byte = connection.recv(1)  # byte by byte, so that nothing of the first event is read with it
        if not byte:
            raise RuntimeError(f"no event stream: {head!r}")
        head += byte
    connection.setblocking(False)
    return _Reader(connection, wanted)


def _read_all(readers: list[_Reader]) -> float:
    """Read until every reader has all its events; returns the time when the last one had them."""
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    buffer = bytearray(_BUFFER_BYTES)
    left = len(readers)
    while left:
        ready = selector.select(_READ_TIMEOUT_SECONDS)
        if not ready:
            raise RuntimeError("nothing came for a long time")
        for key, _ in ready:
            found: _Reader = key.data
            found.receive(buffer)
            if found.events >= found.wanted:
                selector.unregister(found.socket)
                left -= 1
    return time.monotonic()


def main() -> None:
    order = json.loads(sys.stdin.readline())
    began = time.monotonic()
    readers = [_open_reader(order["port"], order["request"].encode(), order["events"]) for _ in range(order["readers"])]
    sys.stdout.write(json.dumps({"began": began}) + "\n")
    sys.stdout.flush()
    ended = _read_all(readers)
    sys.stdout.write(json.dumps({"ended": ended, "bytes": sum(reader.received for reader in readers)}) + "\n")


if __name__ == "__main__":
    main()

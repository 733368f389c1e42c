"""A process with many readers of the event stream that only count what comes."""

import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

from tests.bench.wire import EVENT

_BUFFER: Final = 262_144
_SILENCE_SECONDS: Final = 30.0
_EDGE: Final = len(EVENT) - 1


@dataclass(slots=True)
class _Reader:
    socket: socket.socket
    wanted: int
    events: int = 0
    received: int = 0
    tail: bytes = b"\n"

    def take(self, buffer: bytearray) -> None:
        size = self.socket.recv_into(buffer)
        if not size:
            raise RuntimeError(f"a reader was cut after {self.events} of {self.wanted} events")
        self.received += size
        # A marker may lie across the edge of two pieces: then it is in their ends together, and in neither alone.
        edge = self.tail + bytes(buffer[: min(size, _EDGE)])
        self.events += buffer.count(EVENT, 0, size) + edge.count(EVENT)
        self.tail = (self.tail + bytes(buffer[max(0, size - _EDGE) : size]))[-_EDGE:]


def _open(port: int, request: bytes, wanted: int) -> _Reader:
    opened = socket.create_connection(("127.0.0.1", port), timeout=_SILENCE_SECONDS)
    opened.sendall(request)
    head = b""
    while not head.endswith(b"\n\n"):
        byte = opened.recv(1)  # one by one, so that nothing of the first event is taken with it
        if not byte:
            raise RuntimeError(f"no event stream: {head!r}")
        head += byte
    opened.setblocking(False)
    return _Reader(opened, wanted)


def _count(readers: list[_Reader]) -> float:
    """Read until everybody has everything; the moment when the last one had it."""
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    buffer = bytearray(_BUFFER)
    left = len(readers)
    while left:
        ready = selector.select(_SILENCE_SECONDS)
        if not ready:
            raise RuntimeError("nothing came for a long time")
        for key, _ in ready:
            found: _Reader = key.data
            found.take(buffer)
            if found.events >= found.wanted:
                selector.unregister(found.socket)
                left -= 1
    return time.monotonic()


def main() -> None:
    order = json.loads(sys.stdin.readline())
    began = time.monotonic()
    readers = [_open(order["port"], order["request"].encode(), order["events"]) for _ in range(order["readers"])]
    sys.stdout.write(json.dumps({"began": began}) + "\n")
    sys.stdout.flush()
    ended = _count(readers)
    sys.stdout.write(json.dumps({"ended": ended, "bytes": sum(reader.received for reader in readers)}) + "\n")


if __name__ == "__main__":
    main()

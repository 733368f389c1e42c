"""A process that asks a server for the same small thing again and again, and tells how late the answers were."""

import json
import select
import socket
import sys
import time
from typing import Any, Final

from tests.bench.wire import answer_length

_EVERY_SECONDS: Final = 0.003


def _asked(connection: socket.socket, request: bytes) -> float:
    began = time.perf_counter()
    connection.sendall(request)
    data = b""
    while (length := answer_length(data)) is None or len(data) < length:
        piece = connection.recv(65_536)
        if not piece:
            raise RuntimeError("the connection was closed")
        data += piece
    return (time.perf_counter() - began) * 1000


def main() -> None:
    order = json.loads(sys.stdin.readline())
    connection = socket.create_connection(("127.0.0.1", order["port"]), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = order["request"].encode()
    _asked(connection, request)
    _write({})
    found: list[float] = []
    # The next line, or the end of the orders, ends it.
    while not select.select([sys.stdin], [], [], _EVERY_SECONDS)[0]:
        found.append(_asked(connection, request))
    _write({"milliseconds": found})


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""A process that sends a server the same small request again and again, and reports how long each answer took."""

import json
import select
import socket
import sys
import time
from typing import Any, Final

from tests.bench.wire import parse_answer_length

_INTERVAL_SECONDS: Final = 0.003


def _time_request(connection: socket.socket, request: bytes) -> float:
    began = time.perf_counter()
    connection.sendall(request)
    data = b""
    while (length := parse_answer_length(data)) is None or len(data) < length:
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
    _time_request(connection, request)
    _write({})
    samples: list[float] = []
    # The next order, or the end of standard input, ends it.
    while not select.select([sys.stdin], [], [], _INTERVAL_SECONDS)[0]:
        samples.append(_time_request(connection, request))
    _write({"milliseconds": samples})


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

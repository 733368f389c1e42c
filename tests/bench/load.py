"""A process that makes one call again and again over several connections."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

from tests.bench.wire import parse_answer_length


@dataclass(slots=True)
class _Count:
    """The answers to all connections together since the warm-up."""

    answers: int = 0
    milliseconds: list[float] = field(default_factory=list)
    failure: bytes | None = None


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is whole."""

    def __init__(self, request: bytes, count: _Count) -> None:
        self._request = request
        self._count = count
        self._data = b""
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._data += data
        length = parse_answer_length(self._data)
        if length is None or len(self._data) < length:
            return
        if b'"result"' not in self._data:
            self._count.failure = self._data
        self._data = b""
        self._count.answers += 1
        self._count.milliseconds.append((time.perf_counter() - self._sent) * 1000)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._count.failure = self._count.failure or b"the connection was closed"

    def _send(self) -> None:
        assert self._transport is not None
        self._sent = time.perf_counter()
        self._transport.write(self._request)


async def _run(port: int, request: bytes, connections: int, seconds: float) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    count = _Count()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(request, count), "127.0.0.1", port)
    await asyncio.sleep(seconds / 8)
    warm_up, count.answers, count.milliseconds = count.answers, 0, []
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - began
    if count.failure is not None:
        raise RuntimeError(f"a call failed: {count.failure[-500:]!r}")
    return {
        "warm_up": warm_up,
        "answers": count.answers,
        "seconds": took,
        "milliseconds": count.milliseconds,
    }


def main() -> None:
    order = json.loads(sys.stdin.readline())
    result = asyncio.run(_run(order["port"], order["request"].encode(), order["connections"], order["seconds"]))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

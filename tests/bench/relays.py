"""Measures the time from the model's sending a delta to its arrival at a reader."""

import json
import re
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Final

from tests.bench.histories import MODEL
from tests.bench.model import LATER_DELTAS
from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.bench.turns import create_session, run_daemon_with_model, run_scripted_model
from tests.bench.wire import Caller, Follower, build_call_request, build_events_request
from tests.support.daemon import Daemon

OVER_FLOOR_MS: Final = 0.5
_CLOCK: Final = re.compile(rb'"text":"(\d+) "')


@dataclass(frozen=True, slots=True)
class _Delays:
    """Milliseconds from the model to the reader."""

    first: list[float] = field(default_factory=list)
    """Of each message's first delta."""
    later: list[float] = field(default_factory=list)

    def add(self, clocks: list[bytes], received_at: int, count: int) -> int:
        """Add deltas that came together; `count` and the result are how many of the message came before and by now."""
        for clock in clocks:
            (self.later if count else self.first).append((received_at - int(clock)) / 1e6)
            count += 1
        return count


def measure_relay(bench: Bench) -> list[Row]:
    ours, bare = _Delays(), _Delays()
    with run_scripted_model(bench) as model:
        port = int(model.first_answer["url"].rsplit(":", 1)[1])
        with (
            run_daemon_with_model(bench, bench.homes.create_empty(), model) as daemon,
            bench.start_child("proxy", {"port": port}) as proxy,
        ):
            session_id = create_session(daemon, bench)
            _measure_daemon(daemon, session_id, ours, bench.sizes.relays)
            _measure_proxy(proxy.first_answer["port"], bare, bench.sizes.relays)
    return [*_build_rows("first delta", ours.first, bare.first), *_build_rows("later deltas", ours.later, bare.later)]


def _build_rows(name: str, ours: list[float], bare: list[float]) -> list[Row]:
    floor = median(bare)
    p99, p99_floor = (quantiles(each, n=100)[-1] if len(each) > 1 else each[0] for each in (ours, bare))
    return [
        Row(f"relay of the {name}, median", "ms", median(ours), floor, floor + OVER_FLOOR_MS, samples=ours),
        Row(f"relay of the {name}, 99th percentile", "ms", p99, p99_floor),
    ]


def _measure_daemon(daemon: Daemon, session_id: str, delays: _Delays, messages: int) -> None:
    """A turn for each message, read on the daemon's event stream."""
    request = build_call_request(daemon.port, daemon.token, "turn/start", session_id=session_id, input="[clocks] speak")
    stream = build_events_request(daemon.port, daemon.token, f"?session={session_id}")
    with Caller(daemon.port) as caller, Follower(daemon.port, stream) as follower:
        for _ in range(messages):
            caller.send(request)
            count = 0
            while b"event: turn.ended" not in (event := follower.read_event()):
                if b"event: message.delta" in event:
                    count = delays.add(_CLOCK.findall(event), time.monotonic_ns(), count)
            caller.read_answer()
            _check_complete(count)
            # The session becomes idle a little later, with an event of its own.
            while b'"status":"idle"' not in follower.read_event():
                pass


def _measure_proxy(port: int, delays: _Delays, messages: int) -> None:
    """The same messages through the bare proxy."""
    request = {
        "model": MODEL,
        "max_tokens": 1,
        "stream": True,
        "messages": [{"role": "user", "content": "[clocks] speak"}],
    }
    body = json.dumps(request).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        for _ in range(messages):
            connection.sendall(head + body)
            data, count = b"", 0
            while not data.endswith(b"\r\n0\r\n\r\n"):
                data += connection.recv(65_536)
                clocks = _CLOCK.findall(data)
                count = delays.add(clocks[count:], time.monotonic_ns(), count)
            _check_complete(count)


def _check_complete(count: int) -> None:
    if count != LATER_DELTAS + 1:
        raise RuntimeError(f"{count} deltas came")

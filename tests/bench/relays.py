"""From the model's sending a delta to a reader's having it."""

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
from tests.bench.turns import daemon_with_model, new_session, scripted_model
from tests.bench.wire import Caller, Follower, get_events, post
from tests.support.daemon import Daemon

OVER_FLOOR_MS: Final = 0.5
_CLOCK: Final = re.compile(rb'"text":"(\d+) "')


@dataclass(frozen=True, slots=True)
class _Delays:
    """Milliseconds from the model to the reader."""

    first: list[float] = field(default_factory=list)
    """Of each message's first delta."""
    later: list[float] = field(default_factory=list)

    def see(self, sent: list[bytes], came: int, seen: int) -> int:
        """Count deltas that came together; returns how many of the message have come by now."""
        for clock in sent:
            (self.later if seen else self.first).append((came - int(clock)) / 1e6)
            seen += 1
        return seen


def relay(bench: Bench) -> list[Row]:
    ours, bare = _Delays(), _Delays()
    with scripted_model(bench) as model:
        port = int(model.first["url"].rsplit(":", 1)[1])
        with daemon_with_model(bench, bench.homes.empty(), model) as daemon, bench.child("proxy", {"port": port}) as by:
            session_id = new_session(daemon, bench)
            _follow(daemon, session_id, ours, bench.sizes.relays)
            _read_through(by.first["port"], bare, bench.sizes.relays)
    return [*_rows("first delta", ours.first, bare.first), *_rows("later deltas", ours.later, bare.later)]


def _rows(name: str, ours: list[float], bare: list[float]) -> list[Row]:
    floor = median(bare)
    late, late_floor = (quantiles(each, n=100)[-1] if len(each) > 1 else each[0] for each in (ours, bare))
    return [
        Row(f"relay of the {name}, median", "ms", median(ours), floor, floor + OVER_FLOOR_MS, samples=ours),
        Row(f"relay of the {name}, 99th percentile", "ms", late, late_floor),
    ]


def _follow(daemon: Daemon, session_id: str, delays: _Delays, messages: int) -> None:
    """A turn for each message, read on the daemon's event stream."""
    request = post(daemon.port, daemon.token, "turn/start", session_id=session_id, input="[clocks] speak")
    stream = get_events(daemon.port, daemon.token, f"?session={session_id}")
    with Caller(daemon.port) as caller, Follower(daemon.port, stream) as follower:
        for _ in range(messages):
            caller.send(request)
            seen = 0
            while b"event: turn.ended" not in (event := follower.next_event()):
                if b"event: message.delta" in event:
                    seen = delays.see(_CLOCK.findall(event), time.monotonic_ns(), seen)
            caller.answer()
            _whole(seen)
            # The session counts as idle a moment later, with an event of its own.
            while b'"status":"idle"' not in follower.next_event():
                pass


def _read_through(port: int, delays: _Delays, messages: int) -> None:
    """The same messages through the bare proxy."""
    told = {
        "model": MODEL,
        "max_tokens": 1,
        "stream": True,
        "messages": [{"role": "user", "content": "[clocks] speak"}],
    }
    body = json.dumps(told).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        for _ in range(messages):
            connection.sendall(head + body)
            data, seen = b"", 0
            while not data.endswith(b"\r\n0\r\n\r\n"):
                data += connection.recv(65_536)
                clocks = _CLOCK.findall(data)
                seen = delays.see(clocks[seen:], time.monotonic_ns(), seen)
            _whole(seen)


def _whole(seen: int) -> None:
    if seen != LATER_DELTAS + 1:
        raise RuntimeError(f"{seen} deltas came")

"""From sending a change to a reader's having heard of it; also while other readers do not read."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from tests.bench.processes import Bench, rss_mb
from tests.bench.table import Row
from tests.bench.wire import Caller, Follower, get_events, post
from tests.support.daemon import Daemon

STOPPED_MB: Final = 5.0
NOISE: Final = 1.25
"""How far two medians of the same thing lie apart on a machine that is shared."""
_SECONDS: Final = 15.0
"""A run ends after this, also when it has not made all its changes."""
_LOOKS: Final = 40
"""How often memory is looked at in a run."""


@dataclass(frozen=True, slots=True)
class _Run:
    milliseconds: list[float]
    growth_mb: float
    """The most memory that there was, less what there was before."""

    @property
    def late_ms(self) -> float:
        return quantiles(self.milliseconds, n=100)[-1]


def deliver(bench: Bench) -> list[Row]:
    with bench.settled_daemon(bench.homes.empty()) as daemon:
        changes = itertools.cycle(_updates(daemon, _session(daemon, bench), "Feed the gelding"))
        with Caller(daemon.port) as caller, Follower(daemon.port, _stream(daemon)) as follower:
            answer = caller.call(request := next(changes))
            event = follower.next_event()
        ours = _timed(daemon.pid, daemon.port, changes, _stream(daemon), bench.sizes.deliveries)
    order = {
        "request_bytes": len(request),
        "answer_bytes": len(answer),
        "event_bytes": len(event),
        "record_bytes": len(event),
        "folder": str(bench.folder),
    }
    with bench.child("floors", order) as floor:
        bare = _timed(floor.pid, floor.first["port"], changes, get_events(0, ""), bench.sizes.deliveries)
    return [
        Row("append to delivery, median", "ms", median(ours.milliseconds), median(bare.milliseconds)),
        Row("append to delivery, 99th percentile", "ms", ours.late_ms, bare.late_ms),
    ]


def stop_reading(bench: Bench) -> list[Row]:
    """The floor is the same run without the readers that stop."""
    count = bench.sizes.stopped_readers
    with bench.settled_daemon(bench.homes.empty()) as daemon:
        # A session for each of them: frames are shared, and many readers of one would cost no more than one.
        sessions = [_session(daemon, bench) for _ in range(count)]
        both = zip(*(_updates(daemon, one, "x" * bench.sizes.stopped_bytes) for one in sessions), strict=True)
        changes = itertools.cycle(list(itertools.chain.from_iterable(both)))
        # Once for the caches of the daemon: they grow with the first large events, whoever reads.
        _flow(bench, daemon, changes, [])
        alone = _flow(bench, daemon, changes, [])
        beside = _flow(bench, daemon, changes, sessions)
    mine, others = beside.milliseconds, alone.milliseconds
    name = f"{count} stopped readers"
    return [
        Row(f"{name}: memory for each", "MB", beside.growth_mb / count, alone.growth_mb / count, STOPPED_MB),
        Row(f"{name}: delivery to another, median", "ms", median(mine), median(others), NOISE * median(others)),
        Row(f"{name}: delivery to another, 99th percentile", "ms", beside.late_ms, alone.late_ms),
    ]


def _flow(bench: Bench, daemon: Daemon, changes: Iterator[bytes], stopped: Sequence[str]) -> _Run:
    with ExitStack() as stack:
        for session_id in stopped:
            # A small receive buffer, so that the kernel does not hide for long that nobody reads.
            stream = get_events(daemon.port, daemon.token, f"?session={session_id}")
            stack.enter_context(Follower(daemon.port, stream, receive_buffer=4096))
        return _timed(daemon.pid, daemon.port, changes, _stream(daemon), bench.sizes.stopped_updates)


def _session(daemon: Daemon, bench: Bench) -> str:
    return str(daemon.call("session/create", cwd=str(bench.folder))["id"])


def _updates(daemon: Daemon, session_id: str, text: str) -> list[bytes]:
    """Two requests that each change what the other has written."""
    notes = ({"note": f"{text}{turn}"} for turn in (1, 2))
    return [post(daemon.port, daemon.token, "session/update", session_id=session_id, metadata=note) for note in notes]


def _stream(daemon: Daemon) -> bytes:
    return get_events(daemon.port, daemon.token)


def _timed(pid: int, port: int, changes: Iterator[bytes], stream: bytes, count: int) -> _Run:
    milliseconds: list[float] = []
    peak = before = rss_mb(pid)
    deadline = time.monotonic() + _SECONDS
    with Caller(port) as caller, Follower(port, stream) as follower:
        for number, request in enumerate(itertools.islice(changes, count)):
            began = time.perf_counter()
            caller.send(request)
            follower.next_event()
            milliseconds.append((time.perf_counter() - began) * 1000)
            caller.answer()
            if number % max(1, count // _LOOKS) == 0:
                peak = max(peak, rss_mb(pid))
            if number > 1 and time.monotonic() > deadline:
                break
    return _Run(milliseconds, peak - before)

"""Measures the time from sending a change to the event's arrival at a reader, also while other readers do not read."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from tests.bench.processes import Bench, read_rss_mb
from tests.bench.table import Row
from tests.bench.wire import Caller, Follower, build_call_request, build_events_request
from tests.support.daemon import Daemon

STOPPED_MB: Final = 5.0
NOISE: Final = 1.25
"""How far two medians of the same thing lie apart on a machine that is shared."""
_RUN_SECONDS: Final = 15.0
"""A run ends after this, even if it has not made all its changes."""
_MEMORY_SAMPLES: Final = 40
"""How often memory is read in a run."""


@dataclass(frozen=True, slots=True)
class _Run:
    milliseconds: list[float]
    growth_mb: float
    """The peak of memory, less what was in use before."""

    @property
    def p99_ms(self) -> float:
        return quantiles(self.milliseconds, n=100)[-1]


def measure_deliveries(bench: Bench) -> list[Row]:
    with bench.run_settled_daemon(bench.homes.create_empty()) as daemon:
        changes = itertools.cycle(_build_updates(daemon, _create_session(daemon, bench), "Feed the gelding"))
        with Caller(daemon.port) as caller, Follower(daemon.port, _build_stream_request(daemon)) as follower:
            answer = caller.call(request := next(changes))
            event = follower.read_event()
        ours = _time_deliveries(daemon.pid, daemon.port, changes, _build_stream_request(daemon), bench.sizes.deliveries)
    order = {
        "request_bytes": len(request),
        "answer_bytes": len(answer),
        "event_bytes": len(event),
        "record_bytes": len(event),
        "folder": str(bench.folder),
    }
    with bench.start_child("floors", order) as floor:
        bare = _time_deliveries(
            floor.pid, floor.first_answer["port"], changes, build_events_request(0, ""), bench.sizes.deliveries
        )
    return [
        Row("append to delivery, median", "ms", median(ours.milliseconds), median(bare.milliseconds)),
        Row("append to delivery, 99th percentile", "ms", ours.p99_ms, bare.p99_ms),
    ]


def measure_stopped_readers(bench: Bench) -> list[Row]:
    """Delivery to a reader while others have stopped reading; the floor is the same run without those others."""
    count = bench.sizes.stopped_readers
    with bench.run_settled_daemon(bench.homes.create_empty()) as daemon:
        # A session for each of them: frames are shared, and many readers of one session would cost no more than one.
        sessions = [_create_session(daemon, bench) for _ in range(count)]
        rounds = zip(*(_build_updates(daemon, one, "x" * bench.sizes.stopped_bytes) for one in sessions), strict=True)
        changes = itertools.cycle(list(itertools.chain.from_iterable(rounds)))
        # A warm-up for the caches of the daemon: they grow with the first large events, with any reader.
        _run_with_stopped_readers(bench, daemon, changes, [])
        without_stopped = _run_with_stopped_readers(bench, daemon, changes, [])
        with_stopped = _run_with_stopped_readers(bench, daemon, changes, sessions)
    delayed, undisturbed = with_stopped.milliseconds, without_stopped.milliseconds
    name = f"{count} stopped readers"
    return [
        Row(
            f"{name}: memory for each",
            "MB",
            with_stopped.growth_mb / count,
            without_stopped.growth_mb / count,
            STOPPED_MB,
        ),
        Row(
            f"{name}: delivery to another, median",
            "ms",
            median(delayed),
            median(undisturbed),
            NOISE * median(undisturbed),
        ),
        Row(f"{name}: delivery to another, 99th percentile", "ms", with_stopped.p99_ms, without_stopped.p99_ms),
    ]


def _run_with_stopped_readers(bench: Bench, daemon: Daemon, changes: Iterator[bytes], stopped: Sequence[str]) -> _Run:
    with ExitStack() as stack:
        for session_id in stopped:
            # A small receive buffer: the kernel would take many events for a client that does not read.
            stream = build_events_request(daemon.port, daemon.token, f"?session={session_id}")
            stack.enter_context(Follower(daemon.port, stream, receive_buffer=4096))
        return _time_deliveries(
            daemon.pid, daemon.port, changes, _build_stream_request(daemon), bench.sizes.stopped_updates
        )


def _create_session(daemon: Daemon, bench: Bench) -> str:
    return str(daemon.call("session/create", cwd=str(bench.folder))["id"])


def _build_updates(daemon: Daemon, session_id: str, text: str) -> list[bytes]:
    """Two requests that each change what the other has written."""
    notes = ({"note": f"{text}{turn}"} for turn in (1, 2))
    return [
        build_call_request(daemon.port, daemon.token, "session/update", session_id=session_id, metadata=note)
        for note in notes
    ]


def _build_stream_request(daemon: Daemon) -> bytes:
    return build_events_request(daemon.port, daemon.token)


def _time_deliveries(pid: int, port: int, changes: Iterator[bytes], stream: bytes, count: int) -> _Run:
    milliseconds: list[float] = []
    peak = before = read_rss_mb(pid)
    deadline = time.monotonic() + _RUN_SECONDS
    with Caller(port) as caller, Follower(port, stream) as follower:
        for number, request in enumerate(itertools.islice(changes, count)):
            began = time.perf_counter()
            caller.send(request)
            follower.read_event()
            milliseconds.append((time.perf_counter() - began) * 1000)
            caller.read_answer()
            if number % max(1, count // _MEMORY_SAMPLES) == 0:
                peak = max(peak, read_rss_mb(pid))
            if number > 1 and time.monotonic() > deadline:
                break
    return _Run(milliseconds, peak - before)

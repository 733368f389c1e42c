"""Measures the time from spawning the daemon to its ready line, and the memory that is then in use."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.bench.floors import BARE_START
from tests.bench.processes import Bench, read_rss_mb
from tests.bench.table import Row
from tests.bench.wire import Follower, build_events_request
from tests.support.daemon import Daemon, wait_until

READY_MS = 600.0
READY_MB = 80.0


def measure_start(bench: Bench) -> list[Row]:
    """Each kind in turn, so that a busy moment of the machine slows all of them."""
    floor: list[float] = []
    empty: list[float] = []
    used: list[float] = []
    _warm_up(bench)
    for _ in range(bench.sizes.starts):
        floor.append(_time_bare_start(bench))
        empty.append(_time_daemon_start(bench, bench.homes.create_empty()))
        used.append(_time_daemon_start(bench, bench.homes.create_with_sessions(bench.sizes.sessions)))
    bare = median(floor)
    return [
        Row("start to ready, no sessions", "ms", median(empty), bare, READY_MS, samples=empty),
        Row(f"start to ready, {bench.sizes.sessions:,} sessions", "ms", median(used), bare, READY_MS, samples=used),
    ]


def _warm_up(bench: Bench) -> None:
    """Once for the bytecode: compiling it takes time, and memory that is not given back."""
    _time_bare_start(bench)
    _time_daemon_start(bench, bench.homes.create_with_sessions(bench.sizes.sessions))


def _time_bare_start(bench: Bench) -> float:
    began = time.perf_counter()
    with _run_bare_process(bench):
        return (time.perf_counter() - began) * 1000


def _time_daemon_start(bench: Bench, home: Path) -> float:
    began = time.perf_counter()
    with bench.make_daemon(home):
        return (time.perf_counter() - began) * 1000


@contextmanager
def _run_bare_process(bench: Bench) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", BARE_START], stdout=subprocess.PIPE, env=bench.environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def measure_memory(bench: Bench) -> list[Row]:
    sizes = bench.sizes
    _warm_up(bench)
    with _run_bare_process(bench) as bare:
        floor = read_rss_mb(bare)
    with bench.make_daemon(bench.homes.create_empty()) as daemon:
        at_ready = read_rss_mb(daemon.pid)
        time.sleep(sizes.settle_seconds)
        settled = read_rss_mb(daemon.pid)
    with bench.make_daemon(bench.homes.create_with_sessions(sizes.sessions)) as daemon:
        used_at_ready = read_rss_mb(daemon.pid)
        time.sleep(sizes.settle_seconds)
        used = read_rss_mb(daemon.pid)
        with_one_reader = _measure_with_readers(daemon, 1)
        with_readers = _measure_with_readers(daemon, sizes.readers)
    bare_reader_kb = _measure_bare_reader_kb(bench)
    sessions = f"{sizes.sessions:,} sessions"
    return [
        Row("memory at the ready line", "MB", at_ready, floor, READY_MB),
        Row("memory, settled", "MB", settled, floor, READY_MB),
        Row(f"memory at the ready line, {sessions}", "MB", used_at_ready, floor, READY_MB),
        Row(f"memory, {sessions}, settled", "MB", used, floor, READY_MB),
        Row(
            f"memory, {sessions}, {sizes.readers} readers",
            "MB",
            with_readers,
            floor + bare_reader_kb * sizes.readers / 1000,
        ),
        # The first reader is left out: with it the daemon loads code that only readers need.
        Row(
            "memory for each further reader",
            "KB",
            (with_readers - with_one_reader) / (sizes.readers - 1) * 1000,
            bare_reader_kb,
        ),
    ]


def _measure_with_readers(daemon: Daemon, count: int) -> float:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Follower(daemon.port, build_events_request(daemon.port, daemon.token)))
        wait_until(lambda: daemon.call("server/stats")["readers"] == count)
        return read_rss_mb(daemon.pid)


def _measure_bare_reader_kb(bench: Bench) -> float:
    count = bench.sizes.readers
    with bench.start_child("floors", {}) as floor, ExitStack() as stack:
        before = read_rss_mb(floor.pid)
        for _ in range(count):
            stack.enter_context(Follower(floor.first_answer["port"], build_events_request(0, "")))
        return (read_rss_mb(floor.pid) - before) / count * 1000

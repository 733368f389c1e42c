"""From spawning to the ready line, and the memory that is then in use."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.bench.floors import BARE_START
from tests.bench.processes import Bench, rss_mb
from tests.bench.table import Row
from tests.bench.wire import Follower, get_events
from tests.support.daemon import Daemon, wait_until

READY_MS = 600.0
READY_MB = 80.0


def start(bench: Bench) -> list[Row]:
    """Each kind in turn, so that a busy moment of the machine meets all of them."""
    floor: list[float] = []
    empty: list[float] = []
    used: list[float] = []
    _warm_up(bench)
    for _ in range(bench.sizes.starts):
        floor.append(_bare_ms(bench))
        empty.append(_daemon_ms(bench, bench.homes.empty()))
        used.append(_daemon_ms(bench, bench.homes.with_sessions(bench.sizes.sessions)))
    bare = median(floor)
    return [
        Row("start to ready, no sessions", "ms", median(empty), bare, READY_MS, samples=empty),
        Row(f"start to ready, {bench.sizes.sessions:,} sessions", "ms", median(used), bare, READY_MS, samples=used),
    ]


def _warm_up(bench: Bench) -> None:
    """Once for the bytecode: compiling it takes time, and memory that is not given back."""
    _bare_ms(bench)
    _daemon_ms(bench, bench.homes.with_sessions(bench.sizes.sessions))


def _bare_ms(bench: Bench) -> float:
    began = time.perf_counter()
    with _bare_process(bench):
        return (time.perf_counter() - began) * 1000


def _daemon_ms(bench: Bench, home: Path) -> float:
    began = time.perf_counter()
    with bench.daemon(home):
        return (time.perf_counter() - began) * 1000


@contextmanager
def _bare_process(bench: Bench) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", BARE_START], stdout=subprocess.PIPE, env=bench.environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def memory(bench: Bench) -> list[Row]:
    sizes = bench.sizes
    _warm_up(bench)
    with _bare_process(bench) as bare:
        floor = rss_mb(bare)
    with bench.daemon(bench.homes.empty()) as daemon:
        at_ready = rss_mb(daemon.pid)
        time.sleep(sizes.settle_seconds)
        settled = rss_mb(daemon.pid)
    with bench.daemon(bench.homes.with_sessions(sizes.sessions)) as daemon:
        used_at_ready = rss_mb(daemon.pid)
        time.sleep(sizes.settle_seconds)
        used = rss_mb(daemon.pid)
        first = _with_readers(daemon, 1)
        watched = _with_readers(daemon, sizes.readers)
    each = _bare_reader_kb(bench)
    sessions = f"{sizes.sessions:,} sessions"
    return [
        Row("memory at the ready line", "MB", at_ready, floor, READY_MB),
        Row("memory, settled", "MB", settled, floor, READY_MB),
        Row(f"memory at the ready line, {sessions}", "MB", used_at_ready, floor, READY_MB),
        Row(f"memory, {sessions}, settled", "MB", used, floor, READY_MB),
        Row(f"memory, {sessions}, {sizes.readers} readers", "MB", watched, floor + each * sizes.readers / 1000),
        # The first one is left out: it brings code with it that is loaded when somebody reads.
        Row("memory for each further reader", "KB", (watched - first) / (sizes.readers - 1) * 1000, each),
    ]


def _with_readers(daemon: Daemon, count: int) -> float:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Follower(daemon.port, get_events(daemon.port, daemon.token)))
        wait_until(lambda: daemon.call("server/stats")["readers"] == count)
        return rss_mb(daemon.pid)


def _bare_reader_kb(bench: Bench) -> float:
    count = bench.sizes.readers
    with bench.child("floors", {}) as floor, ExitStack() as stack:
        before = rss_mb(floor.pid)
        for _ in range(count):
            stack.enter_context(Follower(floor.first["port"], get_events(0, "")))
        return (rss_mb(floor.pid) - before) / count * 1000

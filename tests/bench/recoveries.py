"""Measures a start after a crash that cut many turns short."""

import time
from contextlib import closing
from pathlib import Path
from statistics import median

from ostler.storage.sqlite.database import open_database
from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.support.daemon import wait_until


def measure_recovery(bench: Bench) -> list[Row]:
    """The floor of a recovery is one transaction that changes as many rows."""
    count = bench.sizes.unfinished
    ready: list[float] = []
    without_unfinished: list[float] = []
    recovered: list[float] = []
    bare: list[float] = []
    for _ in range(bench.sizes.recoveries):
        until_ready, after_ready = _time_recovery(bench, bench.homes.create_with_unfinished_turns(count))
        ready.append(until_ready)
        recovered.append(after_ready)
        bare.append(_time_bare_update(bench.homes.create_with_unfinished_turns(count) / "ostler.db"))
        without_unfinished.append(_time_clean_start(bench))
    name = f"{count:,} unfinished turns"
    return [
        Row(f"start to ready, {name}", "ms", median(ready), median(without_unfinished), samples=ready),
        Row(f"recovery of {name}, after ready", "ms", median(recovered), median(bare), samples=recovered),
    ]


def _time_recovery(bench: Bench, home: Path) -> tuple[float, float]:
    """Milliseconds until the daemon is ready, and from then on until every session is recovered."""
    began = time.perf_counter()
    with bench.make_daemon(home) as daemon:
        ready = time.perf_counter()
        wait_until(lambda: " sessions_recovered " in daemon.stderr, seconds=60)
        return (ready - began) * 1000, (time.perf_counter() - ready) * 1000


def _time_clean_start(bench: Bench) -> float:
    home = bench.homes.create_with_sessions(bench.sizes.unfinished)
    began = time.perf_counter()
    with bench.make_daemon(home):
        return (time.perf_counter() - began) * 1000


def _time_bare_update(database: Path) -> float:
    with closing(open_database(database).connection) as connection:
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE turns SET status = 'ended'")
        connection.execute("UPDATE calls SET status = 'completed'")
        connection.execute("UPDATE sessions SET status = 'idle'")
        connection.execute("COMMIT")
        return (time.perf_counter() - began) * 1000

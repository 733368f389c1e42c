"""Measures commands with long output, many at once, and long inputs: memory, and the wait of a health check."""

import itertools
import threading
import time
from typing import Final

from tests.bench.many_sessions import STALL_MS, run_probers
from tests.bench.model import FLOOD_PIECES, TASK_SECONDS
from tests.bench.processes import Bench, read_rss_mb
from tests.bench.table import Row
from tests.bench.turns import prepare_project, run_daemon_with_model, run_scripted_model
from tests.support.daemon import Daemon, EventStream, wait_until

_GROWTH_MB: Final = 20.0
_SILENCE_MS: Final = 2000.0
_INTERVAL_MS: Final = 1000.0
"""How often a running command reports its new output."""
_LONG_INPUTS: Final = 3


def measure_output(bench: Bench) -> list[Row]:
    with run_scripted_model(bench) as model, run_daemon_with_model(bench, bench.homes.create_empty(), model) as daemon:
        flood = _measure_flood(bench, daemon)
        tasks = _measure_tasks(bench, daemon)
        lines = _measure_long_input(bench, daemon)
        model.call({})
    return [*flood, *tasks, *lines]


def _create_session(bench: Bench, daemon: Daemon) -> str:
    created = daemon.call("session/create", cwd=str(prepare_project(bench)), rules={"allow": ["Bash"]})
    return str(created["id"])


def _measure_flood(bench: Bench, daemon: Daemon) -> list[Row]:
    """The memory of the daemon that one command takes, and the longest time between two reports of its output."""
    session_id = _create_session(bench, daemon)
    before = read_rss_mb(daemon.pid)
    peak = before
    stream = daemon.follow(f"?session={session_id}")
    progress_times: list[float] = []
    reader = threading.Thread(target=_record_progress, args=(stream, progress_times), daemon=True)
    reader.start()
    turn = daemon.call("turn/start", session_id=session_id, input=f"[flood:{bench.sizes.flood_bytes}] go on")
    while daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=50)["status"] != "ended":
        peak = max(peak, read_rss_mb(daemon.pid))
    reader.join(30)
    stream.close()
    gaps = [(after - first) * 1000 for first, after in itertools.pairwise(progress_times)] or [_INTERVAL_MS]
    size = f"{bench.sizes.flood_bytes / 1e6:,.0f} MB"
    return [
        Row(f"Bash prints {size} in {FLOOD_PIECES} pieces: memory", "MB", peak - before, 0.0, _GROWTH_MB),
        Row(f"Bash prints {size}: longest silence of the tail", "ms", max(gaps), _INTERVAL_MS, _SILENCE_MS),
    ]


def _record_progress(stream: EventStream, progress_times: list[float]) -> None:
    for event in stream.read_events():
        if event["type"] == "tool.progress":
            progress_times.append(time.perf_counter())
        elif event["type"] == "turn.ended":
            return


def _measure_tasks(bench: Bench, daemon: Daemon) -> list[Row]:
    """Background tasks that print all the time, and a health check meanwhile."""
    session_id = _create_session(bench, daemon)
    count = bench.sizes.tasks
    with run_probers(bench, daemon) as (ours, machine):
        turn = daemon.call("turn/start", session_id=session_id, input=f"[tasks:{count}] go on")
        daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=60_000)
        time.sleep(TASK_SECONDS)
        longest, noise = (max(probe.call({})["milliseconds"]) for probe in (ours, machine))
    wait_until(lambda: _count_running(daemon, session_id) == 0, 60)
    return [Row(f"{count} background tasks that print: longest wait of a health check", "ms", longest, noise, STALL_MS)]


def _measure_long_input(bench: Bench, daemon: Daemon) -> list[Row]:
    """An input of megabytes, full of line ends, which JSON escapes as two characters; and a health check meanwhile."""
    session_id = _create_session(bench, daemon)
    size = bench.sizes.input_bytes
    with run_probers(bench, daemon) as (ours, machine):
        for _ in range(_LONG_INPUTS):
            turn = daemon.call("turn/start", session_id=session_id, input=f"[lines:{size}] go on")
            daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=60_000)
        longest, noise = (max(probe.call({})["milliseconds"]) for probe in (ours, machine))
    return [Row(f"a command of {size / 1e6:,.0f} MB: longest wait of a health check", "ms", longest, noise, STALL_MS)]


def _count_running(daemon: Daemon, session_id: str) -> int:
    tasks = daemon.call("task/list", session_id=session_id, limit=500)["tasks"]
    return sum(task["status"] == "running" for task in tasks)

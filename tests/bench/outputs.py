"""Commands that print much, and many that print at once: what it costs the daemon, and whoever wants something else."""

import itertools
import threading
import time
from typing import Any, Final

from tests.bench.many_sessions import STALL_MS, probed
from tests.bench.model import FLOOD_PIECES, TASK_SECONDS
from tests.bench.processes import Bench, rss_mb
from tests.bench.table import Row
from tests.bench.turns import daemon_with_model, scripted_model, stable
from tests.support.daemon import Daemon, wait_until

_GROWTH_MB: Final = 20.0
_SILENCE_MS: Final = 2000.0
_INTERVAL_MS: Final = 1000.0
"""How often a command that runs tells what is new."""
_LONG_INPUTS: Final = 3


def output(bench: Bench) -> list[Row]:
    with scripted_model(bench) as model, daemon_with_model(bench, bench.homes.empty(), model) as daemon:
        flood = _flood(bench, daemon)
        tasks = _tasks(bench, daemon)
        lines = _long_input(bench, daemon)
        model.ask({})
    return [*flood, *tasks, *lines]


def _session(bench: Bench, daemon: Daemon) -> str:
    created = daemon.call("session/create", cwd=str(stable(bench)), rules={"allow": ["Bash"]})
    return str(created["id"])


def _flood(bench: Bench, daemon: Daemon) -> list[Row]:
    """The memory that one command takes from the daemon, and the longest silence of its tail."""
    session_id = _session(bench, daemon)
    before = rss_mb(daemon.pid)
    most = before
    stream = daemon.follow(f"?session={session_id}")
    seen: list[float] = []
    reader = threading.Thread(target=_note_progress, args=(stream, seen), daemon=True)
    reader.start()
    turn = daemon.call("turn/start", session_id=session_id, input=f"[flood:{bench.sizes.flood_bytes}] go on")
    while daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=50)["status"] != "ended":
        most = max(most, rss_mb(daemon.pid))
    reader.join(30)
    stream.close()
    gaps = [(after - first) * 1000 for first, after in itertools.pairwise(seen)] or [_INTERVAL_MS]
    size = f"{bench.sizes.flood_bytes / 1e6:,.0f} MB"
    return [
        Row(f"Bash prints {size} in {FLOOD_PIECES} pieces: memory", "MB", most - before, 0.0, _GROWTH_MB),
        Row(f"Bash prints {size}: longest silence of the tail", "ms", max(gaps), _INTERVAL_MS, _SILENCE_MS),
    ]


def _note_progress(stream: Any, seen: list[float]) -> None:
    for event in stream.events():
        if event["type"] == "tool.progress":
            seen.append(time.perf_counter())
        elif event["type"] == "turn.ended":
            return


def _tasks(bench: Bench, daemon: Daemon) -> list[Row]:
    """Background tasks that print all the time, and a health check meanwhile."""
    session_id = _session(bench, daemon)
    count = bench.sizes.tasks
    with probed(bench, daemon) as (ours, machine):
        turn = daemon.call("turn/start", session_id=session_id, input=f"[tasks:{count}] go on")
        daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=60_000)
        time.sleep(TASK_SECONDS)
        late, noise = (max(probe.ask({})["milliseconds"]) for probe in (ours, machine))
    wait_until(lambda: _running(daemon, session_id) == 0, 60)
    return [Row(f"{count} background tasks that print: longest wait of a health check", "ms", late, noise, STALL_MS)]


def _long_input(bench: Bench, daemon: Daemon) -> list[Row]:
    """An input of megabytes, each of whose line ends is written as two characters, and a health check meanwhile."""
    session_id = _session(bench, daemon)
    size = bench.sizes.input_bytes
    with probed(bench, daemon) as (ours, machine):
        for _ in range(_LONG_INPUTS):
            turn = daemon.call("turn/start", session_id=session_id, input=f"[lines:{size}] go on")
            daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=60_000)
        late, noise = (max(probe.ask({})["milliseconds"]) for probe in (ours, machine))
    return [Row(f"a command of {size / 1e6:,.0f} MB: longest wait of a health check", "ms", late, noise, STALL_MS)]


def _running(daemon: Daemon, session_id: str) -> int:
    tasks = daemon.call("task/list", session_id=session_id, limit=500)["tasks"]
    return sum(task["status"] == "running" for task in tasks)

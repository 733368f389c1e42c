"""Measures a hundred agents in the background beside as many plain sessions, and how long one takes to begin."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from tests.bench.many_sessions import STALL_MS, run_probers
from tests.bench.model import AGENT_CALLS
from tests.bench.processes import Bench, Child, read_cpu_seconds, read_rss_mb
from tests.bench.table import Row
from tests.bench.turns import create_session, run_daemon_with_model, run_scripted_model, run_turn
from tests.support.daemon import Daemon

_AGENT_MB: Final = 1.0
_MAX_SLOWDOWN: Final = 1.5
_START_MS: Final = 5.0
"""How much longer an agent may take to begin than a new session with its first turn."""
_WAIT_MS: Final = 60_000


def measure_agents(bench: Bench) -> list[Row]:
    """Agents against sessions of their own with the same calls; then how soon the first request goes out."""
    count, starts = bench.sizes.agents, bench.sizes.agent_starts
    with (
        run_scripted_model(bench) as model,
        run_daemon_with_model(bench, bench.homes.create_empty(), model) as daemon,
    ):
        daemon.call("config/set", key="agents.max_running", value=max(count, 1))
        _run_agents(bench, daemon, 2)
        before = read_rss_mb(daemon.pid)
        with run_probers(bench, daemon) as (ours, machine):
            _run_agents(bench, daemon, count)
            longest, noise = (max(probe.call({})["milliseconds"]) for probe in (ours, machine))
        memory = (read_rss_mb(daemon.pid) - before) / count
        # Only now: what the first agents have loaded and cached helps both.
        plain, agents = _time(_run_sessions, bench, daemon), _time(_run_agents, bench, daemon)
        _check_model(model)
        begun = [_time_start_of_agent(bench, daemon, model) for _ in range(starts)]
        created = [_time_start_of_session(bench, daemon, model) for _ in range(starts)]
    name = f"{count} agents of {AGENT_CALLS} calls each"
    return [
        Row(name, "s", agents.seconds, plain.seconds, plain.seconds * _MAX_SLOWDOWN),
        Row(f"{name}, processor time", "s", agents.busy, plain.busy, plain.busy * _MAX_SLOWDOWN),
        Row(f"{name}: longest wait of a health check", "ms", longest, noise, STALL_MS),
        Row(f"{name}: memory for each", "MB", memory, 0.0, _AGENT_MB),
        Row(
            "an agent's first request, after its call",
            "ms",
            median(begun),
            median(created),
            median(created) + _START_MS,
            samples=begun,
        ),
    ]


class _Took(NamedTuple):
    seconds: float
    busy: float
    """Processor time of the daemon."""


def _time(run: Callable[[Bench, Daemon, int], None], bench: Bench, daemon: Daemon) -> _Took:
    began, busy = time.perf_counter(), read_cpu_seconds(daemon.pid)
    run(bench, daemon, bench.sizes.agents)
    return _Took(time.perf_counter() - began, read_cpu_seconds(daemon.pid) - busy)


def _run_agents(bench: Bench, daemon: Daemon, count: int) -> None:
    """Returns when the last of so many agents in the background has ended."""
    session_id = create_session(daemon, bench)
    run_turn(daemon, session_id, f"[herd:{count}] go on", 2)
    tasks = daemon.call("task/list", session_id=session_id, limit=500)["tasks"]
    if len(tasks) != count:
        raise RuntimeError(f"{len(tasks)} of {count} agents went to the background")
    ended = [daemon.call("task/wait", task_id=task["id"], timeout_ms=_WAIT_MS) for task in tasks]
    _check_ends([task["status"] for task in ended], count)


def _run_sessions(bench: Bench, daemon: Daemon, count: int) -> None:
    """The same for turns of so many sessions, from their creation on."""
    turns = [
        daemon.call("turn/start", session_id=create_session(daemon, bench), input=f"[errand:{number}] go on")
        for number in range(count)
    ]
    ended = [daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=_WAIT_MS) for turn in turns]
    _check_ends([turn["reason"] for turn in ended], count)


def _check_ends(ends: Sequence[str], count: int) -> None:
    if list(ends) != ["completed"] * count:
        raise RuntimeError(f"they did not end as they should: {sorted(set(ends))}")


def _time_start_of_agent(bench: Bench, daemon: Daemon, model: Child) -> float:
    """Milliseconds from the last byte of the message with the call to the first byte of the agent's request."""
    run_turn(daemon, create_session(daemon, bench), "[helper:1] go on", 2)
    requests = _check_model(model)
    asked = next(one for one in requests if one["conversation"].startswith("helper"))
    begun = next(one for one in requests if one["conversation"].startswith("words"))
    return float(begun["began"] - asked["sent"]) * 1000


def _time_start_of_session(bench: Bench, daemon: Daemon, model: Child) -> float:
    """Milliseconds from the call of session/create to the first byte of the request of its first turn."""
    began = time.monotonic()
    session_id = create_session(daemon, bench)
    turn = daemon.call("turn/start", session_id=session_id, input="[words] go on")
    daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=_WAIT_MS)
    (request,) = _check_model(model)
    return float(request["began"] - began) * 1000


def _check_model(model: Child) -> list[dict[str, Any]]:
    """The requests since the last time."""
    answer = model.call({"list": True})
    if answer["failures"]:
        raise RuntimeError(f"the model refused: {answer['failures']}")
    found: list[dict[str, Any]] = answer["listed"]
    return found

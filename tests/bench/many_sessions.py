"""Measures many sessions at once: how long they take, their memory, and how long a health check waits meanwhile."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from tests.bench.model import BASH_CALLS
from tests.bench.processes import Bench, Child, read_rss_mb
from tests.bench.table import Row
from tests.bench.turns import create_session, run_bare_turns, run_daemon_with_model, run_scripted_model, run_turn
from tests.support.daemon import Daemon

TEN_SESSIONS_SECONDS: Final = 2.0
STALL_MS: Final = 100.0
SESSION_MB: Final = 0.5
_WARM_UP: Final = 5
_REQUESTS: Final = 10


def measure_sessions_at_once(bench: Bench) -> list[Row]:
    """Ten sessions of twenty commands, fifty that read, and how long a health check waits meanwhile."""
    few, many = bench.sizes.at_once
    with (
        run_scripted_model(bench) as model,
        bench.start_child("bare_agent", model.first_answer) as agent,
        run_daemon_with_model(bench, bench.homes.create_empty(), model) as daemon,
        run_probers(bench, daemon) as (ours, machine),
    ):
        commands = _run_together(bench, daemon, [f"twenty:{number}" for number in range(few)], BASH_CALLS + 1)
        reads = _run_together(bench, daemon, [f"read:{number}" for number in range(many)], _REQUESTS)
        longest, noise = (max(probe.call({})["milliseconds"]) for probe in (ours, machine))
        model.call({})
        bare_commands = _time_bare_turns(agent, [f"twenty:{number}" for number in range(few)], BASH_CALLS + 1)
        bare_reads = _time_bare_turns(agent, [f"read:{number}" for number in range(many)], _REQUESTS)
    trips = many * _REQUESTS
    name = f"{many} sessions at once"
    return [
        Row(f"{few} sessions of {BASH_CALLS} Bash calls at once", "s", commands, bare_commands, TEN_SESSIONS_SECONDS),
        Row(f"{name}, round trips with Read", "/s", trips / reads, trips / bare_reads, more_is_better=True),
        Row("longest wait of a health check meanwhile", "ms", longest, noise, STALL_MS),
    ]


@contextmanager
def run_probers(bench: Bench, daemon: Daemon) -> Iterator[tuple[Child, Child]]:
    """A prober of the daemon and one of a bare server, whose delays are those of the machine itself."""
    request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n"
    order = {"request_bytes": len(request), "answer_bytes": 200}
    with (
        bench.start_child("floors", order) as floor,
        bench.start_child("prober", {"port": daemon.port, "request": request}) as ours,
        # Not a GET: the floor answers each GET with its event stream.
        bench.start_child(
            "prober", {"port": floor.first_answer["port"], "request": request.replace("GET", "PUT")}
        ) as machine,
    ):
        yield ours, machine


def _run_together(bench: Bench, daemon: Daemon, conversations: Sequence[str], requests: int) -> float:
    """Run a turn in each conversation at the same time; returns the seconds that all of them take."""
    ids = [create_session(daemon, bench) for _ in conversations]
    with ThreadPoolExecutor(len(ids)) as pool:
        began = time.perf_counter()
        turns = [
            pool.submit(run_turn, daemon, session_id, f"[{name}] go on", requests)
            for session_id, name in zip(ids, conversations, strict=True)
        ]
        for turn in turns:
            turn.result()
        return time.perf_counter() - began


def _time_bare_turns(agent: Child, conversations: list[str], requests: int) -> float:
    began = time.perf_counter()
    run_bare_turns(agent, conversations, requests)
    return time.perf_counter() - began


def measure_live_sessions(bench: Bench) -> list[Row]:
    """The memory of each live session, above that of a daemon that has had a few."""
    count = bench.sizes.live_sessions
    with run_scripted_model(bench) as model, bench.start_child("bare_agent", model.first_answer) as agent:
        with run_daemon_with_model(bench, bench.homes.create_empty(), model) as daemon:
            _run_live_sessions(bench, daemon, _WARM_UP)
            before = read_rss_mb(daemon.pid)
            _run_live_sessions(bench, daemon, count)
            ours = (read_rss_mb(daemon.pid) - before) / count
        run_bare_turns(agent, [f"read:warm{number}" for number in range(_WARM_UP)], _REQUESTS)
        before = read_rss_mb(agent.pid)
        for number in range(count):
            run_bare_turns(agent, [f"read:{number}"], _REQUESTS)
        bare = (read_rss_mb(agent.pid) - before) / count
    return [Row(f"memory for each of {count} live sessions", "MB", ours, bare, SESSION_MB)]


def _run_live_sessions(bench: Bench, daemon: Daemon, count: int) -> None:
    for number in range(count):
        run_turn(daemon, create_session(daemon, bench), f"[read:{count}-{number}] go on", _REQUESTS)

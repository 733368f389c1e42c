"""Many sessions at once: how long they take, what they weigh, and whether anybody else has to wait meanwhile."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from tests.bench.model import BASH_CALLS
from tests.bench.processes import Bench, Child, rss_mb
from tests.bench.table import Row
from tests.bench.turns import daemon_with_model, new_session, run, run_bare, scripted_model
from tests.support.daemon import Daemon

TEN_SESSIONS_SECONDS: Final = 2.0
STALL_MS: Final = 100.0
SESSION_MB: Final = 0.5
_WARM_UP: Final = 5
_REQUESTS: Final = 10


def at_once(bench: Bench) -> list[Row]:
    """Ten sessions of twenty commands, fifty that read, and how long a health check waits meanwhile."""
    few, many = bench.sizes.at_once
    with (
        scripted_model(bench) as model,
        bench.child("bare_agent", model.first) as agent,
        daemon_with_model(bench, bench.homes.empty(), model) as daemon,
        probed(bench, daemon) as (ours, machine),
    ):
        commands = _together(bench, daemon, [f"twenty:{number}" for number in range(few)], BASH_CALLS + 1)
        reads = _together(bench, daemon, [f"read:{number}" for number in range(many)], _REQUESTS)
        late, noise = (max(probe.ask({})["milliseconds"]) for probe in (ours, machine))
        model.ask({})
        bare_commands = _bare_seconds(agent, [f"twenty:{number}" for number in range(few)], BASH_CALLS + 1)
        bare_reads = _bare_seconds(agent, [f"read:{number}" for number in range(many)], _REQUESTS)
    trips = many * _REQUESTS
    name = f"{many} sessions at once"
    return [
        Row(f"{few} sessions of {BASH_CALLS} Bash calls at once", "s", commands, bare_commands, TEN_SESSIONS_SECONDS),
        Row(f"{name}, round trips with Read", "/s", trips / reads, trips / bare_reads, more_is_better=True),
        Row("longest wait of a health check meanwhile", "ms", late, noise, STALL_MS),
    ]


@contextmanager
def probed(bench: Bench, daemon: Daemon) -> Iterator[tuple[Child, Child]]:
    """Somebody who asks the daemon all the time, and somebody who asks a bare server: what the machine is guilty of."""
    ask = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n"
    order = {"request_bytes": len(ask), "answer_bytes": 200}
    with (
        bench.child("floors", order) as floor,
        bench.child("prober", {"port": daemon.port, "request": ask}) as ours,
        # Not a GET, which would follow the floor's events.
        bench.child("prober", {"port": floor.first["port"], "request": ask.replace("GET", "PUT")}) as machine,
    ):
        yield ours, machine


def _together(bench: Bench, daemon: Daemon, conversations: Sequence[str], requests: int) -> float:
    """The seconds that all of them take."""
    ids = [new_session(daemon, bench) for _ in conversations]
    with ThreadPoolExecutor(len(ids)) as pool:
        began = time.perf_counter()
        turns = [
            pool.submit(run, daemon, session_id, f"[{name}] go on", requests)
            for session_id, name in zip(ids, conversations, strict=True)
        ]
        for turn in turns:
            turn.result()
        return time.perf_counter() - began


def _bare_seconds(agent: Child, conversations: list[str], requests: int) -> float:
    began = time.perf_counter()
    run_bare(agent, conversations, requests)
    return time.perf_counter() - began


def weigh(bench: Bench) -> list[Row]:
    """The memory of live sessions, over that of a daemon which has had a few."""
    count = bench.sizes.live_sessions
    with scripted_model(bench) as model, bench.child("bare_agent", model.first) as agent:
        with daemon_with_model(bench, bench.homes.empty(), model) as daemon:
            _live(bench, daemon, _WARM_UP)
            before = rss_mb(daemon.pid)
            _live(bench, daemon, count)
            ours = (rss_mb(daemon.pid) - before) / count
        run_bare(agent, [f"read:warm{number}" for number in range(_WARM_UP)], _REQUESTS)
        before = rss_mb(agent.pid)
        for number in range(count):
            run_bare(agent, [f"read:{number}"], _REQUESTS)
        bare = (rss_mb(agent.pid) - before) / count
    return [Row(f"memory for each of {count} live sessions", "MB", ours, bare, SESSION_MB)]


def _live(bench: Bench, daemon: Daemon, count: int) -> None:
    for number in range(count):
        run(daemon, new_session(daemon, bench), f"[read:{count}-{number}] go on", _REQUESTS)

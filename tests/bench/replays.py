"""Measures a replay: a reader that requests every stored event."""

from pathlib import Path
from statistics import median

from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.bench.wire import build_events_request


def measure_replay(bench: Bench) -> list[Row]:
    count = bench.sizes.replayed
    home = bench.homes.create_with_events(count)
    with bench.run_settled_daemon(home) as daemon:
        request = build_events_request(daemon.port, daemon.token, "?after=0")
        ours = [_time_replay(bench, daemon.port, request) for _ in range(bench.sizes.replays)]
    bare = _measure_floor(bench, home / "ostler.db")
    seconds, size = median(took for took, _ in ours), ours[0][1]
    floor_seconds, floor_size = median(took for took, _ in bare), bare[0][1]
    return [
        Row(f"replay of {count:,} events", "/s", count / seconds, count / floor_seconds, more_is_better=True),
        Row(
            f"replay of {count:,} events, bytes",
            "MB/s",
            size / seconds / 1e6,
            floor_size / floor_seconds / 1e6,
            more_is_better=True,
        ),
    ]


def _measure_floor(bench: Bench, database: Path) -> list[tuple[float, int]]:
    with bench.start_child("floors", {"database": str(database)}) as floor:
        request = build_events_request(0, "", "?after=0")
        return [_time_replay(bench, floor.first_answer["port"], request) for _ in range(bench.sizes.replays)]


def _time_replay(bench: Bench, port: int, request: bytes) -> tuple[float, int]:
    order = {"port": port, "request": request.decode(), "readers": 1, "events": bench.sizes.replayed}
    with bench.start_child("crowd", order) as crowd:
        received = crowd.read_answer()
    return received["ended"] - crowd.first_answer["began"], received["bytes"]

"""A reader that asks for everything there ever was."""

from pathlib import Path
from statistics import median

from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.bench.wire import get_events


def replay(bench: Bench) -> list[Row]:
    count = bench.sizes.replayed
    home = bench.homes.with_events(count)
    with bench.settled_daemon(home) as daemon:
        request = get_events(daemon.port, daemon.token, "?after=0")
        ours = [_seconds(bench, daemon.port, request) for _ in range(bench.sizes.replays)]
    bare = _bare(bench, home / "ostler.db")
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


def _bare(bench: Bench, database: Path) -> list[tuple[float, int]]:
    with bench.child("floors", {"database": str(database)}) as floor:
        request = get_events(0, "", "?after=0")
        return [_seconds(bench, floor.first["port"], request) for _ in range(bench.sizes.replays)]


def _seconds(bench: Bench, port: int, request: bytes) -> tuple[float, int]:
    order = {"port": port, "request": request.decode(), "readers": 1, "events": bench.sizes.replayed}
    with bench.child("crowd", order) as crowd:
        seen = crowd.answer()
    return seen["ended"] - crowd.first["began"], seen["bytes"]

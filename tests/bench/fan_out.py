"""Events spread to many readers that all keep up."""

from dataclasses import dataclass

from tests.bench.processes import Bench, Child, cpu_seconds
from tests.bench.table import Row
from tests.bench.wire import get_events

EVENTS_PER_SECOND = 25_000.0


@dataclass(frozen=True, slots=True)
class _Result:
    events_per_second: float
    cpu_us: float
    """Processor time of the server for each delivery."""
    event_bytes: int
    group: int
    """Events to a commit."""


def fan_out(bench: Bench) -> list[Row]:
    most = max(bench.sizes.fan_out)
    rows = [row for readers in bench.sizes.fan_out for row in _measured(bench, "stored", readers, aim=readers == most)]
    return [*rows, *_measured(bench, "passing", most, aim=True)]


def _measured(bench: Bench, kind: str, readers: int, *, aim: bool) -> list[Row]:
    ours = _daemon(bench, kind, readers)
    bare = _bare(bench, ours, readers, stored=kind == "stored")
    name = f"{kind} events, {readers} reader{'s' if readers > 1 else ''}"
    wanted = EVENTS_PER_SECOND if aim else None
    produced, floor = ours.events_per_second, bare.events_per_second
    rows = [
        Row(f"{name}, produced", "/s", produced, floor, wanted, more_is_better=True),
        Row(f"{name}, delivered", "/s", produced * readers, floor * readers, wanted, more_is_better=True),
        Row(f"{name}, processor time each delivery", "µs", ours.cpu_us, bare.cpu_us),
    ]
    return rows if readers > 1 else [rows[0], rows[2]]


def _daemon(bench: Bench, kind: str, readers: int) -> _Result:
    home = bench.homes.empty()
    with bench.child("launcher", {"home": str(home)}) as daemon:
        token = (home / "token").read_text().strip()
        request = get_events(daemon.first["port"], token)
        return _typical([_spread(bench, daemon, request, {"kind": kind}, readers) for _ in range(bench.sizes.spreads)])


def _bare(bench: Bench, ours: _Result, readers: int, *, stored: bool) -> _Result:
    order = {
        "event_bytes": ours.event_bytes,
        "record_bytes": ours.event_bytes if stored else 0,
        "folder": str(bench.folder),
    }
    with bench.child("floors", order) as floor:
        told: dict[str, object] = {"group": ours.group}
        return _typical([_spread(bench, floor, get_events(0, ""), told, readers) for _ in range(bench.sizes.spreads)])


def _typical(results: list[_Result]) -> _Result:
    """The one in the middle."""
    return sorted(results, key=lambda result: result.events_per_second)[len(results) // 2]


def _spread(bench: Bench, server: Child, request: bytes, order: dict[str, object], readers: int) -> _Result:
    events = bench.sizes.events
    watch = {"port": server.first["port"], "request": request.decode(), "readers": readers, "events": events}
    with bench.child("crowd", watch) as crowd:
        before = cpu_seconds(server.pid)
        produced = server.ask({**order, "events": events})
        seen = crowd.answer()
        cpu = cpu_seconds(server.pid) - before
    return _Result(
        events / (seen["ended"] - produced["began"]),
        cpu / (events * readers) * 1e6,
        round(seen["bytes"] / (events * readers)),
        # What is not stored has no commit; the producer pauses after so many.
        max(1, round(events / produced["commits"])) if produced.get("commits") else 64,
    )

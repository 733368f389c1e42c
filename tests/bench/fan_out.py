"""Measures fan-out: events that are broadcast to many readers, which all keep up."""

from dataclasses import dataclass

from tests.bench.processes import Bench, Child, read_cpu_seconds
from tests.bench.table import Row
from tests.bench.wire import build_events_request

EVENTS_PER_SECOND = 25_000.0


@dataclass(frozen=True, slots=True)
class _Result:
    events_per_second: float
    cpu_us: float
    """Processor time of the server for each delivery."""
    event_bytes: int
    events_per_commit: int
    """Events in one commit."""


def measure_fan_out(bench: Bench) -> list[Row]:
    most = max(bench.sizes.fan_out)
    rows = [
        row for readers in bench.sizes.fan_out for row in _measure_kind(bench, "stored", readers, aim=readers == most)
    ]
    return [*rows, *_measure_kind(bench, "passing", most, aim=True)]


def _measure_kind(bench: Bench, kind: str, readers: int, *, aim: bool) -> list[Row]:
    ours = _measure_daemon(bench, kind, readers)
    bare = _measure_floor(bench, ours, readers, stored=kind == "stored")
    name = f"{kind} events, {readers} reader{'s' if readers > 1 else ''}"
    wanted = EVENTS_PER_SECOND if aim else None
    produced, floor = ours.events_per_second, bare.events_per_second
    rows = [
        Row(f"{name}, produced", "/s", produced, floor, wanted, more_is_better=True),
        Row(f"{name}, delivered", "/s", produced * readers, floor * readers, wanted, more_is_better=True),
        Row(f"{name}, processor time each delivery", "µs", ours.cpu_us, bare.cpu_us),
    ]
    return rows if readers > 1 else [rows[0], rows[2]]


def _measure_daemon(bench: Bench, kind: str, readers: int) -> _Result:
    home = bench.homes.create_empty()
    with bench.start_child("launcher", {"home": str(home)}) as daemon:
        token = (home / "token").read_text().strip()
        request = build_events_request(daemon.first_answer["port"], token)
        return _pick_median(
            [_run_once(bench, daemon, request, {"kind": kind}, readers) for _ in range(bench.sizes.fan_out_rounds)]
        )


def _measure_floor(bench: Bench, ours: _Result, readers: int, *, stored: bool) -> _Result:
    order = {
        "event_bytes": ours.event_bytes,
        "record_bytes": ours.event_bytes if stored else 0,
        "folder": str(bench.folder),
    }
    with bench.start_child("floors", order) as floor:
        batch: dict[str, object] = {"group": ours.events_per_commit}
        return _pick_median(
            [
                _run_once(bench, floor, build_events_request(0, ""), batch, readers)
                for _ in range(bench.sizes.fan_out_rounds)
            ]
        )


def _pick_median(results: list[_Result]) -> _Result:
    """The result with the median rate."""
    return sorted(results, key=lambda result: result.events_per_second)[len(results) // 2]


def _run_once(bench: Bench, server: Child, request: bytes, order: dict[str, object], readers: int) -> _Result:
    events = bench.sizes.events
    crowd_order = {
        "port": server.first_answer["port"],
        "request": request.decode(),
        "readers": readers,
        "events": events,
    }
    with bench.start_child("crowd", crowd_order) as crowd:
        before = read_cpu_seconds(server.pid)
        produced = server.call({**order, "events": events})
        received = crowd.read_answer()
        cpu = read_cpu_seconds(server.pid) - before
    return _Result(
        events / (received["ended"] - produced["began"]),
        cpu / (events * readers) * 1e6,
        round(received["bytes"] / (events * readers)),
        # Transient events have no commit; 64 is after how many the producer pauses.
        max(1, round(events / produced["commits"])) if produced.get("commits") else 64,
    )

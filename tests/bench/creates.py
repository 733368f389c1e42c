"""`session/create` as often as it goes."""

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from tests.bench.processes import Bench, cpu_seconds
from tests.bench.table import Row
from tests.bench.wire import Caller, post

CREATES_PER_SECOND = 1000.0


@dataclass(frozen=True, slots=True)
class _Result:
    per_second: float
    cpu_us: float
    """Processor time of the server for each answer."""
    median_ms: float
    late_ms: float


def create(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for connections in bench.sizes.connections:
        ours, sizes = _daemon(bench, connections)
        with bench.child("floors", {**sizes, "folder": str(bench.folder)}) as floor:
            request = "x" * sizes["request_bytes"]
            bare = _pressed(bench, floor.pid, floor.first["port"], request, connections)
        rows += _rows(connections, ours, bare)
    return rows


def _rows(connections: int, ours: _Result, bare: _Result) -> list[Row]:
    name = f"session/create, {connections} connection{'s' if connections > 1 else ''}"
    aim = CREATES_PER_SECOND if connections > 1 else None
    return [
        Row(name, "/s", ours.per_second, bare.per_second, aim, more_is_better=True),
        Row(f"{name}, median", "ms", ours.median_ms, bare.median_ms),
        Row(f"{name}, 99th percentile", "ms", ours.late_ms, bare.late_ms),
        Row(f"{name}, processor time each", "µs", ours.cpu_us, bare.cpu_us),
    ]


def _daemon(bench: Bench, connections: int) -> tuple[_Result, dict[str, int]]:
    with bench.settled_daemon(bench.homes.empty()) as daemon:
        request = post(daemon.port, daemon.token, "session/create", cwd=str(bench.folder), title="Shoe the mare")
        with Caller(daemon.port) as caller:
            answer = caller.call(request)
        # What has to be kept of a session is about what is told of it.
        sizes = {"request_bytes": len(request), "answer_bytes": len(answer), "record_bytes": len(answer)}
        return _pressed(bench, daemon.pid, daemon.port, request.decode(), connections), sizes


def _pressed(bench: Bench, pid: int, port: int, request: str, connections: int) -> _Result:
    before = cpu_seconds(pid)
    order: dict[str, Any] = {
        "port": port,
        "request": request,
        "connections": connections,
        "seconds": bench.sizes.create_seconds,
    }
    with bench.child("load", order) as load:
        result = load.first
    # The warm-up is in the processor time, so its answers have to be in the number.
    answers = result["answers"] + result["warm_up"]
    return _Result(
        result["answers"] / result["seconds"],
        (cpu_seconds(pid) - before) / answers * 1e6,
        median(result["milliseconds"]),
        quantiles(result["milliseconds"], n=100)[-1],
    )

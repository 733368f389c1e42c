"""Measures how many `session/create` calls a second the daemon answers, and how fast."""

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from tests.bench.processes import Bench, read_cpu_seconds
from tests.bench.table import Row
from tests.bench.wire import Caller, build_call_request

CREATES_PER_SECOND = 1000.0


@dataclass(frozen=True, slots=True)
class _Result:
    per_second: float
    cpu_us: float
    """Processor time of the server for each answer."""
    median_ms: float
    p99_ms: float


def measure_creates(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for connections in bench.sizes.connections:
        ours, sizes = _measure_daemon(bench, connections)
        with bench.start_child("floors", {**sizes, "folder": str(bench.folder)}) as floor:
            request = "x" * sizes["request_bytes"]
            bare = _run_load(bench, floor.pid, floor.first_answer["port"], request, connections)
        rows += _build_rows(connections, ours, bare)
    return rows


def _build_rows(connections: int, ours: _Result, bare: _Result) -> list[Row]:
    name = f"session/create, {connections} connection{'s' if connections > 1 else ''}"
    aim = CREATES_PER_SECOND if connections > 1 else None
    return [
        Row(name, "/s", ours.per_second, bare.per_second, aim, more_is_better=True),
        Row(f"{name}, median", "ms", ours.median_ms, bare.median_ms),
        Row(f"{name}, 99th percentile", "ms", ours.p99_ms, bare.p99_ms),
        Row(f"{name}, processor time each", "µs", ours.cpu_us, bare.cpu_us),
    ]


def _measure_daemon(bench: Bench, connections: int) -> tuple[_Result, dict[str, int]]:
    with bench.run_settled_daemon(bench.homes.create_empty()) as daemon:
        request = build_call_request(
            daemon.port, daemon.token, "session/create", cwd=str(bench.folder), title="Shoe the mare"
        )
        with Caller(daemon.port) as caller:
            answer = caller.call(request)
        # What is stored of a session is about as long as the answer that describes it.
        sizes = {"request_bytes": len(request), "answer_bytes": len(answer), "record_bytes": len(answer)}
        return _run_load(bench, daemon.pid, daemon.port, request.decode(), connections), sizes


def _run_load(bench: Bench, pid: int, port: int, request: str, connections: int) -> _Result:
    before = read_cpu_seconds(pid)
    order: dict[str, Any] = {
        "port": port,
        "request": request,
        "connections": connections,
        "seconds": bench.sizes.create_seconds,
    }
    with bench.start_child("load", order) as load:
        result = load.first_answer
    # The warm-up is in the processor time, so its answers have to be in the number.
    answers = result["answers"] + result["warm_up"]
    return _Result(
        result["answers"] / result["seconds"],
        (read_cpu_seconds(pid) - before) / answers * 1e6,
        median(result["milliseconds"]),
        quantiles(result["milliseconds"], n=100)[-1],
    )

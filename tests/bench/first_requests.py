"""Measures a start from nothing, as a CI job meets it: the installed command, an empty home, and the first turn."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil

from tests.bench.histories import MODEL
from tests.bench.processes import Bench, Child, read_cpu_seconds, read_rss_mb
from tests.bench.table import Row
from tests.bench.turns import run_scripted_model
from tests.bench.wire import Follower, build_events_request

READY_RATIO: Final = 0.7
KEY_RATIO: Final = 1.0
REHEARSAL_RATIO: Final = 0.8
RUN_RATIO: Final = 1.5
WARM_OVER_FLOOR_MS: Final = 3.0
MEMORY_MB: Final = 80.0
_BARE_DAEMON: Final = Path(__file__).with_name("bare_daemon.py")
_COMMAND: Final = str(Path(sys.executable).with_name("ostler"))
_INPUT: Final = "[words] hello"
_WARM_TURNS: Final = 5
_END_SECONDS: Final = 20


@dataclass(slots=True)
class _Samples:
    """One list a number; milliseconds from the start of the command, where it is a time."""

    ready: list[float] = field(default_factory=list)
    ready_cpu: list[float] = field(default_factory=list)
    """Processor time, which busy neighbours change less than the time that passes."""
    first: list[float] = field(default_factory=list)
    """To the first byte of the first request to a model, or the first word of the rehearsal."""
    first_cpu: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    """To the end of the first turn."""
    warm: list[float] = field(default_factory=list)
    """From the call that starts a later turn to the model's first byte."""
    memory: list[float] = field(default_factory=list)


def measure_first_request(bench: Bench) -> list[Row]:
    """All kinds in turn, so that a busy moment of the machine slows all of them."""
    bare, key, rehearsal, whole = _Samples(), _Samples(), _Samples(), _Samples()
    with run_scripted_model(bench) as model:
        for samples in ((_Samples(),) * 4, *((bare, key, rehearsal, whole),) * bench.sizes.first_requests):
            # The first round is for the bytecode only.
            _run_bare_daemon(bench, model, samples[0])
            _run_with_key(bench, model, samples[1])
            _run_rehearsal(bench, samples[2])
            _run_command(bench, samples[3])
    return _build_rows(bare, key, rehearsal, whole)


def _build_rows(bare: _Samples, key: _Samples, rehearsal: _Samples, whole: _Samples) -> list[Row]:
    ready, first, end = median(bare.ready), median(bare.first), median(bare.end)
    ready_cpu, first_cpu, warm = median(bare.ready_cpu), median(bare.first_cpu), median(bare.warm)
    return [
        _row("command to ready line", key.ready, ready, READY_RATIO * ready),
        _row("command to ready line, processor time", key.ready_cpu, ready_cpu, READY_RATIO * ready_cpu),
        _row("command to first model request, key", key.first, first, KEY_RATIO * first),
        _row("command to first model request, key, processor time", key.first_cpu, first_cpu, KEY_RATIO * first_cpu),
        _row("command to first words, rehearsal", rehearsal.first, first, REHEARSAL_RATIO * first),
        _row("ostler run from nothing to its end, rehearsal", whole.end, end, RUN_RATIO * end),
        _row("turn/start to model request, warm", key.warm, warm, warm + WARM_OVER_FLOOR_MS),
        Row("memory after the first turn", "MB", median(key.memory), median(bare.memory), MEMORY_MB),
        Row("memory after the first turn, rehearsal", "MB", median(rehearsal.memory), median(bare.memory), MEMORY_MB),
    ]


def _row(measure: str, ours: list[float], floor: float, aim: float) -> Row:
    return Row(measure, "ms", median(ours), floor, aim, samples=ours)


def _run_bare_daemon(bench: Bench, model: Child, samples: _Samples) -> None:
    command = [sys.executable, "-P", str(_BARE_DAEMON), model.first_answer["url"]]
    began = time.monotonic()
    with _spawn(bench, command, {}) as (process, line):
        samples.ready.append(_milliseconds_since(began))
        samples.ready_cpu.append(read_cpu_seconds(process.pid) * 1000)
        port = int(line.rpartition(":")[2])
        _post(port, "/turns", {"input": _INPUT})
        samples.end.append(_milliseconds_since(began))
        samples.first_cpu.append(read_cpu_seconds(process.pid) * 1000)
        samples.first.append((_read_first_request(model) - began) * 1000)
        samples.memory.append(read_rss_mb(process.pid))
        for _ in range(_WARM_TURNS):
            asked = time.monotonic()
            _post(port, "/turns", {"input": _INPUT})
            samples.warm.append((_read_first_request(model) - asked) * 1000)


def _run_with_key(bench: Bench, model: Child, samples: _Samples) -> None:
    environment = {"ANTHROPIC_BASE_URL": model.first_answer["url"], "ANTHROPIC_API_KEY": "sk-of-the-bench"}
    with _serve(bench, environment, samples) as (daemon, began):
        session = daemon.call("session/create", cwd=str(bench.folder), model=MODEL)["id"]
        daemon.call("run", session_id=session, input=_INPUT)
        samples.first_cpu.append(read_cpu_seconds(daemon.pid) * 1000)
        samples.first.append((_read_first_request(model) - began) * 1000)
        samples.memory.append(read_rss_mb(daemon.pid))
        for _ in range(_WARM_TURNS):
            asked = time.monotonic()
            daemon.call("run", session_id=session, input=_INPUT)
            samples.warm.append((_read_first_request(model) - asked) * 1000)


def _run_rehearsal(bench: Bench, samples: _Samples) -> None:
    with _serve(bench, {"OSTLER_REHEARSAL_PACE_MS": "0"}, samples) as (daemon, began):
        session = daemon.call("session/create", cwd=str(bench.folder), model="rehearsal")["id"]
        stream = build_events_request(daemon.port, daemon.token, f"?session={session}")
        with Follower(daemon.port, stream) as follower:
            daemon.call("turn/start", session_id=session, input="hello")
            while b"event: message.delta" not in (event := follower.read_event()):
                pass
            samples.first.append(_milliseconds_since(began))
            while b"event: turn.ended" not in event:
                event = follower.read_event()
        samples.memory.append(read_rss_mb(daemon.pid))


def _run_command(bench: Bench, samples: _Samples) -> None:
    """Without the pauses in which the rehearsal speaks like a person: they are the same for every daemon."""
    home = bench.homes.create_empty()
    environment = _build_environment(bench, {"OSTLER_HOME": str(home), "OSTLER_REHEARSAL_PACE_MS": "0"})
    words = [_COMMAND, "run", "--model", "rehearsal", "hello"]
    began = time.monotonic()
    subprocess.run(words, cwd=bench.folder, env=environment, capture_output=True, check=True, timeout=60)
    samples.end.append(_milliseconds_since(began))
    pid = json.loads((home / "daemon.json").read_text())["pid"]
    subprocess.run([_COMMAND, "stop"], env=environment, capture_output=True, check=True, timeout=60)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=_END_SECONDS)


@dataclass(frozen=True, slots=True)
class _Served:
    pid: int
    port: int
    token: str

    def call(self, method: str, **params: Any) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return _post(self.port, "/rpc", call, {"Authorization": f"Bearer {self.token}"})["result"]


@contextmanager
def _serve(bench: Bench, environment: dict[str, str], samples: _Samples) -> Iterator[tuple[_Served, float]]:
    """The installed command in an empty home, and when it began."""
    home = bench.homes.create_empty()
    command = [_COMMAND, "serve", "--home", str(home), "--port", "0"]
    began = time.monotonic()
    with _spawn(bench, command, environment) as (process, line):
        samples.ready.append(_milliseconds_since(began))
        samples.ready_cpu.append(read_cpu_seconds(process.pid) * 1000)
        yield _Served(process.pid, int(line.rpartition(":")[2]), (home / "token").read_text().strip()), began


@contextmanager
def _spawn(
    bench: Bench, command: list[str], environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that has said where it is, and the line in which it said so."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_build_environment(bench, environment),
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "http://" not in line:
                raise RuntimeError(f"{command!r} did not start: {line!r}")
            yield process, line.strip()
        finally:
            process.kill()


def _build_environment(bench: Bench, more: dict[str, str]) -> dict[str, str]:
    usual = {key: value for key, value in os.environ.items() if not key.startswith(("OSTLER_", "ANTHROPIC_"))}
    return {**usual, **bench.environment, **more}


def _post(port: int, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status != 200 or "error" in answer:
        raise RuntimeError(f"{path} answered {response.status}: {answer!r}")
    return answer


def _read_first_request(model: Child) -> float:
    """When the first request since the last look had its first byte at the model."""
    return float(model.call({})["first_began"])


def _milliseconds_since(began: float) -> float:
    return (time.monotonic() - began) * 1000

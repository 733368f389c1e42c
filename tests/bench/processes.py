"""The processes that the measures start, and the memory and processor time that they use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.homes import Homes
from tests.bench.sizes import Sizes
from tests.support.daemon import Daemon


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measure is given: a folder, the sizes, homes, and ways to start processes."""

    folder: Path
    sizes: Sizes
    homes: Homes

    @property
    def environment(self) -> dict[str, str]:
        """Bytecode is cached, as where ostler is installed, but not in the source tree."""
        return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode")}

    def make_daemon(self, home: Path, model_url: str | None = None, **further: str) -> Daemon:
        """A daemon, not yet started; with a URL it uses the model there."""
        model = {"ANTHROPIC_BASE_URL": model_url} if model_url else {}
        return Daemon(home, environment={**self.environment, **model, **further}, cold=True)

    @contextmanager
    def run_settled_daemon(self, home: Path, model_url: str | None = None, **further: str) -> Iterator[Daemon]:
        """A daemon that has loaded what it loads in the background, so that nothing competes with what is timed."""
        with self.make_daemon(home, model_url, **further) as daemon:
            # Any page will do, even a missing one: the request is answered when the pages are loaded.
            daemon.send_http("GET", "/no-such-page")
            yield daemon

    def start_child(self, module: str, order: dict[str, Any]) -> "Child":
        return Child([sys.executable, "-m", f"tests.bench.{module}"], self.environment, order)


class Child:
    """A process that reads orders and writes answers, each a line of JSON."""

    def __init__(self, command: list[str], environment: dict[str, str], order: dict[str, Any]) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OSTLER_", "ANTHROPIC_"))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**inherited, **environment}
        )
        try:
            self.first_answer = self.call(order)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return self.read_answer()

    def read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait(10)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def read_rss_mb(pid: int) -> float:
    """The memory of a process that is in RAM now."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def read_cpu_seconds(pid: int) -> float:
    """The processor time of a process so far, on all cores."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)

"""Runs a worker process for one untrusted file, whose parser may crash, use up memory, or never end.

The worker limits itself (`worker_limits`), gets the file as its standard input and the request as JSON, and answers in
JSON. It also keeps long work of other libraries away from the interpreter's lock.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, BinaryIO, Final, TypeVar

from ostler.tools.process.environment import build_clean_environment
from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.process.stoppable import StoppableProcess
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

TIME_LIMIT: Final = 30.0
_CHUNK: Final = 1024 * 1024
_MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024


class WorkerDied(Exception):
    """The worker ended without an answer."""

    def __init__(self, *, took_too_long: bool) -> None:
        self.took_too_long = took_too_long


class WorkerStopped(Exception):
    """The worker was stopped: the call has ended."""


class Worker(StoppableProcess):
    """One run of a worker process. `ask` blocks and belongs on a thread; `stop` may be called from any thread."""

    def __init__(self, program: ModuleType, wanted: Mapping[str, Any]) -> None:
        super().__init__()
        self._arguments = _build_arguments(program, wanted)

    def ask(self, file: BinaryIO, meanwhile: Callable[[], T]) -> tuple[dict[str, Any], T]:
        """The worker's answer about the file, and what `meanwhile` returned. Raises WorkerDied and WorkerStopped."""
        running = self._start(file)
        with exclude_from_reaping(running.pid), running:
            try:
                found = meanwhile()
                answer = _read_answer(running)
            finally:
                self.stop()
        if answer is None:
            raise WorkerDied(took_too_long=self.out_of_time or running.returncode == -signal.SIGXCPU)
        return answer, found

    def _start(self, file: BinaryIO) -> "subprocess.Popen[bytes]":
        running = self.start_once(lambda: _start_process(self._arguments, file))
        if running is None:  # on a busy machine the time limit may pass before the start
            raise WorkerDied(took_too_long=True) if self.out_of_time else WorkerStopped
        return running


class WarmWorker(StoppableProcess):
    """A worker process that is started before its data is there, and gets it as its standard input.

    `start`, `ask` and `close` block and belong on a thread; `stop` may be called from any thread.
    """

    def __init__(self, program: ModuleType, wanted: Mapping[str, Any]) -> None:
        super().__init__()
        self._arguments = _build_arguments(program, wanted)
        self._awaited = contextlib.ExitStack()

    def start(self) -> None:
        running = self.start_once(lambda: _start_process(self._arguments, subprocess.PIPE))
        if running is not None:
            self._awaited.enter_context(exclude_from_reaping(running.pid))

    def ask(self, data: bytes) -> dict[str, Any]:
        """The worker's answer about the data. Raises WorkerDied and WorkerStopped."""
        running = self._running
        if running is None or self._stopped:
            raise WorkerDied(took_too_long=True) if self.out_of_time else WorkerStopped
        assert running.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died, and its exit code says more
            running.stdin.write(data)
            running.stdin.close()
        answer = _read_answer(running)
        if answer is None:
            raise WorkerDied(took_too_long=self.out_of_time or running.wait() == -signal.SIGXCPU)
        return answer

    def close(self) -> None:
        """Ends it, and leaves nothing of it."""
        self.stop()
        with self._awaited:
            if self._running is not None:
                with contextlib.suppress(BrokenPipeError), self._running:
                    pass


def _build_arguments(program: ModuleType, wanted: Mapping[str, Any]) -> list[str]:
    assert program.__file__ is not None
    # Isolated: neither the person's variables nor their folder decide which modules it gets.
    return [sys.executable, "-I", program.__file__, json.dumps(wanted)]


def _start_process(arguments: list[str], stdin: BinaryIO | int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own program
        arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=build_clean_environment(),
        cwd="/",
        start_new_session=True,
    )


def _read_answer(running: "subprocess.Popen[bytes]") -> dict[str, Any] | None:
    """The worker's answer; null where it died before the end of it, or the answer is too long."""
    assert running.stdout is not None
    data = running.stdout.read(_MAX_ANSWER_BYTES)
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        if len(data) == _MAX_ANSWER_BYTES:
            running.kill()
        running.wait()  # for its exit code
        return None
    return answer


def compute_digest(file: BinaryIO) -> str:
    """SHA-256 of the whole file, with pread: the worker shares the file's offset, which must not move."""
    digest, place = hashlib.sha256(), 0
    while chunk := os.pread(file.fileno(), _CHUNK, place):
        digest.update(chunk)
        place += len(chunk)
    return digest.hexdigest()


async def run_with_worker(work: Callable[[Worker], T], worker: Worker) -> T:
    """Runs the work on a thread with a worker process that is stopped when the call ends, or at the time limit."""
    late = asyncio.get_running_loop().call_later(TIME_LIMIT, worker.stop_on_timeout)
    try:
        return await read_in_thread(work, worker)
    finally:
        late.cancel()
        worker.stop()

"""A process of our own for one file that anybody may have made: it may crash, eat memory, or never end.

It bounds itself (`worker_bounds`), gets the file as its standard input and what is wanted as JSON, and tells JSON. It
also keeps long work of other libraries away from the interpreter's lock.
"""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, BinaryIO, Final, TypeVar

from ostler.tools.process.environment import clean_environment
from ostler.tools.process.orphans import awaited
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

TIME_LIMIT: Final = 30.0
_CHUNK: Final = 1024 * 1024
_MAX_TOLD: Final = 32 * 1024 * 1024


class Died(Exception):
    """It ended without an answer."""

    def __init__(self, *, took_too_long: bool) -> None:
        self.took_too_long = took_too_long


class Stopped(Exception):
    """Nobody wants the answer any more."""


class Worker:
    """One run. `ask` blocks and belongs on a thread; `stop` may come from anywhere."""

    def __init__(self, program: ModuleType, wanted: Mapping[str, Any]) -> None:
        assert program.__file__ is not None
        # Isolated: neither the person's variables nor their folder decide which modules it gets.
        self._arguments = [sys.executable, "-I", program.__file__, json.dumps(wanted)]
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._out_of_time = False

    def ask(self, file: BinaryIO, meanwhile: Callable[[], T]) -> tuple[dict[str, Any], T]:
        """What it tells about the file, and what was found out meanwhile here. Raises Died and Stopped."""
        running = self._start(file)
        with awaited(running.pid), running:
            try:
                found = meanwhile()
                told = _told(running)
            finally:
                self.stop()
        if told is None:
            raise Died(took_too_long=self._out_of_time or running.returncode == -signal.SIGXCPU)
        return told, found

    def _start(self, file: BinaryIO) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._out_of_time:  # a busy machine may not have come to it before
                raise Died(took_too_long=True)
            if self._stopped:
                raise Stopped
            self._running = subprocess.Popen(  # noqa: S603 - our own program
                self._arguments,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=clean_environment(),
                cwd="/",
                start_new_session=True,
            )
            return self._running

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()

    def stop_late(self) -> None:
        self._out_of_time = True
        self.stop()


def _told(running: "subprocess.Popen[bytes]") -> dict[str, Any] | None:
    """Null where it died before it had said all, or says more than anybody wants."""
    assert running.stdout is not None
    data = running.stdout.read(_MAX_TOLD)
    try:
        told: dict[str, Any] = json.loads(data)
    except ValueError:
        if len(data) == _MAX_TOLD:
            running.kill()
        running.wait()  # what it died of is known only then
        return None
    return told


def digest_beside(file: BinaryIO) -> str:
    """Of the whole file; the worker reads at the same place in it, which must not move."""
    digest, place = hashlib.sha256(), 0
    while chunk := os.pread(file.fileno(), _CHUNK, place):
        digest.update(chunk)
        place += len(chunk)
    return digest.hexdigest()


async def with_worker(work: Callable[[Worker], T], worker: Worker) -> T:
    """Runs the work on a thread with a process that is stopped when the call ends, or when it takes too long."""
    late = asyncio.get_running_loop().call_later(TIME_LIMIT, worker.stop_late)
    try:
        return await read_in_thread(work, worker)
    finally:
        late.cancel()
        worker.stop()

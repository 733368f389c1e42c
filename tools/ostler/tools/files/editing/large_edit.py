"""Edits of large files, in a process of their own.

Each step of an edit is one long call into the interpreter (decode, find, join, encode), which keeps every other thread
waiting for the lock: a tenth of a second for each fifty megabytes. The process does what would be done here, with the
same code, and its memory goes with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final

from ostler.tools.files.editing.diff import Hunk
from ostler.tools.files.editing.git_diff import GitDiff
from ostler.tools.process.environment import clean_environment
from ostler.tools.process.orphans import awaited
from ostler.tools.services import FileRead
from ostler.tools.tool import Failure

LARGE_BYTES: Final = 32 * 1024 * 1024
_SECONDS: Final = 120.0
_PR_SET_PDEATHSIG: Final = 1
_PROGRAM: Final = "from ostler.tools.files.editing.large_edit import main; main()"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done to which file."""

    given: dict[str, Any]
    """The input of Edit."""
    place: str
    read: FileRead | None
    umask: int | None = None
    """Null: it is only planned."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an edit does, or did."""

    status: os.stat_result
    """Of the file before it."""
    digest: str
    first_line: int | None
    old_string: str
    new_string: str
    hunks: list[Hunk] | None
    read: FileRead | None
    """What the session knows of the file afterwards; null where it was only planned."""
    git_diff: GitDiff | None


def is_large(place: str) -> bool:
    try:
        return os.stat(place).st_size > LARGE_BYTES
    except OSError:
        return False


def ask(order: Order) -> Told | Failure:
    """Blocks. Raises OSError with the words of the disk, and for a process that ends without an answer."""
    status = os.stat(order.place)
    # Isolated: neither the person's variables nor their folder decide which modules it gets.
    running = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-c", _PROGRAM, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        cwd="/",
        start_new_session=True,
    )
    with awaited(running.pid), running:
        try:
            data, _ = running.communicate(json.dumps(asdict(order)).encode(), _SECONDS)
        except subprocess.TimeoutExpired:
            raise OSError(0, f"it took longer than {_SECONDS:g} s") from None
        finally:
            running.kill()
    try:
        told: dict[str, Any] = json.loads(data)
    except ValueError:
        raise OSError(0, "the process that was to do it has died") from None
    return _understood(told, status)


def _understood(told: dict[str, Any], status: os.stat_result) -> Told | Failure:
    if "failure" in told:
        return Failure(**told["failure"])
    hunks, git_diff, read = told["hunks"], told["git_diff"], told["read"]
    return Told(
        status,
        told["digest"],
        told["first_line"],
        told["old_string"],
        told["new_string"],
        None if hunks is None else [Hunk.model_validate(each) for each in hunks],
        None if read is None else read_of(read),
        None if git_diff is None else GitDiff.model_validate(git_diff),
    )


def read_of(told: dict[str, Any]) -> FileRead:
    """As JSON has it, whose lists are tuples here."""
    ranges = {name: tuple((first, last) for first, last in told[name]) for name in ("ranges", "shown")}
    return FileRead(**{**told, **ranges})


def main() -> None:
    """The process itself. It ends with who asked: a daemon that comes back takes the file as it finds it."""
    _end_with(int(sys.argv[1]))
    # Here and not above: who asks is imported by what does the work.
    from ostler.tools.files.editing.large_edit_worker import answer  # noqa: PLC0415

    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
    sys.stdout.flush()


def _end_with(parent: int) -> None:
    """The kernel tells of the end of the thread that started this process, which waits for it until then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()

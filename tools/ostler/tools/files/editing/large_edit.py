"""Edits of large files, in a process of their own.

Each step of an edit is one long call into the interpreter (decode, find, join, encode), which keeps every other thread
waiting for the lock: a tenth of a second for each fifty megabytes. The process runs the same code as for a small file,
and its memory is freed with it.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final

from ostler.tools.files.editing.diff import Hunk
from ostler.tools.files.editing.git_diff import GitDiff
from ostler.tools.process.environment import build_clean_environment
from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.services import FileRead
from ostler.tools.tool import Failure

LARGE_BYTES: Final = 32 * 1024 * 1024
_SECONDS: Final = 120.0
_PROGRAM: Final = "from ostler.tools.files.editing.large_edit_worker import main; main()"


@dataclass(frozen=True, slots=True)
class EditRequest:
    """The edit that the process is to do. It is sent as JSON."""

    given: dict[str, Any]
    """The input of Edit."""
    place: str
    read: FileRead | None
    umask: int | None = None
    """Null: the edit is only planned."""


@dataclass(frozen=True, slots=True)
class EditResponse:
    """What an edit would change, or has changed."""

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


def run_worker(request: EditRequest) -> EditResponse | Failure:
    """Plans or does an edit in a process. Blocks. Raises OSError, also for a process that ends without an answer."""
    status = os.stat(request.place)
    # Isolated: neither the person's variables nor their folder decide which modules it gets.
    running = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-c", _PROGRAM, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=build_clean_environment(),
        cwd="/",
        start_new_session=True,
    )
    with exclude_from_reaping(running.pid), running:
        try:
            data, _ = running.communicate(json.dumps(asdict(request)).encode(), _SECONDS)
        except subprocess.TimeoutExpired:
            raise OSError(0, f"it took longer than {_SECONDS:g} s") from None
        finally:
            running.kill()
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        raise OSError(0, "the process that was to do it has died") from None
    return _parse_response(answer, status)


def _parse_response(answer: dict[str, Any], status: os.stat_result) -> EditResponse | Failure:
    if "failure" in answer:
        return Failure(**answer["failure"])
    hunks, git_diff, read = answer["hunks"], answer["git_diff"], answer["read"]
    return EditResponse(
        status,
        answer["digest"],
        answer["first_line"],
        answer["old_string"],
        answer["new_string"],
        None if hunks is None else [Hunk.model_validate(each) for each in hunks],
        None if read is None else parse_read(read),
        None if git_diff is None else GitDiff.model_validate(git_diff),
    )


def parse_read(answer: dict[str, Any]) -> FileRead:
    """Builds a FileRead from JSON, whose lists are tuples here."""
    ranges = {name: tuple((first, last) for first, last in answer[name]) for name in ("ranges", "shown")}
    return FileRead(**{**answer, **ranges})

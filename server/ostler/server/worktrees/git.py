"""Runs git for worktrees: in limited time, with limited output, without a prompt, and without hooks.

What the repository's configuration would run is switched off as it is for commands that only read.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Final

from ostler.tools import commands
from ostler.tools.commands.safety.git_repository import build_git_environment, find_git
from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.process.pipes import TooMuch, TooSlow, read_pipes

_MAX_BYTES: Final = 32 * 1024 * 1024
_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 5.0
"""For git to take away what it has begun, once it is told to end."""


class GitFailed(Exception):
    """Git could not do it, or not in time; the message is for the model."""


def run_git(
    folder: str, *words: str, seconds: float = _SECONDS, umask: int = 0o022, inherited: Sequence[int] = ()
) -> str:
    """What git prints, run in a folder. Raises GitFailed. Blocks; not to be called on the main thread.

    `inherited`: open files that it keeps open for as long as it runs, though the daemon may be gone by then.
    """
    program = find_git(os.path.realpath(folder))
    if program is None:
        raise GitFailed("git is not installed, or only inside of this repository. Install it for the whole machine.")
    try:
        process = subprocess.Popen(  # noqa: S603 - found outside of the repository; no shell
            [program, *words],
            cwd=folder,
            env=build_git_environment(commands.GIT_GUARD_ENVIRONMENT),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            umask=umask,
            pass_fds=tuple(inherited),
        )
    except OSError as error:
        raise GitFailed(f"git could not be started in {folder}: {error.strerror}.") from None
    with exclude_from_reaping(process.pid), process:
        try:
            output, complaint = _read_streams(process, words[0], seconds)
        except BaseException:
            _end(process)
            raise
        status = process.wait()
    if status != 0:
        raise GitFailed(_explain(complaint) or f"`git {words[0]}` ended with exit code {status}.")
    return os.fsdecode(output)


def _read_streams(process: "subprocess.Popen[bytes]", what: str, seconds: float) -> tuple[bytes, str]:
    try:
        output, complaint = read_pipes((process.stdout, process.stderr), seconds=seconds, max_bytes=_MAX_BYTES)
    except TooSlow:
        raise GitFailed(f"`git {what}` was not done within {seconds:g} s, and was ended.") from None
    except TooMuch:
        raise GitFailed(f"`git {what}` prints more than {_MAX_BYTES // 2**20} MB, and was ended.") from None
    return output, complaint.decode("utf-8", "replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends git and what it started: by the first signal it removes its own lock files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return


def _explain(complaint: str) -> str:
    """What git says is wrong, without its progress and advice."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    return "git says: " + " ".join(told)[:500] if told else ""

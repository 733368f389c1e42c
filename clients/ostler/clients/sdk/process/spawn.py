"""The process of a daemon in the background, made under a lock: two commands that find none make only one.

It can be made ahead, before it is known what for. So only what is needed for that is imported here, and nothing else of
the SDK.
"""

import atexit
import fcntl
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ostler.clients.sdk import DAEMON_COMMAND
from ostler.protocol.places import Places

_END_SECONDS: Final = 5.0


class Spawned:
    """A daemon that was made a moment ago."""

    def __init__(
        self,
        places: Places,
        process: subprocess.Popen[bytes],
        log_start: int,
        announced: tuple[int, int] | None,
    ) -> None:
        self.places = places
        self.process = process
        self.log_start = log_start
        """Where in its log its own lines begin."""
        self._announced = announced
        """What was there before of the file that it writes when it is ready."""

    def is_announced(self) -> bool:
        return _get_signature(self.places.daemon_file) != self._announced

    def let_go(self) -> None:
        """The daemon goes on by itself; without this, Popen would warn that the process still runs."""
        self.process.returncode = self.process.poll() or 0


def build_daemon_command(arguments: Sequence[str], home: str | None, log_file: str | None = None) -> list[str]:
    """The command that is the daemon."""
    command = [*DAEMON_COMMAND, *arguments]
    if home:
        command += ["--home", home]
    if log_file:
        command += ["--log-file", log_file]
    return command


def open_start_lock(places: Places) -> int:
    """The file that is locked while a daemon starts. Raises OSError."""
    for folder in (places.data, places.state, places.logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(places.data / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def spawn(places: Places, arguments: Sequence[str] = ()) -> Spawned:
    """Make the process; whoever does holds the lock. Raises OSError."""
    one_folder = len({places.config, places.data, places.state, places.runtime}) == 1
    command = build_daemon_command(arguments, str(places.data) if one_folder else None, str(places.log_file))
    log_start, announced = _get_file_size(places.log_file), _get_signature(places.daemon_file)
    # What is said before the log is open, or by a crash, must land somewhere too.
    errors = os.open(places.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, and a list of words
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",  # a daemon must not keep the folder busy that it was started in
            start_new_session=True,
        )
    finally:
        os.close(errors)
    return Spawned(places, process, log_start, announced)


# Ahead of the command that needs it.

_ahead: tuple[Spawned, int] | None = None
"""What was made ahead and is not needed yet, and the lock that is held meanwhile."""


def spawn_ahead(places: Places) -> None:
    """Make the process where certainly no daemon runs or starts; it ends with this one unless `take_ahead` takes it.

    Where that is not certain, or not possible, nothing happens: whoever needs a daemon finds out why.
    """
    global _ahead  # noqa: PLW0603 - there is one command in a process
    with suppress(OSError):
        if places.daemon_file.exists():
            return
        lock = open_start_lock(places)
        try:
            if not try_lock(lock) or places.daemon_file.exists():
                return
            _ahead = spawn(places), os.dup(lock)  # a lock is held for as long as one of its descriptors is open
        finally:
            os.close(lock)
        atexit.register(_end_ahead)


def is_ahead(places: Places) -> bool:
    return _ahead is not None and _ahead[0].places == places


def take_ahead(places: Places) -> tuple[Spawned, int] | None:
    """What was made ahead for these places, for whoever needs it now, and the lock, which is theirs to close."""
    global _ahead
    if not is_ahead(places):
        return None
    taken, _ahead = _ahead, None
    return taken


def _end_ahead() -> None:
    """Nobody needed it: the command ended before that, perhaps because it was a wrong one."""
    if _ahead is None:
        return
    made, lock = _ahead
    made.process.terminate()
    with suppress(subprocess.TimeoutExpired):
        made.process.wait(_END_SECONDS)
    os.close(lock)


def _get_signature(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _get_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

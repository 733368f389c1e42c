"""One daemon per home: the lock, and the file that tells clients where it is."""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from ostler.protocol.limits import DEFAULT_PORT
from ostler.protocol.places import Places
from ostler.server.config.private_files import write_atomically
from ostler.server.observability import logs

_PATIENCE_SECONDS: Final = 2.0
"""How long the lock of a dead daemon is waited for."""
_RETRY_SECONDS: Final = 0.01


class AlreadyRunning(Exception):
    """Another daemon has this home."""


@dataclass(slots=True)
class Instance:
    """The lock of a home, held for as long as the process lives; the kernel releases it, however the process ends."""

    places: Places
    lock: int
    """The descriptor of the locked file."""

    def announce(self, *, version: str, url: str, socket: str | None, port: int, started: str) -> None:
        found = {"pid": os.getpid(), "version": version, "url": url, "socket": socket, "started": started}
        content = orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n"
        try:
            write_atomically(self.places.daemon_file, content, mode=0o600)
        except OSError as error:
            # A full disk must not keep the daemon from answering reads. The file that a dead daemon left has space
            # for ours; where there is none, clients find the daemon by its socket.
            logs.log.warning("daemon_file_not_replaced", path=str(self.places.daemon_file), reason=error.strerror)
            with contextlib.suppress(OSError):
                _overwrite(self.places.daemon_file, content)
        with contextlib.suppress(OSError):  # a full disk; the next start chooses a port as the first one did
            self.places.port_file.write_text(f"{port}\n")

    def release(self) -> None:
        self.places.daemon_file.unlink(missing_ok=True)
        os.close(self.lock)


def lock_home(places: Places) -> Instance:
    """Take the lock of this home; a lock whose owner is dead does not count."""
    lock = os.open(places.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _take(lock, places):
        os.close(lock)
        raise AlreadyRunning(
            f"A daemon runs in {places.data} already, with pid {_read_owner_pid(places)}. "
            "Stop it with `ostler stop`, or choose another folder with --home."
        )
    # Beside the lock and not in daemon.json, which comes only when the daemon is ready.
    with contextlib.suppress(OSError):  # a full disk; only the error message of a second daemon lacks the pid then
        _pid_file(places).write_text(f"{os.getpid()}\n")
    return Instance(places, lock)


def _take(lock: int, places: Places) -> bool:
    """Whether the lock could be taken: a process that was being started by a killed owner may hold it for a moment."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline or _is_alive(_read_owner_pid(places)):
                return False
            # It is gone as soon as that process becomes the program that it is to be.
            time.sleep(_RETRY_SECONDS)
        else:
            return True


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def list_preferred_ports(places: Places) -> tuple[int, ...]:
    """The ports to try where nobody has asked for one: the last that this home had, then the usual one."""
    try:
        last = int(places.port_file.read_text()[:10])
    except (OSError, ValueError):
        return (DEFAULT_PORT,)
    return (last, DEFAULT_PORT) if 0 < last < 65536 else (DEFAULT_PORT,)


def _overwrite(path: Path, content: bytes) -> None:
    """Write into the existing file, which keeps the disk space that it has."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def _pid_file(places: Places) -> Path:
    return places.lock_file.with_suffix(".pid")


def _read_owner_pid(places: Places) -> str:
    try:
        return _pid_file(places).read_text().strip() or "unknown"
    except OSError:
        return "unknown"

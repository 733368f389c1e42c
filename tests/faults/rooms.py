"""Places with little room for a daemon's home, and ways to give it more."""

import contextlib
import resource
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.daemon import Daemon

_MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """A daemon whose disk is nearly full, and the way to free some of it."""

    kind: str
    daemon: Daemon
    free: Callable[[], None]


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Room]:
    """A file system of a few megabytes; where it cannot be mounted, a limit on the size of files."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m,mode=700", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        with limited_files(folder) as room:
            yield room
        return
    try:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(2 * _MEGABYTE))
        yield Room("a file system of 5 MB", Daemon(disk / "home"), ballast.unlink)
    finally:
        # Lazily: the working folder of nobody is in it, but a daemon that is just dying may hold a file.
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextlib.contextmanager
def limited_files(folder: Path) -> Iterator[Room]:
    """No file may grow past two megabytes; to SQLite that is an I/O error, not a full disk."""
    daemon = Daemon(folder / "home", prefix=["prlimit", f"--fsize={2 * _MEGABYTE}:unlimited"])

    def free() -> None:
        daemon.prefix = []
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    yield Room("files of at most 2 MB", daemon, free)

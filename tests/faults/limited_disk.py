"""Homes of daemons on disks with little space, and ways to free some of it."""

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
class LimitedDisk:
    """A daemon whose disk is nearly full, and the way to free some of it."""

    kind: str
    daemon: Daemon
    free: Callable[[], None]


@contextlib.contextmanager
def mount_small_disk(folder: Path) -> Iterator[LimitedDisk]:
    """A file system of a few megabytes; where it cannot be mounted, a limit on the size of files."""
    mount_point = folder / "disk"
    mount_point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m,mode=700", "tmpfs", str(mount_point)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        with limit_file_size(folder) as limited:
            yield limited
        return
    try:
        ballast = mount_point / "ballast"
        ballast.write_bytes(bytes(2 * _MEGABYTE))
        yield LimitedDisk("a file system of 5 MB", Daemon(mount_point / "home"), ballast.unlink)
    finally:
        # Lazily: a daemon that is just exiting may still have a file open on it.
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


@contextlib.contextmanager
def limit_file_size(folder: Path) -> Iterator[LimitedDisk]:
    """No file may grow past two megabytes; to SQLite that is an I/O error, not a full disk."""
    daemon = Daemon(folder / "home", prefix=["prlimit", f"--fsize={2 * _MEGABYTE}:unlimited"])

    def free() -> None:
        daemon.prefix = []
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    yield LimitedDisk("files of at most 2 MB", daemon, free)

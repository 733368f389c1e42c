"""Small, full and read-only file systems, and a user who is not root: real ones, where the machine allows them."""

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

DISK_BYTES: Final = 64 * 1024
_NOBODY: Final = 65534


@contextlib.contextmanager
def mount_small_disk(place: Path) -> Iterator[Path]:
    """A file system of 64 KiB at that place, which is gone afterwards; a test that cannot have one is skipped."""
    place.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(place))
    if mounted is not None:
        pytest.skip(f"this machine lets nobody mount a disk: {mounted}")
    try:
        yield place
    finally:
        assert _run("umount", "--lazy", str(place)) is None


def fill(disk: Path) -> Path:
    """Take all that is left of a disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def make_read_only(disk: Path) -> None:
    """Make it a disk that can only be read."""
    assert _run("mount", "-o", "remount,ro", str(disk)) is None


def _run(*words: str) -> str | None:
    """What it complained of; null where it worked."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"there is no {words[0]}"
    return None if done.returncode == 0 else done.stderr.strip()


@contextlib.contextmanager
def become_plain_user() -> Iterator[Path]:
    """Run as a user who is not root, in a folder of theirs; where the tests run as such a user, nothing is changed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # where everybody may look
        folder = Path(name).resolve()
        if os.geteuid() != 0:
            yield folder
            return
        os.chown(folder, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(0)


_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_FOLDER: Final = 0x00020000


def spread_folders(place: Path) -> None:
    """Lets ext4 put each folder made below into another part of the disk; elsewhere, nothing is done.

    It gives no number of a file anew that was freed in the last minutes, and looks through all of these in the same
    part of the disk whenever a file or folder is made. Tests make and remove so many that 12,000 folders took 6 to 11
    seconds of processor time; spread, they take half a second.
    """
    with contextlib.suppress(OSError), _open_folder(place) as folder:
        flags = fcntl.ioctl(folder, _GET_FLAGS, bytes(8))
        fcntl.ioctl(folder, _SET_FLAGS, (int.from_bytes(flags, sys.byteorder) | _TOP_FOLDER).to_bytes(8, sys.byteorder))


@contextlib.contextmanager
def _open_folder(place: Path) -> Iterator[int]:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

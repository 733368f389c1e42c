"""Private files and folders: check that only our user can read them, and write files atomically."""

import os
import stat
from pathlib import Path


class UnsafeFile(Exception):
    """A file or folder of ours is open to others; the message says which and how to mend it."""


def ensure_private_folder(path: Path) -> None:
    """Create the folder, or check that nobody else can read the existing one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFile(f"{path} is not a folder.")
    _check_owner_only(path, found, "700")


def check_private_file(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{path} is not a plain file.")
    _check_owner_only(path, found, "600")


def _check_owner_only(path: Path, found: os.stat_result, mode: str) -> None:
    if found.st_uid != os.getuid():
        raise UnsafeFile(f"{path} belongs to another user (uid {found.st_uid}).")
    if found.st_mode & 0o077:
        raise UnsafeFile(f"{path} is open to others ({stat.filemode(found.st_mode)}). Run: chmod {mode} {path}")


def write_atomically(path: Path, content: bytes, *, mode: int) -> None:
    """Replace the file as a whole: a reader sees the old one or the new one, also after a crash."""
    # One name, always the same: what a crash leaves behind here is overwritten by the next one.
    temporary = path.with_name(f".{path.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

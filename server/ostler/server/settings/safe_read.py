"""Reads the bytes of a settings file: of regular files of a limited size only, so that the daemon never blocks."""

import os
import stat
from typing import Final

MAX_BYTES: Final = 1 << 20


class Unreadable(Exception):
    """There is something, but it is no settings file."""


def read_bytes(file: str) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        # Without waiting: somebody may have put a pipe there.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(file):
            raise Unreadable("It is a link that leads nowhere.") from None
        return None
    except (OSError, ValueError) as error:
        raise _build_error(error) from None
    try:
        return _read_content(descriptor)
    except OSError as error:
        raise _build_error(error) from None
    finally:
        os.close(descriptor)


def _read_content(descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Unreadable("It is no regular file.")
    data = b""
    while more := os.read(descriptor, MAX_BYTES + 1 - len(data)):
        data += more
        if len(data) > MAX_BYTES:
            raise Unreadable(f"It is larger than {MAX_BYTES // 1024} KB.")
    return data


def _build_error(error: Exception) -> Unreadable:
    return Unreadable(f"It cannot be read: {getattr(error, 'strerror', None) or error}.")

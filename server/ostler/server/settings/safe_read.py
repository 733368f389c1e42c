"""Reads the bytes of a settings file: of regular files of a limited size only, so that the daemon never blocks."""

import os
from typing import Final

from ostler.tools.fs.regular_file import NotRegular, read_regular_file

MAX_BYTES: Final = 1 << 20


class Unreadable(Exception):
    """There is something, but it is no settings file."""


def read_bytes(file: str) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        data = read_regular_file(file, MAX_BYTES + 1)
    except NotRegular:
        raise Unreadable("It is no regular file.") from None
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(file):
            raise Unreadable("It is a link that leads nowhere.") from None
        return None
    except (OSError, ValueError) as error:
        raise _build_error(error) from None
    if len(data) > MAX_BYTES:
        raise Unreadable(f"It is larger than {MAX_BYTES // 1024} KB.")
    return data


def _build_error(error: Exception) -> Unreadable:
    return Unreadable(f"It cannot be read: {getattr(error, 'strerror', None) or error}.")

"""Opens and reads regular files: never a pipe or a device, whose reader would wait, or a folder."""

import os
import stat
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegular(Exception):
    """There is something else; `kind` says what, as "a folder". Who reads the file finds the words for it."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"it is {kind}")
        self.kind = kind

    @property
    def is_folder(self) -> bool:
        return self.kind == "a folder"


def open_regular_file(path: str, *, follow: bool = True) -> int:
    """A descriptor of the file; `follow`: also where the path is a link. Raises NotRegular and OSError."""
    # Looked at first: to open some devices does something.
    _check_kind(os.stat(path, follow_symlinks=follow).st_mode)
    # Non-blocking: since then it may have become a FIFO, which would wait for a writer.
    descriptor = os.open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    try:
        _check_kind(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular_file(path: str, limit: int, *, follow: bool = True) -> bytes:
    """At most `limit` bytes of its beginning. Blocks. Raises as `open_regular_file`."""
    descriptor = open_regular_file(path, follow=follow)
    try:
        return read_up_to(descriptor, limit)
    finally:
        os.close(descriptor)


def read_up_to(descriptor: int, limit: int) -> bytes:
    """At most `limit` bytes from where the descriptor stands."""
    data = b""
    while more := os.read(descriptor, limit - len(data)):
        data += more
    return data


def _check_kind(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    for is_kind, kind in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    ):
        if is_kind(mode):
            raise NotRegular(kind)
    raise NotRegular("no regular file")

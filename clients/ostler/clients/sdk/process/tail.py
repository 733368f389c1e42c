"""The end of a log file, and what is added to it, also when the log is rotated meanwhile."""

import codecs
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_BLOCK: Final = 64 * 1024
_FOLLOW_SECONDS: Final = 0.2


def read_last_lines(path: Path, count: int, *, since: int = 0) -> list[str]:
    """The last `count` lines of a file, none of them from before the byte `since`."""
    try:
        with path.open("rb") as file:
            return _read_end(file, count, since).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def _read_end(file: BinaryIO, count: int, since: int = 0) -> bytes:
    """The last lines as they are; the file is then read up to where they end."""
    end = start = file.seek(0, os.SEEK_END)
    kept = b""
    # One line end more than lines: the last line has one too.
    while count and start > since and kept.count(b"\n") <= count:
        size = min(_BLOCK, start - since)
        start -= size
        file.seek(start)
        kept = file.read(size) + kept
    file.seek(end)
    return b"".join(kept.splitlines(keepends=True)[-count:]) if count else b""


def follow(path: Path, count: int) -> Iterator[str]:
    """The last lines, then what is added, as it comes; a new file of that name is read from its start."""
    # A character may be written in two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file = _open_file(path)
    try:
        if file is not None:
            yield decoder.decode(_read_end(file, count))
        while True:
            text = file.read() if file is not None else b""
            if text:
                yield decoder.decode(text)
            elif file is None or _was_replaced(file, path):
                file = _reopen_file(file, path)
            else:
                time.sleep(_FOLLOW_SECONDS)
    finally:
        if file is not None:
            file.close()


def _open_file(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _was_replaced(file: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False  # between the move and the new file
    here = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or there.st_size < file.tell()


def _reopen_file(file: BinaryIO | None, path: Path) -> BinaryIO | None:
    fresh = _open_file(path)
    if fresh is None:
        time.sleep(_FOLLOW_SECONDS)
        return file
    if file is not None:
        file.close()
    return fresh

"""What a command prints: a file from its start, so that it can outlive the call and the daemon, bounded on the disk.

Of very much output the beginning and the end are kept: the middle becomes a hole in the file, so that places in it stay
what they are and the disk holds no more than a few megabytes of each command.
"""

import codecs
import contextlib
import ctypes
import os
import secrets
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ostler.tools.shell.output.output_file_pool import SpareFiles, spares_of

MAX_BYTES: Final = 4 * 1024**3
"""A command that has printed as much does nothing else: it is ended."""
_KEPT: Final = 500_000
"""Bytes of the beginning, and of the end, that are shown."""
SHOWN_BYTES: Final = 2 * _KEPT
"""Of more, only these are shown; all that the file has of it is `PrintedText`."""
_HEAD_ON_DISK: Final = 16 * 1024 * 1024
_TAIL_ON_DISK: Final = 32 * 1024 * 1024
_HOLE_FROM: Final = 64 * 1024 * 1024
"""Fewer bytes are not worth a hole."""
_PUNCH_HOLE: Final = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
_AT_ONCE: Final = 64 * 1024
_NEWEST: Final = 32 * 1024
_NOTICE: Final = b"Terminated\n"


@dataclass(frozen=True, slots=True)
class Printed:
    """A piece of the output."""

    offset: int
    """Where it begins: later than asked for, where there was more than anybody wants to see at once."""
    data: bytes
    lines: int
    """Lines that ended between the place that was asked for and the end of this piece."""

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Ending:
    """What the shell wrote down at its end."""

    folder: str | None
    """Where it was; null where the command did not let it say so."""
    exit_code: int | None
    """Null where it was ended before it could tell."""


@dataclass(slots=True)
class OutputFile:
    """The file of one command, with a small one beside it for how it ended. All of it blocks."""

    path: str
    descriptor: int
    spares: SpareFiles | None = None
    """Where it goes when it is not needed any more; null: it is removed."""

    @classmethod
    def create(cls, place: Path, prefix: str, *, may_be_used_again: bool = True) -> "OutputFile":
        path = str(place / f"{prefix}{secrets.token_hex(8)}.out")
        spares = spares_of(str(place)) if may_be_used_again else None
        # Everybody writes at its end: what one program writes never covers what another wrote.
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if spares is not None and spares.take(path):
            return cls(path, os.open(path, flags), spares)
        return cls(path, cls._made(place, path, flags | os.O_CREAT | os.O_EXCL), spares)

    @staticmethod
    def _made(place: Path, path: str, flags: int) -> int:
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    @classmethod
    def open(cls, path: str) -> "OutputFile":
        """The file of a command that an earlier daemon started. Raises OSError."""
        return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))

    @property
    def end_path(self) -> str:
        return f"{self.path}.end"

    def make_end_file(self) -> None:
        """So that a sandbox can let the shell write to it and to nothing beside it."""
        os.close(os.open(self.end_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def newest(self, place: int, most: int = _NEWEST) -> Printed:
        """What came after a place; of very much only the end."""
        size, lines, tail = self.size, 0, b""
        if size - place > _HEAD_ON_DISK:
            # Not worth reading, and perhaps a hole already; lines that nobody saw are not counted.
            place = size - most
        while place < size:
            chunk = os.pread(self.descriptor, min(1024 * 1024, size - place), place)
            if not chunk:
                break
            place += len(chunk)
            lines += chunk.count(b"\n")
            tail = (tail + chunk)[-most:]
        return Printed(place - len(tail), tail, lines)

    def after(self, place: int, most: int) -> Printed:
        """What came after a place, from there on; a hole is passed over."""
        size = self.size
        place = max(0, min(place, size))
        if size > _HOLE_FROM and place < _HEAD_ON_DISK:
            most = min(most, _HEAD_ON_DISK - place)
        elif size > _HOLE_FROM:
            place = max(place, size - _TAIL_ON_DISK)
        data = os.pread(self.descriptor, min(most, size - place), place)
        return Printed(place, data, data.count(b"\n"))

    def shown(self) -> str:
        """All of it, or its beginning and its end."""
        size = self.size
        if size <= SHOWN_BYTES:
            return decoded(os.pread(self.descriptor, size, 0))
        head, tail = os.pread(self.descriptor, _KEPT, 0), os.pread(self.descriptor, _KEPT, size - _KEPT)
        return decoded(head) + left_out(size - SHOWN_BYTES) + decoded(tail)

    def at_once(self, most: int) -> "tuple[str, Ending] | None":
        """All of it and how it ended, where both are short and in the kernel's memory; null where that would wait."""
        size = self.size
        nowait = getattr(os, "RWF_NOWAIT", None)
        if size > most or nowait is None:
            return None
        try:
            data = _in_memory(self.descriptor, size, nowait)
            end = os.open(self.end_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            ended = _in_memory(end, os.fstat(end).st_size, nowait)
        except OSError:
            return None
        finally:
            os.close(end)
        return decoded(data), _ending(ended)

    def take_back_notice(self, place: int) -> None:
        """What the shell says of the end of its command, where we have ended both: it stands behind this place."""
        said = os.pread(self.descriptor, _AT_ONCE, place)
        lines = said.splitlines(keepends=True)
        if len(said) < _AT_ONCE and _NOTICE in lines:
            lines.remove(_NOTICE)
            os.ftruncate(self.descriptor, place)
            os.pwrite(self.descriptor, b"".join(lines), place)

    def trim(self) -> None:
        """Give back what nobody will look at."""
        hole = hole_in(self.size)
        if hole and (kernel := _kernel()) is not None:
            # Where the file system has no holes the file grows to its limit.
            kernel.fallocate(
                self.descriptor, _PUNCH_HOLE, ctypes.c_int64(hole.start), ctypes.c_int64(len(hole) // 4096 * 4096)
            )

    def ending(self) -> Ending:
        """The folder, where it is known, and the exit code in the last line."""
        data = b""
        with contextlib.suppress(OSError), open(self.end_path, "rb") as file:
            data = file.read(65536)
        return _ending(data)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        self.close()
        if self.spares is not None and self.spares.give(self.path):
            return
        for path in (self.path, self.end_path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def hole_in(size: int) -> range:
    """The places in a file of so many bytes that nobody looks at, whether they are a hole already or not."""
    return range(_HEAD_ON_DISK, size - _TAIL_ON_DISK) if size > _HOLE_FROM else range(0)


def left_out(count: int) -> str:
    """What stands in the place of bytes that are not shown."""
    return f"\n… ({count} bytes left out) …\n"


def _in_memory(descriptor: int, size: int, nowait: int) -> bytes:
    """Raises OSError where it is not there as a whole."""
    if not size:
        return b""
    buffer = bytearray(size)
    if os.preadv(descriptor, [buffer], 0, nowait) != size:
        raise BlockingIOError
    return bytes(buffer)


def _ending(data: bytes) -> Ending:
    folder, _, code = data.removesuffix(b"\n").rpartition(b"\n")
    if not code.isdigit():
        # The shell above was ended before it could write: all that there is are the words of the one below.
        return Ending(_folder(data.removesuffix(b"\n")), None)
    return Ending(_folder(folder), int(code))


def _folder(written: bytes) -> str | None:
    return os.fsdecode(written) if written.startswith(b"/") else None


def decoded(data: bytes) -> str:
    """In pieces: one call for all of it would keep the event loop from the interpreter's lock meanwhile."""
    if len(data) <= _AT_ONCE:
        return data.decode("utf-8", "replace")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = (data[place : place + _AT_ONCE] for place in range(0, len(data), _AT_ONCE))
    return "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])


@cache
def _kernel() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None

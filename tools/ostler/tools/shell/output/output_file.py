"""The file that a command's output goes to, so that it can outlive the call and the daemon; bounded on the disk.

Of very much output the beginning and the end are kept: the middle becomes a hole in the file, so that byte offsets stay
valid and the disk holds no more than a few megabytes of each command.
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

from ostler.tools.shell.output.output_file_pool import OutputFilePool, find_pool

MAX_BYTES: Final = 4 * 1024**3
"""A command that has printed more is ended."""
_SHOWN_END_BYTES: Final = 500_000
"""Bytes of the beginning, and of the end, that are shown."""
SHOWN_BYTES: Final = 2 * _SHOWN_END_BYTES
"""Of more output, only these are shown; all that the file has of it is `FullOutput`."""
_HEAD_ON_DISK: Final = 16 * 1024 * 1024
_TAIL_ON_DISK: Final = 32 * 1024 * 1024
_HOLE_FROM: Final = 64 * 1024 * 1024
"""Fewer bytes are not worth a hole."""
_PUNCH_HOLE: Final = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
_CHUNK_BYTES: Final = 64 * 1024
_NEWEST_BYTES: Final = 64 * 1024
"""As much as a client that comes later is shown: what was left out in between would be missing there."""
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_NOTICE: Final = b"Terminated\n"


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of the output."""

    offset: int
    """The byte offset of its beginning: later than asked for, where there was more than the limit."""
    data: bytes
    lines: int
    """Lines that ended between the offset that was asked for and the end of this piece."""
    skipped_chars: int = 0
    """Characters between the offset that was asked for and the beginning of this piece.

    Of more than is worth reading, the bytes are counted instead.
    """

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Ending:
    """What the shell wrote into its end file."""

    folder: str | None
    """The shell's last folder; null where the command kept it from writing that."""
    exit_code: int | None
    """Null where the shell was ended before it could write it."""


@dataclass(slots=True)
class OutputFile:
    """The file of one command, with a small one beside it for how it ended. All of it blocks."""

    path: str
    descriptor: int
    pool: OutputFilePool | None = None
    """The pool that it goes to when it is not needed any more; null: it is removed."""

    @classmethod
    def create(cls, place: Path, prefix: str, *, may_be_used_again: bool = True) -> "OutputFile":
        path = str(place / f"{prefix}{secrets.token_hex(8)}.out")
        spares = find_pool(str(place)) if may_be_used_again else None
        # All programs append: none overwrites what another wrote.
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if spares is not None and spares.take(path):
            return cls(path, os.open(path, flags), spares)
        return cls(path, cls._make_file(place, path, flags | os.O_CREAT | os.O_EXCL), spares)

    @staticmethod
    def _make_file(place: Path, path: str, flags: int) -> int:
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
        """Made before the start, so that a sandbox can allow the shell to write to this file only."""
        os.close(os.open(self.end_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read_newest(self, place: int, most: int = _NEWEST_BYTES) -> OutputPiece:
        """The output after an offset; of very much only the end."""
        size, lines, skipped, tail = self.size, 0, 0, b""
        if size - place > _HEAD_ON_DISK:
            # Not worth reading, and perhaps a hole already; its lines are not counted.
            skipped = size - most - place
            place = size - most
        while place < size:
            chunk = os.pread(self.descriptor, min(1024 * 1024, size - place), place)
            if not chunk:
                break
            place += len(chunk)
            lines += chunk.count(b"\n")
            tail += chunk
            skipped += count_characters(tail[:-most])
            tail = tail[-most:]
        return OutputPiece(place - len(tail), tail, lines, skipped)

    def read_after(self, place: int, most: int) -> OutputPiece:
        """The output from an offset on; a hole is skipped."""
        size = self.size
        place = max(0, min(place, size))
        if size > _HOLE_FROM and place < _HEAD_ON_DISK:
            most = min(most, _HEAD_ON_DISK - place)
        elif size > _HOLE_FROM:
            place = max(place, size - _TAIL_ON_DISK)
        data = os.pread(self.descriptor, min(most, size - place), place)
        return OutputPiece(place, data, data.count(b"\n"))

    def read_shown(self) -> str:
        """All of it, or its beginning and its end."""
        size = self.size
        if size <= SHOWN_BYTES:
            return decode_output(os.pread(self.descriptor, size, 0))
        head, tail = (
            os.pread(self.descriptor, _SHOWN_END_BYTES, 0),
            os.pread(self.descriptor, _SHOWN_END_BYTES, size - _SHOWN_END_BYTES),
        )
        return decode_output(head) + format_left_out(size - SHOWN_BYTES) + decode_output(tail)

    def read_nowait(self, most: int) -> "tuple[str, Ending] | None":
        """All output and how it ended, where both are short and in the page cache; null where reading would block."""
        size = self.size
        nowait = getattr(os, "RWF_NOWAIT", None)
        if size > most or nowait is None:
            return None
        try:
            data = _read_cached(self.descriptor, size, nowait)
            end = os.open(self.end_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            ended = _read_cached(end, os.fstat(end).st_size, nowait)
        except OSError:
            return None
        finally:
            os.close(end)
        return decode_output(data), _parse_ending(ended)

    def remove_kill_notices(self, place: int) -> None:
        """Removes the shell's "Terminated" lines after an offset, where we ended the command and the shell."""
        printed = os.pread(self.descriptor, _CHUNK_BYTES, place)
        lines = printed.splitlines(keepends=True)
        if len(printed) < _CHUNK_BYTES and _NOTICE in lines:
            # One for each program: a loop may have started another after the first was ended.
            os.ftruncate(self.descriptor, place)
            os.pwrite(self.descriptor, b"".join(line for line in lines if line != _NOTICE), place)

    def append_line(self, line: str) -> None:
        """Adds a remark of ours after the end of the command."""
        os.pwrite(self.descriptor, f"\n{line}\n".encode("utf-8", "replace"), self.size)

    def trim(self) -> None:
        """Gives the middle of a large file, which is never shown, back to the disk."""
        hole = compute_hole(self.size)
        if hole and (kernel := _load_libc()) is not None:
            # Where the file system supports no holes, the file grows to its limit.
            kernel.fallocate(
                self.descriptor, _PUNCH_HOLE, ctypes.c_int64(hole.start), ctypes.c_int64(len(hole) // 4096 * 4096)
            )

    def read_ending(self) -> Ending:
        """The shell's last folder, where it is known, and its exit code."""
        data = b""
        with contextlib.suppress(OSError), open(self.end_path, "rb") as file:
            data = file.read(65536)
        return _parse_ending(data)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        self.close()
        if self.pool is not None and self.pool.put_back(self.path):
            return
        for path in (self.path, self.end_path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def compute_hole(size: int) -> range:
    """The byte range of a file of that size that is never shown, whether it is a hole already or not."""
    return range(_HEAD_ON_DISK, size - _TAIL_ON_DISK) if size > _HOLE_FROM else range(0)


def count_characters(data: bytes) -> int:
    """How many characters of UTF-8 begin in it."""
    return len(data.translate(None, _CONTINUATION))


def format_left_out(count: int) -> str:
    """The text in place of bytes that are not shown."""
    return f"\n… ({count} bytes left out) …\n"


def _read_cached(descriptor: int, size: int, nowait: int) -> bytes:
    """Reads from the page cache; raises OSError where not all of it is there."""
    if not size:
        return b""
    buffer = bytearray(size)
    if os.preadv(descriptor, [buffer], 0, nowait) != size:
        raise BlockingIOError
    return bytes(buffer)


def _parse_ending(data: bytes) -> Ending:
    folder, _, code = data.removesuffix(b"\n").rpartition(b"\n")
    if not code.isdigit():
        # The outer shell was ended before it could write: there is only the folder, from the inner one.
        return Ending(_parse_folder(data.removesuffix(b"\n")), None)
    return Ending(_parse_folder(folder), int(code))


def _parse_folder(written: bytes) -> str | None:
    return os.fsdecode(written) if written.startswith(b"/") else None


def decode_output(data: bytes) -> str:
    """Decodes in pieces: one call for all of it would keep the event loop from the interpreter's lock meanwhile."""
    if len(data) <= _CHUNK_BYTES:
        return data.decode("utf-8", "replace")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = (data[place : place + _CHUNK_BYTES] for place in range(0, len(data), _CHUNK_BYTES))
    return "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])


@cache
def _load_libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None

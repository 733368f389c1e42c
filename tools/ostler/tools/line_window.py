"""A few lines out of a file of any length, in one pass and in bounded memory."""

import hashlib
import os
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from ostler.tools.text_files import MAX_FILE_BYTES, Unreadable, decode_bytes, detect, open_regular, refuse_nul

_CHUNK: Final = 1024 * 1024
_KEPT_OF_A_LINE: Final = 16 * 1024
"""Bytes: more than the longest line that is shown needs in any encoding."""
_KEPT_IN_ALL: Final = 8 * 1024 * 1024
_WIDE_LIMIT: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a file, and what is to be remembered of the whole."""

    lines: list[str]
    overflowed: bool
    """There were more characters than anybody wants: not all lines are there."""
    total_lines: int
    status: os.stat_result
    size: int
    digest: str


def look(path: str, first: int, count: int) -> Window:
    """`count` lines from line `first` on. Raises Unreadable and OSError."""
    descriptor = open_regular(path)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        head = file.read(8192)
        encoding = detect(path, head, max(status.st_size, len(head)))
        collector = _Collector(first, first + count)
        if encoding.codec.startswith(("utf-16", "utf-32")):
            digest, size = _wide(path, head, file, encoding.codec, len(encoding.bom), collector)
        else:
            digest, size = _narrow(path, head, file, len(encoding.bom), collector)
    lines = _decoded(path, collector.lines())
    return Window(lines, collector.overflowed, collector.total, status, size, digest)


def _narrow(path: str, head: bytes, file: BinaryIO, skipped: int, collector: "_Collector") -> tuple[str, int]:
    """UTF-8 and the encodings of one byte a character: a line ends where a byte says so."""
    digest, size, chunk = hashlib.sha256(), 0, head
    while chunk:
        digest.update(chunk)
        collector.take(chunk if size else chunk[skipped:])
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise Unreadable(f"{path} does not end within 1 GiB.")
        chunk = file.read(_CHUNK)
    collector.finish()
    return digest.hexdigest(), size


def _wide(path: str, head: bytes, file: BinaryIO, codec: str, skipped: int, collector: "_Collector") -> tuple[str, int]:
    """Two or four bytes a character: the whole is turned into UTF-8 first."""
    data = head + file.read(_WIDE_LIMIT)
    if len(data) > _WIDE_LIMIT:
        raise Unreadable(f"{path} is too large for its encoding ({codec.upper()}, more than 64 MB).")
    try:
        text = data[skipped:].decode(codec)
    except UnicodeDecodeError:
        raise Unreadable(f"{path} begins as {codec.upper()}, but is damaged further on.") from None
    collector.take(text.encode())
    collector.finish()
    return hashlib.sha256(data).hexdigest(), len(data)


@dataclass(slots=True)
class _Collector:
    """Counts all lines and keeps those that are wanted."""

    first: int
    end: int
    total: int = 0
    overflowed: bool = False
    _line: int = 1
    _open: bool = False
    """Something stands in the line that is being read."""
    _part: bytearray = field(default_factory=bytearray)
    _kept: list[bytes] = field(default_factory=list)
    _kept_bytes: int = 0

    def take(self, chunk: bytes) -> None:
        breaks = chunk.count(b"\n")
        wanted = self._line < self.end and self._line + breaks >= self.first
        if wanted and not self.overflowed:
            self._take_lines(chunk)
        else:
            self._line += breaks
            self._open = not chunk.endswith(b"\n") if chunk else self._open

    def _take_lines(self, chunk: bytes) -> None:
        start = 0
        while start < len(chunk):
            stop = chunk.find(b"\n", start)
            ended = stop >= 0
            if self.first <= self._line < self.end and not self.overflowed:
                self._keep(chunk[start : stop if ended else len(chunk)], ended=ended)
            self._open = not ended
            if not ended:
                return
            self._line += 1
            start = stop + 1
            if self._line >= self.end or self.overflowed:
                rest = chunk[start:]
                self._line += rest.count(b"\n")
                self._open = bool(rest) and not rest.endswith(b"\n")
                return

    def _keep(self, piece: bytes, *, ended: bool) -> None:
        room = _KEPT_OF_A_LINE - len(self._part)
        self._part += piece[:room]
        if ended:
            self._close_line()

    def _close_line(self) -> None:
        self._kept.append(bytes(self._part))
        self._kept_bytes += len(self._part)
        self._part.clear()
        self.overflowed = self._kept_bytes > _KEPT_IN_ALL

    def finish(self) -> None:
        if self._open and self.first <= self._line < self.end and not self.overflowed:
            self._close_line()
        self.total = self._line if self._open else self._line - 1

    def lines(self) -> list[bytes]:
        return self._kept


def _decoded(path: str, lines: list[bytes]) -> list[str]:
    for line in lines:
        refuse_nul(path, line)
    # A long line may have been cut within a character.
    cut = any(len(line) >= _KEPT_OF_A_LINE for line in lines)
    text, encoding = decode_bytes(b"\n".join(lines)) if not cut else ("", None)
    if encoding is None:
        return [decode_bytes(line, final=len(line) < _KEPT_OF_A_LINE)[0].removesuffix("\r") for line in lines]
    return [line.removesuffix("\r") for line in text.split("\n")] if lines else []

"""A few lines out of a file of any length, in one pass and in bounded memory."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from ostler.tools.fs.cached_io import Content, WouldWait
from ostler.tools.fs.encoding import PIECE, UTF_8, Encoding, encoding_of, pieces_of
from ostler.tools.fs.file_type import HEAD
from ostler.tools.fs.text_file import MAX_FILE_BYTES, Unreadable, damaged, detect, refuse_nul, size_in_words
from ostler.tools.text import longest

_CHUNK: Final = 1024 * 1024
_BYTES_A_CHARACTER: Final = 4
_MARGIN: Final = 8 * 1024
_KEPT_IN_ALL: Final = 8 * 1024 * 1024
_WIDE_LIMIT: Final = 64 * 1024 * 1024
_RETURNS_LIMIT: Final = 8 * 1024 * 1024
"""Longer files that begin without a line end have a long line, and are not from the first Macintosh."""


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


def kept_of_a_line(count: int) -> int:
    """Bytes: more than the longest line that is shown needs in any encoding."""
    return longest(count) * _BYTES_A_CHARACTER + _MARGIN


def look_at(content: Content, first: int, count: int) -> Window:
    """The same of a small file that was read already, if it is plain text. Raises WouldWait and Unreadable."""
    data = content.data
    if detect(content.place, data[:HEAD], len(data)) is not UTF_8 or _only_returns(data) or not _is_utf8(data):
        raise WouldWait  # any other kind of text takes longer
    # All at once: line by line it takes ten times as long.
    split = data.split(b"\n")
    total = len(split) if split[-1] else len(split) - 1
    wanted = split[first - 1 : min(first - 1 + count, total)]
    lines = _decoded_at_once(content.place, wanted, len(data))
    return Window(lines, False, total, content.status, len(data), hashlib.sha256(data).hexdigest())


def _decoded_at_once(path: str, lines: list[bytes], size: int) -> list[str]:
    """Of a whole file that is known to be UTF-8."""
    joined = b"\n".join(lines)
    refuse_nul(path, joined, size)
    text = joined.decode()
    found = text.split("\n") if lines else []
    return [line.removesuffix("\r") for line in found] if "\r" in text else found


def _only_returns(data: bytes) -> bool:
    """Lines as they ended on the first Macintosh."""
    return b"\r" in data and b"\n" not in data


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def window(path: str, status: os.stat_result, file: BinaryIO, first: int, count: int) -> Window:
    """`count` lines of an open file. Raises Unreadable and OSError."""
    head = file.read(HEAD)
    size = max(status.st_size, len(head))
    encoding = detect(path, head, size)
    collector = _Collector(first, first + count, kept_of_a_line(count))
    if encoding.codec != UTF_8.codec:
        digest, size = _whole(path, head, file, encoding, collector)
        encoding = UTF_8
    elif size <= _RETURNS_LIMIT and _only_returns(head):
        found = _encoding(file, encoding.bom)
        file.seek(0)
        digest, size = _whole(path, b"", file, found, collector)
        encoding = UTF_8
    else:
        digest, size = _narrow(path, head, file, encoding, collector)
        if any(not line.isascii() for line in collector.lines()):  # else all encodings say the same
            encoding = _encoding(file, encoding.bom)
    lines = _decoded(path, collector, encoding, size)
    return Window(lines, collector.overflowed, collector.total, status, size, digest)


def _encoding(file: BinaryIO, bom: bytes) -> Encoding:
    """Of the whole file, as Edit takes it."""

    def pieces() -> Iterator[bytes]:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece

    return encoding_of(pieces, bom)


def _narrow(path: str, head: bytes, file: BinaryIO, encoding: Encoding, collector: "_Collector") -> tuple[str, int]:
    """In pieces: in UTF-8, and in all the old encodings, a line ends where a byte says so."""
    digest, size, chunk = hashlib.sha256(), 0, head
    while chunk:
        digest.update(chunk)
        collector.take(chunk if size else chunk[len(encoding.bom) :])
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise Unreadable(f"{path} does not end within 1 GiB.")
        chunk = file.read(_CHUNK)
    collector.finish()
    return digest.hexdigest(), size


def _whole(path: str, head: bytes, file: BinaryIO, encoding: Encoding, collector: "_Collector") -> tuple[str, int]:
    """Any encoding: all of it is turned into UTF-8 first."""
    data = head + file.read(_WIDE_LIMIT)
    if len(data) > _WIDE_LIMIT:
        words = f"{encoding.codec.upper()}, more than {size_in_words(_WIDE_LIMIT)}"
        raise Unreadable(f"{path} is too large for its encoding ({words}).")
    try:
        texts = [text for text, _ in encoding.decoded(pieces_of(data))]
    except UnicodeDecodeError:
        raise damaged(path, encoding) from None
    returns = not any("\n" in text for text in texts)
    for text in texts:
        collector.take((text.replace("\r", "\n") if returns else text).encode())
    collector.finish()
    return hashlib.sha256(data).hexdigest(), len(data)


@dataclass(slots=True)
class _Collector:
    """Counts all lines and keeps those that are wanted."""

    first: int
    end: int
    kept_of_a_line: int
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
        room = self.kept_of_a_line - len(self._part)
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


def _decoded(path: str, collector: _Collector, encoding: Encoding, size: int) -> list[str]:
    lines = collector.lines()
    for line in lines:
        refuse_nul(path, line, size)
    try:
        # A long line may have been cut within a character.
        texts = [encoding.decode_line(line, cut=len(line) >= collector.kept_of_a_line) for line in lines]
    except UnicodeDecodeError:  # somebody wrote to it between the two looks
        texts = [line.decode(encoding.codec, "replace") for line in lines]
    return [text.removesuffix("\r") for text in texts]

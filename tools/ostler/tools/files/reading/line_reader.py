"""Reads a window of lines out of a file of any length, in one pass and in bounded memory."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from ostler.tools.fs.cached_io import FileContent, WouldBlock
from ostler.tools.fs.encoding import PIECE, UTF_8, Encoding, detect_encoding, split_pieces
from ostler.tools.fs.file_type import HEAD_BYTES
from ostler.tools.fs.text_file import (
    MAX_FILE_BYTES,
    Unreadable,
    detect_from_head,
    format_size,
    make_damaged_error,
    refuse_nul,
)
from ostler.tools.text import get_line_limit

_CHUNK: Final = 1024 * 1024
_BYTES_PER_CHARACTER: Final = 4
_MARGIN: Final = 8 * 1024
_MAX_KEPT_BYTES: Final = 8 * 1024 * 1024
_WIDE_LIMIT: Final = 64 * 1024 * 1024
_RETURNS_LIMIT: Final = 8 * 1024 * 1024
"""Longer files that begin without LF are taken to have a long line, not CR alone as line end."""


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a file, and what is to be remembered of the whole."""

    lines: list[str]
    overflowed: bool
    """The lines were longer in all than is kept: not all of them are there."""
    total_lines: int
    status: os.stat_result
    size: int
    digest: str


def get_line_byte_limit(count: int) -> int:
    """How many bytes of a line are kept: more than the longest line that is shown needs in any encoding."""
    return get_line_limit(count) * _BYTES_PER_CHARACTER + _MARGIN


def read_cached_window(content: FileContent, first: int, count: int) -> Window:
    """The same for a small file that was read already, if it is UTF-8. Raises WouldBlock and Unreadable."""
    data = content.data
    if (
        detect_from_head(content.real_path, data[:HEAD_BYTES], len(data)) is not UTF_8
        or _has_only_returns(data)
        or not _is_utf8(data)
    ):
        raise WouldBlock  # any other encoding takes longer: it is decoded on a thread
    # All at once: line by line it takes ten times as long.
    split = data.split(b"\n")
    total = len(split) if split[-1] else len(split) - 1
    wanted = split[first - 1 : min(first - 1 + count, total)]
    lines = _decode_utf8(content.real_path, wanted, len(data))
    return Window(lines, False, total, content.status, len(data), hashlib.sha256(data).hexdigest())


def _decode_utf8(path: str, lines: list[bytes], size: int) -> list[str]:
    """Decodes lines of a file that is known to be UTF-8 as a whole, in one call."""
    joined = b"\n".join(lines)
    refuse_nul(path, joined, size)
    text = joined.decode()
    found = text.split("\n") if lines else []
    return [line.removesuffix("\r") for line in found] if "\r" in text else found


def _has_only_returns(data: bytes) -> bool:
    """Whether lines end with CR alone, as on the first Macintosh."""
    return b"\r" in data and b"\n" not in data


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_window(path: str, status: os.stat_result, file: BinaryIO, first: int, count: int) -> Window:
    """Reads `count` lines of an open file. Raises Unreadable and OSError."""
    head = file.read(HEAD_BYTES)
    size = max(status.st_size, len(head))
    encoding = detect_from_head(path, head, size)
    collector = _LineCollector(first, first + count, get_line_byte_limit(count))
    if encoding.codec != UTF_8.codec:
        digest, size = _collect_decoded(path, head, file, encoding, collector)
        encoding = UTF_8
    elif size <= _RETURNS_LIMIT and _has_only_returns(head):
        found = _detect_encoding(file, encoding.bom)
        file.seek(0)
        digest, size = _collect_decoded(path, b"", file, found, collector)
        encoding = UTF_8
    else:
        digest, size = _collect_bytes(path, head, file, encoding, collector)
        if any(not line.isascii() for line in collector.get_lines()):  # ASCII is the same in all encodings
            encoding = _detect_encoding(file, encoding.bom)
    lines = _decode_lines(path, collector, encoding, size)
    return Window(lines, collector.overflowed, collector.total, status, size, digest)


def _detect_encoding(file: BinaryIO, bom: bytes) -> Encoding:
    """Detects the encoding from the whole file, as Edit does."""

    def pieces() -> Iterator[bytes]:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece

    return detect_encoding(pieces, bom)


def _collect_bytes(
    path: str, head: bytes, file: BinaryIO, encoding: Encoding, collector: "_LineCollector"
) -> tuple[str, int]:
    """Feeds the bytes as they are: in UTF-8 and all 8-bit encodings the byte LF is always a line end."""
    digest, size, chunk = hashlib.sha256(), 0, head
    while chunk:
        digest.update(chunk)
        collector.feed(chunk if size else chunk[len(encoding.bom) :])
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise Unreadable(f"{path} does not end within 1 GiB.")
        chunk = file.read(_CHUNK)
    collector.finish()
    return digest.hexdigest(), size


def _collect_decoded(
    path: str, head: bytes, file: BinaryIO, encoding: Encoding, collector: "_LineCollector"
) -> tuple[str, int]:
    """Feeds text in any encoding: all of it is converted to UTF-8 first."""
    data = head + file.read(_WIDE_LIMIT)
    if len(data) > _WIDE_LIMIT:
        words = f"{encoding.codec.upper()}, more than {format_size(_WIDE_LIMIT)}"
        raise Unreadable(f"{path} is too large for its encoding ({words}).")
    try:
        texts = [text for text, _ in encoding.decode_pieces(split_pieces(data))]
    except UnicodeDecodeError:
        raise make_damaged_error(path, encoding) from None
    returns = not any("\n" in text for text in texts)
    for text in texts:
        collector.feed((text.replace("\r", "\n") if returns else text).encode())
    collector.finish()
    return hashlib.sha256(data).hexdigest(), len(data)


@dataclass(slots=True)
class _LineCollector:
    """Counts all lines and keeps those that are wanted."""

    first: int
    end: int
    max_line_bytes: int
    total: int = 0
    overflowed: bool = False
    _line: int = 1
    _open: bool = False
    """The line that is being read is not empty."""
    _part: bytearray = field(default_factory=bytearray)
    _kept: list[bytes] = field(default_factory=list)
    _kept_bytes: int = 0

    def feed(self, chunk: bytes) -> None:
        breaks = chunk.count(b"\n")
        wanted = self._line < self.end and self._line + breaks >= self.first
        if wanted and not self.overflowed:
            self._feed_lines(chunk)
        else:
            self._line += breaks
            self._open = not chunk.endswith(b"\n") if chunk else self._open

    def _feed_lines(self, chunk: bytes) -> None:
        start = 0
        while start < len(chunk):
            stop = chunk.find(b"\n", start)
            ended = stop >= 0
            if self.first <= self._line < self.end and not self.overflowed:
                self._keep_piece(chunk[start : stop if ended else len(chunk)], ended=ended)
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

    def _keep_piece(self, piece: bytes, *, ended: bool) -> None:
        room = self.max_line_bytes - len(self._part)
        self._part += piece[:room]
        if ended:
            self._close_line()

    def _close_line(self) -> None:
        self._kept.append(bytes(self._part))
        self._kept_bytes += len(self._part)
        self._part.clear()
        self.overflowed = self._kept_bytes > _MAX_KEPT_BYTES

    def finish(self) -> None:
        if self._open and self.first <= self._line < self.end and not self.overflowed:
            self._close_line()
        self.total = self._line if self._open else self._line - 1

    def get_lines(self) -> list[bytes]:
        return self._kept


def _decode_lines(path: str, collector: _LineCollector, encoding: Encoding, size: int) -> list[str]:
    lines = collector.get_lines()
    for line in lines:
        refuse_nul(path, line, size)
    try:
        # A long line may have been cut within a character.
        texts = [encoding.decode_line(line, cut=len(line) >= collector.max_line_bytes) for line in lines]
    except UnicodeDecodeError:  # somebody wrote to the file between the two reads
        texts = [line.decode(encoding.codec, "replace") for line in lines]
    return [text.removesuffix("\r") for text in texts]

"""Reads lines of a persisted result (`result://ID`), as Read does with those of a file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.search.stored_text import parse_result_path
from ostler.tools.services import NoSuchResult, StoredResults
from ostler.tools.text import cut_requested_line, get_line_limit
from ostler.tools.tool import Failure

_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class ResultLines:
    """Lines of a result, or a warning why there are none."""

    content: str = ""
    num_lines: int = 0
    start_line: int = 1
    total_lines: int = 0
    warning: str | None = None


async def read_result(
    path: str, first: int, count: int, results: StoredResults, *, max_tokens: int
) -> ResultLines | Failure:
    """Reads `count` lines from line `first` on of the result that `path` names, as `result://ID`."""
    result_id = parse_result_path(path)
    if result_id is None:
        return Failure(f"{path[:200]!r} is not the path of a result, which begins with result://.")
    window = _LineCollector(first, first + count, max_tokens * _BYTES_PER_TOKEN)
    try:
        await window.fill(results.read_pieces(result_id))
    except NoSuchResult as error:
        return Failure(str(error))
    return _build_lines(path, window, max_tokens)


def _build_lines(path: str, window: "_LineCollector", max_tokens: int) -> ResultLines | Failure:
    if window.total == 0:
        return ResultLines(warning="The result is empty.")
    if window.first > window.total:
        words = f"The result has only {window.total} lines: line {window.first} is past its end."
        return ResultLines(start_line=window.first, total_lines=window.total, warning=words)
    content = "\n".join(window.lines)
    if window.overflowed or len(content.encode()) // _BYTES_PER_TOKEN > max_tokens:
        last = min(window.end - 1, window.total)
        return Failure(
            f"Lines {window.first}-{last} of {path} are more than {max_tokens} tokens. "
            "Read fewer with offset and limit, or find the place with Grep."
        )
    return ResultLines(content, len(window.lines), window.first, window.total)


@dataclass(slots=True)
class _LineCollector:
    """Counts all lines and keeps those that are wanted, each only as far as it is shown."""

    first: int
    end: int
    max_bytes: int
    """At most so many characters are kept: each is at least one byte."""
    lines: list[str] = field(default_factory=list)
    total: int = 0
    overflowed: bool = False
    _line: int = 1
    _part: str = ""
    """The beginning of the line that is being read."""
    _open: bool = False
    """That line is not empty."""
    _kept: int = 0

    @property
    def max_line_chars(self) -> int:
        """How much of a line is kept: enough to see that it is too long, even if what is kept ends with CR."""
        return get_line_limit(self.end - self.first) + 2

    async def fill(self, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            self._feed(piece)
        if self._open:
            self._close_line()
        self.total = self._line - 1

    def _feed(self, piece: str) -> None:
        breaks = piece.count("\n")
        if self.overflowed or self._line >= self.end or self._line + breaks < self.first:
            self._skip(piece, breaks)
            return
        *whole, rest = piece.split("\n")
        for text in whole:
            self._append_text(text)
            self._close_line()
        if rest:
            self._append_text(rest)

    def _skip(self, piece: str, breaks: int) -> None:
        """Counts the lines of a piece of which none is wanted."""
        self._line += breaks
        self._open = not piece.endswith("\n") if piece else self._open

    def _append_text(self, text: str) -> None:
        self._open = True
        self._part = (self._part + text[: self.max_line_chars])[: self.max_line_chars]

    def _close_line(self) -> None:
        if self.first <= self._line < self.end and not self.overflowed:
            line = cut_requested_line(self._part.removesuffix("\r"), self.end - self.first, self.max_bytes)
            self.lines.append(line)
            self._kept += len(line)
            self.overflowed = self._kept > self.max_bytes
        self._line += 1
        self._part, self._open = "", False

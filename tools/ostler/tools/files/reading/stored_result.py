"""Lines of a persisted result, shown as Read shows those of a file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.search.stored_text import result_of
from ostler.tools.services import NoSuchResult, Results
from ostler.tools.text import cut_of, longest
from ostler.tools.tool import Failure

_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class ResultLines:
    """A window of a result, or why there is nothing in it."""

    content: str = ""
    num_lines: int = 0
    start_line: int = 1
    total_lines: int = 0
    warning: str | None = None


async def read_result(path: str, first: int, count: int, results: Results, *, max_tokens: int) -> ResultLines | Failure:
    """`count` lines from line `first` on of the result that `path` names, as `result://ID`."""
    result_id = result_of(path)
    if result_id is None:
        return Failure(f"{path[:200]!r} is not the path of a result, which begins with result://.")
    window = _Window(first, first + count, max_tokens * _BYTES_PER_TOKEN)
    try:
        await window.fill(results.pieces(result_id))
    except NoSuchResult as error:
        return Failure(str(error))
    return _answer(path, window, max_tokens)


def _answer(path: str, window: "_Window", max_tokens: int) -> ResultLines | Failure:
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
class _Window:
    """Counts all lines and keeps those that are wanted, each only as far as it is shown."""

    first: int
    end: int
    max_bytes: int
    """No more characters are kept: each is a byte at least."""
    lines: list[str] = field(default_factory=list)
    total: int = 0
    overflowed: bool = False
    _line: int = 1
    _part: str = ""
    """The beginning of the line that is being read."""
    _open: bool = False
    """Something stands in that line."""
    _kept: int = 0

    @property
    def kept_of_a_line(self) -> int:
        """Enough to see that a line is too long, also where a carriage return ends what is kept."""
        return longest(self.end - self.first) + 2

    async def fill(self, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            self._take(piece)
        if self._open:
            self._close_line()
        self.total = self._line - 1

    def _take(self, piece: str) -> None:
        breaks = piece.count("\n")
        if self.overflowed or self._line >= self.end or self._line + breaks < self.first:
            self._pass(piece, breaks)
            return
        *whole, rest = piece.split("\n")
        for text in whole:
            self._add(text)
            self._close_line()
        if rest:
            self._add(rest)

    def _pass(self, piece: str, breaks: int) -> None:
        """A piece of which no line is wanted."""
        self._line += breaks
        self._open = not piece.endswith("\n") if piece else self._open

    def _add(self, text: str) -> None:
        self._open = True
        self._part = (self._part + text[: self.kept_of_a_line])[: self.kept_of_a_line]

    def _close_line(self) -> None:
        if self.first <= self._line < self.end and not self.overflowed:
            line = cut_of(self._part.removesuffix("\r"), self.end - self.first, self.max_bytes)
            self.lines.append(line)
            self._kept += len(line)
            self.overflowed = self._kept > self.max_bytes
        self._line += 1
        self._part, self._open = "", False

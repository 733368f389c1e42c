"""A parser of server-sent events: bytes in chunks of any size go in, whole frames come out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched event. An `id` of None means that the stream has not named one so far."""

    event: str
    data: bytes
    id: str | None


class SseParser:
    """Takes chunks that were cut anywhere, also inside a character or a CRLF, and returns whole frames."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._after_cr = False
        self._at_start = True
        self._event = ""
        self._data: list[bytes] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes."""
        frames: list[Frame] = []
        for line in self._split_lines(chunk):
            frame = self._parse_line(line)
            if frame is not None:
                frames.append(frame)
        return frames

    def _split_lines(self, chunk: bytes) -> Iterable[bytes]:
        """The lines that a chunk completes. `_rest` before it is a part of a line, without a line end."""
        if self._after_cr or b"\r" in chunk:
            self._rest += chunk
            return iter(self._read_line, None)
        if b"\n" not in chunk:
            self._rest += chunk
            self._searched = len(self._rest)
            return ()
        # Nearly always: with one kind of line end, all lines are found in one go. What remains of a long one is copied
        # once.
        first, *lines, rest = chunk.split(b"\n")
        if self._rest:
            self._rest += first
            first = bytes(self._rest)
            self._rest.clear()
        self._rest += rest
        self._searched = len(rest)
        return (self._strip_bom(first), *lines)

    def _read_line(self) -> bytes | None:
        rest = self._rest
        if self._after_cr and rest:
            # The CR ended its line at once; an LF that follows it belongs to the same line end.
            self._after_cr = False
            if rest[0] == 0x0A:
                del rest[0]
        end = _find_line_end(rest, self._searched)
        if end < 0:
            # What was searched once is not searched again: a long line in small chunks stays linear.
            self._searched = len(rest)
            return None
        line = bytes(rest[:end])
        self._after_cr = rest[end] == 0x0D
        del rest[: end + 1]
        self._searched = 0
        return self._strip_bom(line)

    def _strip_bom(self, line: bytes) -> bytes:
        first, self._at_start = self._at_start, False
        return line.removeprefix(_BOM) if first else line

    def _parse_line(self, line: bytes) -> Frame | None:
        if not line:
            return self._dispatch()
        end = line.find(b":")
        name, value = (line, b"") if end < 0 else (line[:end], line[end + 1 + line.startswith(b" ", end + 1) :])
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case _:
                pass  # a comment, `retry`, or a field that does not exist yet
        return None

    def _dispatch(self) -> Frame | None:
        data, self._data = self._data, []
        event, self._event = self._event, ""
        if not data:
            return None
        return Frame(event or "message", b"\n".join(data), self._id)


def _find_line_end(text: bytearray, start: int) -> int:
    newline = text.find(b"\n", start)
    carriage = text.find(b"\r", start, newline if newline >= 0 else len(text))
    return carriage if carriage >= 0 else newline

"""What a running command has printed, as it is reported piece by piece: each has its place, counted in characters."""

import codecs
from dataclasses import dataclass, field
from typing import Any

from ostler.tools.shell.output.output_file import OutputPiece, count_characters


@dataclass(slots=True)
class OutputProgress:
    """How far the output of a command was reported."""

    reported_bytes: int = 0
    _chars: int = 0
    _lines: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def add(self, piece: OutputPiece) -> dict[str, Any]:
        """The data of the next report, for a piece that was read after `reported_bytes`."""
        data = piece.data
        if piece.offset > self.reported_bytes:
            # A character that was cut at the last report ended in what is left out, or in the first bytes after it.
            self._chars += piece.skipped_chars + bool(self._decoder.getstate()[0])
            self._decoder.reset()
            data = _strip_cut_character(data)
        text = self._decoder.decode(data)
        report = {"output": text, "offset": self._chars, "lines": self._lines + piece.lines}
        self.reported_bytes = piece.end
        self._chars += len(text)
        self._lines += piece.lines
        return report


def _strip_cut_character(data: bytes) -> bytes:
    """The data without the last bytes of a character that begins before it."""
    start = next((at for at in range(min(3, len(data))) if count_characters(data[at : at + 1])), min(3, len(data)))
    return data[start:]

"""Cuts what a terminal sends into keys, pastes, and sequences that nobody asked for."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

ESCAPE: Final = "\x1b"
PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_ESCAPE_SECONDS: Final = 0.05
"""The rest of a key that begins with Esc comes sooner than this."""
_PASTE_SECONDS: Final = 2.0
_LONGEST_SEQUENCE: Final = 4096
"""What goes on for longer is no key and no report: its beginning is dropped."""
_TEXT_RUN: Final = re.compile(r"[^\x00-\x1f\x7f]+")
"""Letters that came together, as a paste into a terminal that does not mark them: taken at once."""
_SEQUENCE: Final = re.compile(
    r"\x1b(?:"
    r"\[M[\s\S]{3}"  # a mouse report of the oldest kind
    r"|\[(?!M)[0-?]*[ -/]*[@-~]"  # CSI: keys, reports, mouse reports
    r"|O[\s\S]"  # SS3: keys
    r"|[\]P^_X][\s\S]*?(?:\x07|\x1b\\)"  # OSC, DCS, PM, APC, SOS: answers to queries
    r"|\[\[[A-E]"  # the function keys of the Linux console
    r"|[^\[O\]P^_X]"  # Alt and a key
    r")"
)
_BROKEN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[^ -~]")
"""A sequence that something else has come into."""


class SequenceReader:
    """Bytes in any pieces; out come whole keys."""

    def __init__(self) -> None:
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        self._rest += self._decoder.decode(data)

    def read_pieces(self) -> Iterator[str]:
        """One after the other: a run of letters, a key, a sequence, a whole paste."""
        while piece := self._next_piece():
            yield piece

    @property
    def patience(self) -> float | None:
        """How long to wait for the rest of what has begun; None where nothing has."""
        if not self._rest:
            return None
        return _PASTE_SECONDS if self._rest.startswith(PASTE_START) else _ESCAPE_SECONDS

    def take_unfinished(self) -> str:
        """Nothing followed: Esc was the key, or the paste ends here. The beginning of anything else is dropped."""
        rest, self._rest = self._rest, ""
        return rest if rest == ESCAPE or rest.startswith(PASTE_START) else ""

    def _next_piece(self) -> str:
        rest = self._rest
        if rest.startswith(PASTE_START):
            end = rest.find(_PASTE_END)
            size = end + len(_PASTE_END) if end >= 0 else 0
        elif rest.startswith(ESCAPE):
            size = self._measure_sequence(rest)
        else:
            run = _TEXT_RUN.match(rest)
            size = run.end() if run else min(1, len(rest))
        piece, self._rest = rest[:size], rest[size:]
        return piece

    @staticmethod
    def _measure_sequence(rest: str) -> int:
        if found := _SEQUENCE.match(rest):
            return found.end()
        if found := _BROKEN.match(rest):
            return found.end() - 1
        return _LONGEST_SEQUENCE if len(rest) > _LONGEST_SEQUENCE else 0

    def unread(self, text: str) -> None:
        """Put the end of a piece back: what comes before it changed what it means."""
        self._rest = text + self._rest


def strip_paste(piece: str) -> str:
    """What was pasted, with the line ends of text."""
    text = piece.removeprefix(PASTE_START).removesuffix(_PASTE_END)
    return text.replace("\r\n", "\n").replace("\r", "\n")

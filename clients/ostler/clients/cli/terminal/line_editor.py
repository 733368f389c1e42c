"""The line editor: one line being typed, out of the bytes that a terminal sends."""

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HISTORY: Final = 500
_ESCAPE: Final = "\x1b"
_TEXT_RUN: Final = re.compile(r"[^\x00-\x1f\x7f]+")
"""Letters that came together, as a paste into a terminal that does not mark them: taken at once."""
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What changes the order in which a line is read."""
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O.|[^\[O])", re.DOTALL)
_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_CTRL_B: Final = "\x02"


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody pressed Enter, or a key that is an answer by itself."""

    text: str


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Ctrl-D, or the end of the input."""


@dataclass(frozen=True, slots=True)
class Escape:
    """Esc, and nothing after it."""


@dataclass(frozen=True, slots=True)
class StrayKeys:
    """Keys that mean nothing where only single keys are wanted: they are not taken into the line."""

    text: str


InputEvent = Line | EndOfInput | Escape | StrayKeys


class LineEditor:
    """What was typed so far and not sent yet."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.single_keys: frozenset[str] = frozenset()
        """Keys that count without Enter while nothing else was typed; in either case."""
        self.openers: frozenset[str] = frozenset()
        """Where there are such keys: the other ones that begin a line."""
        self._history: list[str] = []
        self._history_index = 0
        self._draft = ""
        """What was being typed when an older line was brought back."""
        self._unparsed = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def fill(self, text: str) -> None:
        """Begin with this text instead of with nothing."""
        self.text, self.cursor = text, len(text)

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """What these bytes complete; a sequence or a paste may come in pieces.

        One after the other: what a key means may be another thing once the one before it was taken.
        """
        self._unparsed += self._decoder.decode(data)
        while (piece := self._next_piece()) is not None:
            done = self._apply_piece(piece)
            if done is not None:
                yield done

    @property
    def has_escape(self) -> bool:
        """Esc was the last key, or the first byte of another one that is still to come."""
        return self._unparsed == _ESCAPE

    def take_escape(self) -> Escape:
        """Nothing came after it: it was the key."""
        self._unparsed = ""
        return Escape()

    def _next_piece(self) -> str | None:
        rest = self._unparsed
        if rest.startswith(_PASTE_START):
            end = rest.find(_PASTE_END)
            size = end + len(_PASTE_END) if end >= 0 else 0
        elif rest.startswith(_ESCAPE):
            found = _SEQUENCE.match(rest)
            size = found.end() if found else 0
        else:
            run = None if self._wants_key(rest[:1]) else _TEXT_RUN.match(rest)
            size = run.end() if run else min(1, len(rest))
        if not size:
            return None
        self._unparsed = rest[size:]
        return rest[:size]

    def _apply_piece(self, piece: str) -> InputEvent | None:
        if piece.startswith(_PASTE_START):
            pasted = piece.removeprefix(_PASTE_START).removesuffix(_PASTE_END)
            self._insert(pasted.replace("\r\n", "\n").replace("\r", "\n"))
        elif piece in {"\r", "\n"}:
            return self._enter()
        elif piece == "\x04":
            return None if self.text else EndOfInput()
        elif piece == _CTRL_B:
            return Line("/background")
        elif piece in _EDITS:
            _EDITS[piece](self)
        elif self._wants_key(piece):
            return Line(piece)
        elif not piece.startswith(_ESCAPE):
            text = "".join(char for char in piece if _is_text(char))
            if text and self.single_keys and not self.text and text[0].lower() not in self.openers:
                return StrayKeys(text)
            self._insert(text)
        return None

    def _wants_key(self, char: str) -> bool:
        """Whether it is a key that is an answer by itself."""
        return not self.text and char.lower() in self.single_keys

    def _enter(self) -> Line:
        line = self.take_draft()
        self.add_to_history(line)
        return Line(line)

    def take_draft(self) -> str:
        """Empty the line; what there was."""
        line, self.text, self.cursor = self.text, "", 0
        self._history_index = len(self._history)
        return line

    def add_to_history(self, line: str) -> None:
        """Add a line to the history, from which the arrow keys bring it back."""
        if line.strip() and (not self._history or self._history[-1] != line):
            self._history = [*self._history[-_HISTORY:], line]
        self._history_index = len(self._history)

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _cut(self, start: int, end: int) -> None:
        self.text, self.cursor = self.text[:start] + self.text[end:], start

    def _move_left(self) -> None:
        self.cursor = max(0, self.cursor - 1)

    def _move_right(self) -> None:
        self.cursor = min(len(self.text), self.cursor + 1)

    def _move_home(self) -> None:
        self.cursor = 0

    def _move_end(self) -> None:
        self.cursor = len(self.text)

    def _backspace(self) -> None:
        if self.cursor:
            self._cut(self.cursor - 1, self.cursor)

    def _delete(self) -> None:
        self._cut(self.cursor, self.cursor + 1)

    def _cut_before(self) -> None:
        self._cut(0, self.cursor)

    def _cut_after(self) -> None:
        self._cut(self.cursor, len(self.text))

    def _cut_word(self) -> None:
        kept = self.text[: self.cursor].rstrip().rpartition(" ")
        self._cut(len(kept[0] + kept[1]), self.cursor)

    def _recall_older(self) -> None:
        self._recall(self._history_index - 1)

    def _recall_newer(self) -> None:
        self._recall(self._history_index + 1)

    def _recall(self, place: int) -> None:
        if 0 <= place <= len(self._history):
            if self._history_index == len(self._history):
                self._draft = self.text
            self._history_index = place
            self.fill(self._history[place] if place < len(self._history) else self._draft)


def _is_text(char: str) -> bool:
    """Letters, blanks and joiners of every script; nothing that steers a terminal or turns a line around."""
    return unicodedata.category(char) not in {"Cc", "Cs"} and char not in _BIDI


_EDITS: Final = {
    "\x7f": LineEditor._backspace,
    "\x08": LineEditor._backspace,
    "\x15": LineEditor._cut_before,
    "\x0b": LineEditor._cut_after,
    "\x17": LineEditor._cut_word,
    "\x01": LineEditor._move_home,
    "\x05": LineEditor._move_end,
    "\x1b[D": LineEditor._move_left,
    "\x1b[C": LineEditor._move_right,
    "\x1b[A": LineEditor._recall_older,
    "\x1b[B": LineEditor._recall_newer,
    "\x1bOD": LineEditor._move_left,
    "\x1bOC": LineEditor._move_right,
    "\x1bOA": LineEditor._recall_older,
    "\x1bOB": LineEditor._recall_newer,
    "\x1b[H": LineEditor._move_home,
    "\x1b[F": LineEditor._move_end,
    "\x1b[1~": LineEditor._move_home,
    "\x1b[4~": LineEditor._move_end,
    "\x1b[3~": LineEditor._delete,
}

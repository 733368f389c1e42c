"""One line being typed, out of the bytes that a terminal sends."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

_HISTORY: Final = 500
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O.|[^\[O])", re.DOTALL)
_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_CTRL_B: Final = "\x02"


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody pressed Enter, or a key that is an answer by itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Ctrl-D, or the end of the input."""


Typed = Line | Leave


class LineEditor:
    """What was typed so far and not sent yet."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.single_keys: frozenset[str] = frozenset()
        """Keys that count without Enter while nothing else was typed."""
        self._history: list[str] = []
        self._place = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def fill(self, text: str) -> None:
        """Begin with this text instead of with nothing."""
        self.text, self.cursor = text, len(text)

    def feed(self, data: bytes) -> list[Typed]:
        """What these bytes complete; a sequence or a paste may come in pieces."""
        self._rest += self._decoder.decode(data)
        typed: list[Typed] = []
        while self._rest:
            piece = self._next_piece()
            if piece is None:
                break
            done = self._take(piece)
            if done is not None:
                typed.append(done)
        return typed

    def _next_piece(self) -> str | None:
        rest = self._rest
        if rest.startswith(_PASTE_START):
            end = rest.find(_PASTE_END)
            size = end + len(_PASTE_END) if end >= 0 else 0
        elif rest.startswith("\x1b"):
            found = _SEQUENCE.match(rest)
            size = found.end() if found else 0
        else:
            size = 1
        if not size:
            return None
        self._rest = rest[size:]
        return rest[:size]

    def _take(self, piece: str) -> Typed | None:
        if piece.startswith(_PASTE_START):
            pasted = piece.removeprefix(_PASTE_START).removesuffix(_PASTE_END)
            self._insert(pasted.replace("\r\n", "\n").replace("\r", "\n"))
        elif piece in {"\r", "\n"}:
            return self._enter()
        elif piece == "\x04":
            return None if self.text else Leave()
        elif piece == _CTRL_B:
            return Line("/background")
        elif piece in _EDITS:
            _EDITS[piece](self)
        elif not self.text and piece in self.single_keys:
            return Line(piece)
        elif piece.isprintable():
            self._insert(piece)
        return None

    def _enter(self) -> Line:
        line, self.text, self.cursor = self.text, "", 0
        if line.strip() and (not self._history or self._history[-1] != line):
            self._history = [*self._history[-_HISTORY:], line]
        self._place = len(self._history)
        return Line(line)

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _cut(self, start: int, end: int) -> None:
        self.text, self.cursor = self.text[:start] + self.text[end:], start

    def clear(self) -> None:
        self.fill("")

    def _left(self) -> None:
        self.cursor = max(0, self.cursor - 1)

    def _right(self) -> None:
        self.cursor = min(len(self.text), self.cursor + 1)

    def _home(self) -> None:
        self.cursor = 0

    def _end(self) -> None:
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

    def _older(self) -> None:
        self._recall(self._place - 1)

    def _newer(self) -> None:
        self._recall(self._place + 1)

    def _recall(self, place: int) -> None:
        if 0 <= place <= len(self._history):
            self._place = place
            self.fill(self._history[place] if place < len(self._history) else "")


_EDITS: Final = {
    "\x7f": LineEditor._backspace,
    "\x08": LineEditor._backspace,
    "\x15": LineEditor._cut_before,
    "\x0b": LineEditor._cut_after,
    "\x17": LineEditor._cut_word,
    "\x01": LineEditor._home,
    "\x05": LineEditor._end,
    "\x1b[D": LineEditor._left,
    "\x1b[C": LineEditor._right,
    "\x1b[A": LineEditor._older,
    "\x1b[B": LineEditor._newer,
    "\x1bOD": LineEditor._left,
    "\x1bOC": LineEditor._right,
    "\x1bOA": LineEditor._older,
    "\x1bOB": LineEditor._newer,
    "\x1b[H": LineEditor._home,
    "\x1b[F": LineEditor._end,
    "\x1b[1~": LineEditor._home,
    "\x1b[4~": LineEditor._end,
    "\x1b[3~": LineEditor._delete,
}

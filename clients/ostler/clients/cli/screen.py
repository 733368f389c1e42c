"""A terminal on which lines are told above, while a line is being typed below."""

import shutil
import sys
import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import Final, TextIO

from ostler.clients.cli.editor import LineEditor
from ostler.clients.cli.output import Colour, coloured, printable

_TAB: Final = "    "

_Cell = tuple[str, Colour | None]
"""A character or more, and what it is shown in."""


class Screen:
    """At most two rows are ever drawn again: the line that is being told, and the line that is being typed."""

    def __init__(self, editor: LineEditor, stream: TextIO | None = None) -> None:
        self._editor = editor
        self._stream = stream or sys.stdout
        self._telling: list[_Cell] = []
        self._prompt: str | None = None
        self._drawn = 0
        """Rows above the cursor's that were drawn and not yet told for good."""

    def words(self, text: str, colour: Colour | None = None) -> None:
        self._tell(text, colour)

    def aside(self, text: str, colour: Colour | None = None) -> None:
        self._tell(text, colour)

    def fresh(self) -> None:
        if self._telling:
            self._tell("\n", None)

    def ask_for(self, prompt: str | None) -> None:
        """What stands before the line that is typed; None: nothing is typed."""
        self._put(self._erased() + self._change_prompt(prompt))

    def redraw(self) -> None:
        """Show what was typed meanwhile."""
        self._put(self._erased() + self._rows())

    def _change_prompt(self, prompt: str | None) -> str:
        self._prompt = prompt
        return self._rows()

    def _put(self, output: str) -> None:
        self._stream.write(output)
        self._stream.flush()

    def _tell(self, text: str, colour: Colour | None) -> None:
        output = [self._erased()]
        for char in printable(text).replace("\t", _TAB):
            if char == "\n":
                output.append(self._rendered(self._telling) + "\n")
                self._telling = []
            else:
                self._telling.append((char, colour))
                output.append(self._wrapped())
        output.append(self._rows())
        self._put("".join(output))

    def _wrapped(self) -> str:
        """What of the line is full and can be told for good, cut between words where there are some."""
        if _width(char for char, _ in self._telling) < _columns():
            return ""
        blanks = [at for at, (char, _) in enumerate(self._telling) if char == " " and at]
        cut = blanks[-1] if blanks else len(self._telling) - 1
        row, self._telling = self._telling[:cut], self._telling[cut + 1 if blanks else cut :]
        return self._rendered(row) + "\n"

    def _rendered(self, cells: list[_Cell]) -> str:
        runs: list[_Cell] = [("".join(char for char, _ in run), colour) for colour, run in groupby(cells, key=_colour)]
        return "".join(coloured(text, colour, self._stream) if colour else text for text, colour in runs)

    def _erased(self) -> str:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        self._drawn = 0
        return f"\r{up}\x1b[J"

    def _rows(self) -> str:
        telling = self._rendered(self._telling)
        if self._prompt is None:
            return telling
        self._drawn = 1 if self._telling else 0
        return f"{telling}\n{self._input_row()}" if self._telling else self._input_row()

    def _input_row(self) -> str:
        """The part of the typed line that fits, with the cursor in it."""
        prompt = self._prompt or ""
        room = max(4, _columns() - _width(prompt) - 1)
        typed = printable(self._editor.text).replace("\n", "⏎").replace("\t", " ")
        before = printable(self._editor.text[: self._editor.cursor]).replace("\n", "⏎").replace("\t", " ")
        start = 0
        while _width(before[start:]) > room - 1:
            start += 1
        shown = _fitting(typed[start:], room)
        back = _width(prompt) + _width(before[start:])
        return f"{coloured(prompt, 'bold', self._stream)}{shown}\r" + (f"\x1b[{back}C" if back else "")


def _colour(cell: _Cell) -> Colour | None:
    return cell[1]


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _fitting(text: str, room: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _width(char)
        if used > room:
            return text[:at]
    return text


def _width(text: Iterable[str]) -> int:
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1

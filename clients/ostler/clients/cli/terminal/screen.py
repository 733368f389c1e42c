"""A terminal on which lines are told above, while a line is being typed below."""

import shutil
import sys
from itertools import groupby
from typing import Final, TextIO

from ostler.clients.cli.output import Colour, coloured, printable
from ostler.clients.cli.render.text_width import TAB, cells, fitting, width
from ostler.clients.cli.terminal.line_editor import LineEditor

_MARGIN: Final = " │"
"""What a line begins with and its further rows keep clear."""
_NEAR: Final = 4
"""So many characters for each cell are looked at: some take none."""

_Cell = tuple[str, Colour | None]
"""A character or more, and what it is shown in."""


class Screen:
    """Little is ever drawn again: the line that is being told, and the line that is being typed."""

    def __init__(self, editor: LineEditor, stream: TextIO | None = None) -> None:
        self._editor = editor
        self._stream = stream or sys.stdout
        self._telling: list[_Cell] = []
        self._used = 0
        """The cells that it takes."""
        self._wrapped: int | None = None
        """The margin of the row to come, where the one before is full and the line may go on."""
        self._passing = ""
        """Stands at the end of that line until something else does."""
        self._prompt: str | None = None
        self._above = 0
        """The cells of the row that was drawn above the typed one; 0: there is none."""
        self._cursor = 0
        """The column in which the cursor was left."""

    def words(self, text: str, colour: Colour | None = None) -> None:
        self._tell(text, colour)

    def aside(self, text: str, colour: Colour | None = None) -> None:
        self._tell(text, colour)

    def passing(self, text: str) -> None:
        self._passing = printable(text).replace("\t", TAB)
        self.redraw()

    def fresh(self) -> None:
        if self._telling or self._wrapped is not None:
            self._tell("\n", None)

    def ask_for(self, prompt: str | None) -> None:
        """What stands before the line that is typed; None: nothing is typed."""
        erased, self._prompt = self._erased(), prompt
        self._put(erased + self._rows())

    def redraw(self) -> None:
        """Show what was typed meanwhile, or on how much room it is."""
        self._put(self._erased() + self._rows())

    def _put(self, output: str) -> None:
        self._stream.write(output)
        self._stream.flush()

    def _tell(self, text: str, colour: Colour | None) -> None:
        output, columns = [self._erased()], _columns()
        self._passing = ""
        for char in printable(text).replace("\t", TAB):
            if char == "\n":
                output.append(self._ended_line())
                continue
            self._add(char, colour)
            if self._used >= columns:
                output.append(self._full_row(columns))
        output.append(self._rows())
        self._put("".join(output))

    def _ended_line(self) -> str:
        ended = "" if self._wrapped is not None else self._rendered(self._telling) + "\n"
        self._telling, self._used, self._wrapped = [], 0, None
        return ended

    def _add(self, char: str, colour: Colour | None) -> None:
        if self._wrapped is not None:
            self._telling = _blank(self._wrapped)
            self._used, self._wrapped = self._wrapped, None
        self._telling.append((char, colour))
        self._used += cells(char)

    def _full_row(self, columns: int) -> str:
        """What of the line is full and can be told for good, cut between words where there are some."""
        margin, end = self._margin(columns), self._end_of_row(columns)
        blanks = [at for at in range(margin + 1, end + 1) if self._telling[at][0] == " "]
        cut = blanks[-1] if blanks else end
        row, rest = self._telling[:cut], self._telling[cut + 1 if blanks else cut :]
        self._telling = [*_blank(margin), *rest] if rest else []
        self._wrapped = None if rest else margin
        self._used = width(char for char, _ in self._telling)
        return self._rendered(row) + "\n"

    def _margin(self, columns: int) -> int:
        begin = next((at for at, (char, _) in enumerate(self._telling) if char not in _MARGIN), 0)
        return begin if begin <= columns // 2 else 0

    def _end_of_row(self, columns: int) -> int:
        """The first character that does not fit; in the last column, some terminals begin a row by themselves."""
        used = 0
        for at, (char, _) in enumerate(self._telling):
            used += cells(char)
            if used >= columns:
                return max(1, at)
        return len(self._telling)

    def _rendered(self, row: list[_Cell]) -> str:
        runs: list[_Cell] = [("".join(char for char, _ in run), colour) for colour, run in groupby(row, key=_colour)]
        return "".join(coloured(text, colour, self._stream) if colour else text for text, colour in runs)

    def _erased(self) -> str:
        """Back to the first row that was drawn: a terminal that became narrower has wrapped them meanwhile."""
        columns = _columns()
        up = self._cursor // columns + -(-self._above // columns)
        self._above = self._cursor = 0
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"

    def _rows(self) -> str:
        columns = _columns()
        full = ""
        while self._used >= columns:
            full += self._full_row(columns)
        passing = fitting(self._passing, columns - self._used - 1) if self._telling else ""
        told = self._rendered(self._telling) + (coloured(passing, "dim", self._stream) if passing else "")
        used = self._used + width(passing)
        if self._prompt is None:
            self._cursor = used
            return full + told
        self._above = used
        return f"{full}{told}\n{self._input_row(columns)}" if used else full + self._input_row(columns)

    def _input_row(self, columns: int) -> str:
        """The part of the typed line that fits, with the cursor in it."""
        prompt = fitting(self._prompt or "", columns - 5)
        room = columns - width(prompt) - 1
        text, cursor = self._editor.text, self._editor.cursor
        before = _last_fitting(_in_a_row(text[max(0, cursor - _NEAR * room) : cursor]), room - 1)
        after = fitting(_in_a_row(text[cursor : cursor + _NEAR * room]), room - width(before))
        self._cursor = width(prompt) + width(before)
        right = f"\x1b[{self._cursor}C" if self._cursor else ""
        return f"{coloured(prompt, 'bold', self._stream)}{before}{after}\r{right}"


def _blank(margin: int) -> list[_Cell]:
    return [(" ", None)] * margin


def _colour(cell: _Cell) -> Colour | None:
    return cell[1]


def _columns() -> int:
    return max(10, shutil.get_terminal_size().columns)


def _in_a_row(text: str) -> str:
    return printable(text).replace("\n", "⏎").replace("\t", " ")


def _last_fitting(text: str, room: int) -> str:
    """As much of its end as fits, found from there: what is long must not be measured again for each key."""
    for back, char in enumerate(reversed(text)):
        room -= cells(char)
        if room < 0:
            return text[len(text) - back :]
    return text

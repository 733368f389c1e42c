"""The screen of a chat: output is written above, while a line is being typed below."""

import shutil
import sys
from itertools import groupby
from typing import Final, TextIO

from ostler.clients.cli.output import Colour, colourize, sanitize
from ostler.clients.cli.render.text_width import TAB, fit_width, measure_char, measure_width
from ostler.clients.cli.terminal.line_editor import LineEditor

_MARGIN: Final = " │"
"""The characters of an indent, which the further rows of a wrapped line keep."""
_CHARS_PER_COLUMN: Final = 4
"""So many characters for each column are looked at: some take none."""

_StyledText = tuple[str, Colour | None]
"""A character or more, and what it is shown in."""


class Screen:
    """Little is ever redrawn: the output line that has not ended, and the line that is being typed."""

    def __init__(self, editor: LineEditor, stream: TextIO | None = None) -> None:
        self._editor = editor
        self._stream = stream or sys.stdout
        self._line: list[_StyledText] = []
        self._used = 0
        """The columns that it takes."""
        self._wrap_margin: int | None = None
        """The margin of the row to come, where the one before is full and the line may go on."""
        self._status = ""
        """Stands at the end of that line until something else does."""
        self._prompt: str | None = None
        self._above = 0
        """The columns of the row that was drawn above the typed one; 0: there is none."""
        self._cursor = 0
        """The column in which the cursor was left."""
        self._held: list[str] | None = None
        """What was written while another program had the terminal."""

    def write_text(self, text: str, colour: Colour | None = None) -> None:
        self._append_text(text, colour)

    def write_note(self, text: str, colour: Colour | None = None) -> None:
        self._append_text(text, colour)

    def show_status(self, text: str) -> None:
        self._status = sanitize(text).replace("\t", TAB)
        self.redraw()

    def end_line(self) -> None:
        if self._line or self._wrap_margin is not None:
            self._append_text("\n", None)

    def set_prompt(self, prompt: str | None) -> None:
        """What stands before the line that is typed; None: nothing is typed."""
        erased, self._prompt = self._erase_rows(), prompt
        self._write(erased + self._render_rows())

    def redraw(self) -> None:
        """Show what was typed meanwhile, or on how much room it is."""
        self._write(self._erase_rows() + self._render_rows())

    def hold(self) -> None:
        """Keep what is written back: another program has the terminal."""
        self.set_prompt(None)
        self._held = []

    def release(self) -> None:
        """Write what was kept back."""
        held, self._held = self._held, None
        self._write("".join(held or ()))

    def _write(self, output: str) -> None:
        if self._held is not None:
            self._held.append(output)
            return
        self._stream.write(output)
        self._stream.flush()

    def _append_text(self, text: str, colour: Colour | None) -> None:
        output, columns = [self._erase_rows()], _columns()
        self._status = ""
        for char in sanitize(text).replace("\t", TAB):
            if char == "\n":
                output.append(self._finish_line())
                continue
            self._append_char(char, colour)
            if self._used >= columns:
                output.append(self._wrap_row(columns))
        output.append(self._render_rows())
        self._write("".join(output))

    def _finish_line(self) -> str:
        ended = "" if self._wrap_margin is not None else self._render_row(self._line) + "\n"
        self._line, self._used, self._wrap_margin = [], 0, None
        return ended

    def _append_char(self, char: str, colour: Colour | None) -> None:
        if self._wrap_margin is not None:
            self._line = _build_margin(self._wrap_margin)
            self._used, self._wrap_margin = self._wrap_margin, None
        self._line.append((char, colour))
        self._used += measure_char(char)

    def _wrap_row(self, columns: int) -> str:
        """The full row of the line, which can be written for good, cut between words where there are some."""
        margin, end = self._measure_margin(columns), self._find_row_end(columns)
        blanks = [at for at in range(margin + 1, end + 1) if self._line[at][0] == " "]
        cut = blanks[-1] if blanks else end
        row, rest = self._line[:cut], self._line[cut + 1 if blanks else cut :]
        self._line = [*_build_margin(margin), *rest] if rest else []
        self._wrap_margin = None if rest else margin
        self._used = measure_width(char for char, _ in self._line)
        return self._render_row(row) + "\n"

    def _measure_margin(self, columns: int) -> int:
        begin = next((at for at, (char, _) in enumerate(self._line) if char not in _MARGIN), 0)
        return begin if begin <= columns // 2 else 0

    def _find_row_end(self, columns: int) -> int:
        """The first character that does not fit; in the last column, some terminals begin a row by themselves."""
        used = 0
        for at, (char, _) in enumerate(self._line):
            used += measure_char(char)
            if used >= columns:
                return max(1, at)
        return len(self._line)

    def _render_row(self, row: list[_StyledText]) -> str:
        runs: list[_StyledText] = [
            ("".join(char for char, _ in run), colour) for colour, run in groupby(row, key=_get_colour)
        ]
        return "".join(colourize(text, colour, self._stream) if colour else text for text, colour in runs)

    def _erase_rows(self) -> str:
        """Back to the first row that was drawn: a terminal that became narrower has wrapped them meanwhile."""
        columns = _columns()
        up = self._cursor // columns + -(-self._above // columns)
        self._above = self._cursor = 0
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"

    def _render_rows(self) -> str:
        columns = _columns()
        full = ""
        while self._used >= columns:
            full += self._wrap_row(columns)
        status = fit_width(self._status, columns - self._used - 1) if self._line else ""
        line = self._render_row(self._line) + (colourize(status, "dim", self._stream) if status else "")
        used = self._used + measure_width(status)
        if self._prompt is None:
            self._cursor = used
            return full + line
        self._above = used
        return f"{full}{line}\n{self._render_input_row(columns)}" if used else full + self._render_input_row(columns)

    def _render_input_row(self, columns: int) -> str:
        """The part of the typed line that fits, with the cursor in it."""
        prompt = fit_width(self._prompt or "", columns - 5)
        space = columns - measure_width(prompt) - 1
        text, cursor = self._editor.text, self._editor.cursor
        before = _fit_end(_flatten_line(text[max(0, cursor - _CHARS_PER_COLUMN * space) : cursor]), space - 1)
        after = fit_width(
            _flatten_line(text[cursor : cursor + _CHARS_PER_COLUMN * space]), space - measure_width(before)
        )
        self._cursor = measure_width(prompt) + measure_width(before)
        right = f"\x1b[{self._cursor}C" if self._cursor else ""
        return f"{colourize(prompt, 'bold', self._stream)}{before}{after}\r{right}"


def _build_margin(margin: int) -> list[_StyledText]:
    return [(" ", None)] * margin


def _get_colour(cell: _StyledText) -> Colour | None:
    return cell[1]


def _columns() -> int:
    return max(10, shutil.get_terminal_size().columns)


def _flatten_line(text: str) -> str:
    return sanitize(text).replace("\n", "⏎").replace("\t", " ")


def _fit_end(text: str, columns: int) -> str:
    """As much of its end as fits, found from there: what is long must not be measured again for each key."""
    for back, char in enumerate(reversed(text)):
        columns -= measure_char(char)
        if columns < 0:
            return text[len(text) - back :]
    return text

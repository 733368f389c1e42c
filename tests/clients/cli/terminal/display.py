"""As much of a terminal as a chat may use: it fails on anything else."""

import re
from typing import Final

from ostler.clients.cli.render.text_width import measure_char

_SEQUENCE: Final = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\x1b\](\d+);[^\x1b\x07]*(?:\x1b\\|\x07)")


class Display:
    """A screen of so many rows, and the rows that have scrolled out of it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.scrollback: list[list[str]] = []
        self.screen: list[list[str]] = [[] for _ in range(lines)]
        self.row = self.column = 0
        self.most = 0
        """The lowest row that was written to."""

    @property
    def rows(self) -> list[str]:
        """All rows down to the lowest that was used, blanks at their ends left out."""
        used = [*self.scrollback, *self.screen[: self.most + 1]]
        return ["".join(cells).rstrip() for cells in used]

    @property
    def cursor(self) -> tuple[int, int]:
        return len(self.scrollback) + self.row, self.column

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                assert found, repr(text[at : at + 20])
                if found[3] and not found[1]:
                    self._apply_sequence(found[3], found[2])
                at = found.end()
            else:
                self._put_char(text[at])
                at += 1

    def _apply_sequence(self, kind: str, parameters: str) -> None:
        if kind == "m":
            return
        count = int(parameters or "1")
        if kind == "A":
            assert count <= self.row, "above the screen there is nothing to be changed"
            self.row -= count
        elif kind == "B":
            assert self.row + count < self.lines
            self.row += count
        elif kind == "G":
            assert count <= self.columns
            self.column = count - 1
        elif kind == "K":
            del self.screen[self.row][self.column :]
        elif kind == "J":
            del self.screen[self.row][self.column :]
            for row in self.screen[self.row + 1 :]:
                row.clear()
            self.most = min(self.most, self.row)
        elif kind == "L":
            for _ in range(count):
                lost = self.screen.pop()
                assert not "".join(lost).strip(), "a row was pushed out of the screen"
                self.screen.insert(self.row, [])
            self.column = 0
        elif kind == "M":
            for _ in range(count):
                self.screen.pop(self.row)
                self.screen.append([])
            self.most -= count
            self.column = 0
        else:
            raise AssertionError(f"nobody may send {kind!r}")

    def _put_char(self, char: str) -> None:
        if char == "\n":
            self.column = 0  # as the driver of a terminal makes it
            if self.row == self.lines - 1:
                self.scrollback.append(self.screen.pop(0))
                self.screen.append([])
            else:
                self.row += 1
            self.most = max(self.most, self.row)
        elif char == "\r":
            self.column = 0
        else:
            assert char.isprintable(), repr(char)
            width = measure_char(char)
            row = self.screen[self.row]
            row += [" "] * (self.column - len(row))
            if not width:
                row[self.column - 1] += char
                return
            assert self.column + width < self.columns, "the last column stays free: some terminals wrap there"
            row[self.column : self.column + width] = [char, *[""] * (width - 1)]
            self.column += width

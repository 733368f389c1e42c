"""The screen of a chat: rows that are finished go into the terminal's own scrollback, the rows below them stay live."""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple, TextIO

from ostler.clients.cli.render.blocks.rows import EMPTY_ROW, Row, Run, fit_row, measure_row
from ostler.clients.cli.render.blocks.theme import Palette
from ostler.clients.cli.render.text_width import measure_width

_SYNC_ON: Final = "\x1b[?2026h"
_SYNC_OFF: Final = "\x1b[?2026l"
_MIN_COLUMNS: Final = 4
_MIN_LINES: Final = 3


class Size(NamedTuple):
    columns: int
    lines: int


class Frame(NamedTuple):
    """What shall stand there: finished rows once and for all, live ones until the next frame."""

    finished: Sequence[Row]
    live: Sequence[Row]
    cursor: tuple[int, int]
    """The row among the live ones, and the column."""


def measure_terminal(stream: TextIO | None = None) -> Size:
    """The size by the terminal itself, then by the environment: that one does not follow a resize."""
    try:
        found = os.get_terminal_size((stream or sys.stdout).fileno())
    except (OSError, ValueError):
        found = os.terminal_size((0, 0))
    if found.columns <= 0 or found.lines <= 0:
        found = shutil.get_terminal_size()
    return Size(max(_MIN_COLUMNS, found.columns), max(_MIN_LINES, found.lines))


class Screen:
    """Writes only what differs from the frame before, in one flush.

    What was live and is finished now stands there already: it is not written again.
    """

    def __init__(self, palette: Palette, stream: TextIO | None = None) -> None:
        self.palette = palette
        self.written = 0
        """Characters written so far."""
        self._stream = stream or sys.stdout
        self._rows: list[Row] = [EMPTY_ROW]
        self._cursor = (0, 0)
        self._size: Size | None = None
        self._held: list[Frame] | None = None

    def measure(self) -> Size:
        return measure_terminal(self._stream)

    def paint(self, frame: Frame) -> None:
        """Show this frame instead of the one before."""
        if self._held is not None:
            self._held.append(frame)
            return
        size = self.measure()
        erased = self._erase() if self._size not in {None, size} else ""
        self._size = size
        live = [fit_row(row, size.columns - 1) for row in frame.live] or [EMPTY_ROW]
        row, column = frame.cursor
        if len(live) >= size.lines:  # what does not fit cannot be drawn over again
            cut = len(live) - size.lines + 1
            live, row = live[cut:], row - cut
        cursor = (max(0, min(row, len(live) - 1)), min(column, size.columns - 1))
        rows = [*(fit_row(each, size.columns - 1) for each in frame.finished), *live]
        changes = self._change_rows(rows, size)
        moves = self._move(len(frame.finished) + cursor[0], cursor[1])
        self._rows, self._cursor = live, cursor
        self._write(erased, changes, moves)

    def clear(self, frame: Frame) -> None:
        """Draw the frame on an empty screen; what stood there goes into the scrollback."""
        size = self.measure()
        below = max(0, size.lines - 1 - self._cursor[0])
        self._stream.write("\r\n" * below + "\x1b[H\x1b[J" if self._held is None else "")
        self._rows, self._cursor = [EMPTY_ROW], (0, 0)
        self.paint(frame)

    def hold(self) -> None:
        """Another program has the terminal: take the live rows away, and write nothing until it is back."""
        self._write(self._erase(), "", "")
        self._held = []

    def release(self) -> None:
        """Write what is finished meanwhile."""
        held, self._held = self._held or [], None
        self._rows, self._cursor = [EMPTY_ROW], (0, 0)
        finished = [row for frame in held for row in frame.finished]
        if finished:
            self.paint(Frame(finished, [EMPTY_ROW], (0, 0)))

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def write_raw(self, sequence: str) -> None:
        """Send a sequence of our own that moves nothing: a title, a bell."""
        if self._held is None:
            self._write("", sequence, "")

    def _write(self, erased: str, changes: str, moves: str) -> None:
        output = erased + changes + moves
        if not output:
            return
        if "\n" in changes or erased or changes.count("\x1b[K") > 1:
            output = f"{_SYNC_ON}{output}{_SYNC_OFF}"
        self.written += len(output)
        self._stream.write(output)
        self._stream.flush()

    def _erase(self) -> str:
        """Take the live rows away, also where the terminal has wrapped them because it became narrower."""
        columns = self.measure().columns
        above = sum(max(1, -(-measure_row(row) // columns)) for row in self._rows[: self._cursor[0]])
        up = above + self._cursor[1] // columns
        self._rows, self._cursor = [EMPTY_ROW], (0, 0)
        return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"

    def _change_rows(self, rows: list[Row], size: Size) -> str:
        old = list(self._rows)
        output: list[str] = []
        head = _count_common(old, rows)
        tail = min(_count_common(old[::-1], rows[::-1]), len(old) - head, len(rows) - head)
        more = len(rows) - len(old)
        if tail and more and max(len(rows), len(old)) - head < size.lines:
            at = len(old) - tail
            if more > 0:
                # Room at the bottom first: a row that is inserted pushes the last one out of the screen.
                output.append(self._move(len(old) - 1, 0) + "\n" * more)
                self._cursor = (len(rows) - 1, 0)
                output.append(self._move(at, 0) + f"\x1b[{more}L")
                old = [*old[:at], *([EMPTY_ROW] * more), *old[at:]]
            else:
                output.append(self._move(at + more, 0) + f"\x1b[{-more}M")
                old = [*old[: at + more], *old[at:]]
        for at, row in enumerate(rows):
            if at >= len(old):
                output.append(self._move(at - 1, None) + "\r\n" + self._format_row(row))
                self._cursor = (at, measure_row(row))
                old.append(row)
            elif row != old[at]:
                output.append(self._change_row(at, old[at], row))
        if len(old) > len(rows):
            output.append(self._move(len(rows), 0) + "\x1b[J")
        return "".join(output)

    def _change_row(self, at: int, old: Row, new: Row) -> str:
        """Write the part of a row that differs."""
        was, now = _split_row(old), _split_row(new)
        plain = _is_plain(old) and _is_plain(new)
        # Where a character may belong to the one before it, all of the row is written.
        begin = _count_common(was, now) if plain else 0
        end = len(now)
        if plain and len(was) == len(now):
            end -= min(_count_common(was[::-1], now[::-1]), len(now) - begin)
        moved = self._move(at, sum(measure_width(cell.text) for cell in now[:begin]))
        self._cursor = (at, self._cursor[1] + sum(measure_width(cell.text) for cell in now[begin:end]))
        cleared = "\x1b[K" if end == len(now) and (measure_row(old) > measure_row(new) or not plain) else ""
        return moved + self._format_row(_join_cells(now[begin:end])) + cleared

    def _format_row(self, row: Sequence[Run]) -> str:
        return "".join(self._format_run(run) for run in row)

    def _format_run(self, run: Run) -> str:
        parameters = self.palette.find_parameters(run.role)
        text = f"\x1b[{parameters}m{run.text}\x1b[0m" if parameters else run.text
        return f"\x1b]8;;{run.link}\x1b\\{text}\x1b]8;;\x1b\\" if run.link and self.palette.has_colours else text

    def _move(self, row: int, column: int | None) -> str:
        """To a row of those that are drawn, and to a column of it; None: whichever."""
        vertical = row - self._cursor[0]
        output = f"\x1b[{vertical}B" if vertical > 0 else f"\x1b[{-vertical}A" if vertical < 0 else ""
        if column is not None and column != self._cursor[1]:
            output += "\r" if column == 0 else f"\x1b[{column + 1}G"
        self._cursor = (row, self._cursor[1] if column is None else column)
        return output


def _count_common(first: Sequence[object], second: Sequence[object]) -> int:
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return at
    return min(len(first), len(second))


def _split_row(row: Row) -> list[Run]:
    """The row character by character."""
    return [run._replace(text=char) for run in row for char in run.text]


def _join_cells(cells: Sequence[Run]) -> list[Run]:
    return [
        Run("".join(cell.text for cell in group), *look)
        for look, group in ((look, list(group)) for look, group in groupby(cells, key=lambda cell: cell[1:]))
    ]


def _is_plain(row: Row) -> bool:
    """Whether each character stands for itself, so that a row can be written in part."""
    return all(run.text.isascii() or measure_width(run.text) == len(run.text) for run in row)

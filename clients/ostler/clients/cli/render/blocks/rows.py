"""Rows of a terminal: pieces of text, each with the role that says how it looks."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ostler.clients.cli.output import sanitize
from ostler.clients.cli.render.text_width import TAB, fit_width, measure_char, measure_width

_MARGIN: Final = " │"
"""The characters of an indent, which the further rows of a wrapped line keep clear."""
_LONGEST_LINE: Final = 20_000
"""Of a line that never ends, so much is shown."""
_TOKENS: Final = re.compile(r" +|[^ ]+")


class Run(NamedTuple):
    """Text in one look; nothing in it can steer a terminal."""

    text: str
    role: str = ""
    """A role of the theme, or the parameters of an SGR sequence."""
    link: str = ""
    """The address that it leads to."""


Row = tuple[Run, ...]
"""What stands in one row of the screen."""

EMPTY_ROW: Final[Row] = ()


def make_row(*runs: tuple[str, str] | Run) -> Row:
    return tuple(Run(*run) for run in runs if run[0])


def measure_row(row: Iterable[Run]) -> int:
    return sum(measure_width(run.text) for run in row)


def clean(text: str) -> str:
    """The text in one line, with control characters spelled out."""
    return sanitize(text).replace("\t", TAB).replace("\n", " ⏎ ")


def fit_row(row: Iterable[Run], columns: int) -> Row:
    """As much of its beginning as fits, with a mark where it is cut."""
    row = tuple(row)
    if measure_row(row) <= columns:
        return row
    kept: list[Run] = []
    left = columns - 1
    for run in row:
        text = fit_width(run.text, left)
        kept.append(run._replace(text=text))
        left -= measure_width(text)
        if text != run.text:
            break
    return tuple(run for run in (*kept, Run("…", kept[-1].role if kept else "")) if run.text) if columns > 0 else ()


def wrap_text(text: str, columns: int, role: str = "") -> list[Row]:
    """The lines of a text as rows, cut between words where there are some; further rows keep a line's indent."""
    return [row for line in sanitize(text).split("\n") for row in _wrap_line(line.replace("\t", TAB), columns, role)]


def _wrap_line(line: str, columns: int, role: str) -> list[Row]:
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]}… ({len(line) - _LONGEST_LINE:,} characters more)"
    columns = max(1, columns)
    indent = len(line) - len(line.lstrip(_MARGIN))
    margin = " " * indent if indent <= columns // 2 else ""
    rows: list[Row] = []
    current, used = "", 0
    for token in _TOKENS.findall(line):
        width = measure_width(token)
        if used + width > columns and current.strip(_MARGIN):
            rows.append(make_row((current.rstrip(), role)))
            current, used = margin, len(margin)
            if token.isspace():
                continue
        while used + width > columns:
            piece = fit_width(token, columns - used) or token[: 1 if columns > len(margin) else len(token)]
            rows.append(make_row((current + piece, role)))
            token, current, used = token[len(piece) :], margin, len(margin)  # noqa: PLW2901 -- what is left of it
            width = measure_width(token)
            if not token:
                break
        current, used = current + token, used + width
    if current.strip(_MARGIN) or not rows:
        rows.append(make_row((current.rstrip() if not current.isspace() else "", role)))
    return rows


def lay_out(text: str, columns: int, cursor: int) -> tuple[list[str], int, int]:
    """What is typed as rows that are full to the last column, and the row and column of the cursor in them."""
    rows, used = [""], 0
    place = (0, 0)
    for at, char in enumerate(text):
        if at == cursor:
            place = (len(rows) - 1, used)
        if char == "\n":
            rows.append("")
            used = 0
            continue
        shown = clean(char)
        width = sum(map(measure_char, shown))
        if used + width > columns and rows[-1]:
            rows.append("")
            used = 0
            if at == cursor:
                place = (len(rows) - 1, 0)
        rows[-1] += shown
        used += width
    if cursor >= len(text):
        if used >= columns:
            rows.append("")
            used = 0
        place = (len(rows) - 1, used)
    return rows, place[0], place[1]

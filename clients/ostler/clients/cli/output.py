"""Printing for people and pipes: text, notes, JSON, colours, tables."""

import json
import os
import re
import sys
import unicodedata
from typing import Any, Final, Literal, TextIO

Format = Literal["text", "json"]

_COLOUR_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOUR_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;]*m")
_INVISIBLE_CATEGORIES: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS: Final = "\u200c\u200d"
Colour = Literal["bold", "dim", "red", "green", "yellow", "cyan"]


def is_terminal(stream: TextIO | None = None) -> bool:
    return (stream or sys.stdout).isatty()


def colourize(text: str, colour: Colour, stream: TextIO | None = None) -> str:
    """The text in colour on a terminal that has them, unless NO_COLOR says otherwise."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(stream)
    return text if plain else f"\x1b[{_COLOUR_CODES[colour]}m{text}\x1b[0m"


def strip_colours(text: str) -> str:
    """The same without colours, for where they are put on later."""
    return _COLOUR_SEQUENCE.sub("", text)


def say(text: str = "") -> None:
    print(text)


def note(text: str) -> None:
    """Print to stderr: for the person, not for the pipe."""
    sys.stdout.flush()  # where both are the same, in the order in which they were said
    print(text, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    note(f"{colourize('ostler:', 'red', sys.stderr)} {sanitize(text)}")


def say_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def sanitize(text: str) -> str:
    """The text with control characters spelled out: what a tool printed must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(_sanitize_char(text, at, char) for at, char in enumerate(text))


def _sanitize_char(text: str, at: int, char: str) -> str:
    if char in "\n\t" or unicodedata.category(char) not in _INVISIBLE_CATEGORIES:
        return char
    joins = char in _JOINERS and 0 < at < len(text) - 1 and _takes_joiner(text[at - 1]) and _takes_joiner(text[at + 1])
    return char if joins else _escape_char(char)


def _takes_joiner(char: str) -> bool:
    """Where a joiner belongs to how something is written: between emoji, and in scripts whose letters change."""
    return unicodedata.category(char) in {"So", "Sk", "Lo", "Mn", "Mc"}


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def fit(text: str, width: int) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def format_count(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_table(rows: list[list[str]], colours: dict[str, Colour]) -> list[str]:
    """One line a row: columns on a terminal, the first in colour; tabs in a pipe."""
    clean = [[" ".join(sanitize(cell).split()) for cell in row] for row in rows]
    if not is_terminal():
        return ["\t".join(row) for row in clean]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    return [_format_row(row, widths, colours) for row in clean]


def _format_row(row: list[str], widths: list[int], colours: dict[str, Colour]) -> str:
    first, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join([colourize(first, colours.get(row[0], "cyan")), *rest]).rstrip()


def format_duration(seconds: float) -> str:
    """A time span in the two units that matter."""
    whole = int(seconds)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def format_facts(pairs: list[tuple[str, Any]]) -> str:
    """Names and values under each other; what is not known is left out."""
    known = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    return "\n".join(f"  {colourize(name.ljust(width), 'dim')}  {sanitize(str(value))}" for name, value in known)

"""How many columns of a terminal a text takes, and text cut to a width."""

import unicodedata
from collections.abc import Iterable
from typing import Final

TAB: Final = "    "
"""What a tab is shown as: a terminal's own would depend on where it stands."""


def measure_width(text: Iterable[str]) -> int:
    return sum(measure_char(char) for char in text)


def measure_char(char: str) -> int:
    if char.isascii():
        return len(TAB) if char == "\t" else 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def fit_width(text: str, columns: int) -> str:
    """As much of its beginning as fits."""
    used = 0
    for at, char in enumerate(text):
        used += measure_char(char)
        if used > columns:
            return text[:at]
    return text


def shorten_line(text: str, columns: int) -> str:
    """The line with its blanks and columns as they are, and with a mark where it is cut."""
    return text if measure_width(text) <= columns else f"{fit_width(text, columns - 1)}…"

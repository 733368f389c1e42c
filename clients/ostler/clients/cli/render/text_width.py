"""How many cells of a terminal's row a text takes."""

import unicodedata
from collections.abc import Iterable
from typing import Final

TAB: Final = "    "
"""What a tab is shown as: a terminal's own would depend on where it stands."""


def width(text: Iterable[str]) -> int:
    return sum(cells(char) for char in text)


def cells(char: str) -> int:
    if char.isascii():
        return len(TAB) if char == "\t" else 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def fitting(text: str, room: int) -> str:
    """As much of its beginning as fits."""
    used = 0
    for at, char in enumerate(text):
        used += cells(char)
        if used > room:
            return text[:at]
    return text


def shortened(text: str, room: int) -> str:
    """The line with its blanks and columns as they are, and with a mark where it is cut."""
    return text if width(text) <= room else f"{fitting(text, room - 1)}…"

"""Lines as the model reads them: numbered, and none of them endless."""

from typing import Final

MAX_LINE: Final = 2_000
MAX_LONE_LINE: Final = 50_000
"""Of a line that is asked for alone: there is no other way to the rest of it."""


def longest(count: int) -> int:
    """Characters of a line that are shown where so many lines are asked for."""
    return MAX_LONE_LINE if count == 1 else MAX_LINE


def cut(line: str, most: int = MAX_LINE) -> str:
    """A long line without its end, which is said."""
    if len(line) <= most:
        return line
    return f"{line[:most]}… (cut after {most} characters)"


def cut_of(line: str, count: int) -> str:
    """The same for one of the lines that were asked for, with the way to more of it."""
    if len(line) <= longest(count):
        return line
    way = "" if count == 1 else "; alone, with limit 1, more of it is shown"
    return f"{line[: longest(count)]}… (cut after {longest(count)} characters{way})"


def numbered(number: int, line: str) -> str:
    """As `cat -n` writes it."""
    return f"{number:6}\t{line}"

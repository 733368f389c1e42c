"""Lines as the model reads them: numbered, and none of them endless."""

from typing import Final

MAX_LINE: Final = 2_000
MAX_LONE_LINE: Final = 50_000
"""Of a line that is asked for alone: there is no other way to the rest of it."""
_WORDS: Final = 100
"""Bytes in which it is said that a line is cut."""


def longest(count: int) -> int:
    """Characters of a line that are shown where so many lines are asked for."""
    return MAX_LONE_LINE if count == 1 else MAX_LINE


def cut(line: str, most: int = MAX_LINE) -> str:
    """A long line without its end, which is said."""
    if len(line) <= most:
        return line
    return f"{line[:most]}… (cut after {most} characters)"


def cut_of(line: str, count: int, max_bytes: int) -> str:
    """The same for one of the lines that were asked for, with the way to more of it; a lone one fits the bytes."""
    most = MAX_LINE if count > 1 else _fitting(line, max_bytes - _WORDS)
    if len(line) <= most:
        return line
    way = "" if count == 1 else "; alone, with limit 1, more of it is shown"
    return f"{line[:most]}… (cut after {most} characters{way})"


def _fitting(line: str, max_bytes: int) -> int:
    data = line[:MAX_LONE_LINE].encode("utf-8", "replace")
    return MAX_LONE_LINE if len(data) <= max_bytes else len(data[:max_bytes].decode("utf-8", "ignore"))


def numbered(number: int, line: str) -> str:
    """As `cat -n` writes it."""
    return f"{number:6}\t{line}"


def one_line(text: str, most: int) -> str:
    """The beginning of the text, with one blank where there were several, or the end of a line."""
    # A word has a character at least: more words than characters never fit.
    return " ".join(text.split(maxsplit=most)[:most])[:most]

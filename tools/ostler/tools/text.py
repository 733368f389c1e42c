"""Lines of text as the model reads them: numbered, cut where they are too long, or joined into one line."""

from typing import Final

MAX_LINE: Final = 2_000
MAX_LONE_LINE: Final = 50_000
"""Of a line that is requested alone: there is no other way to see the rest of it."""
_CUT_NOTE_BYTES: Final = 100
"""Bytes reserved for the note that a line is cut."""


def get_line_limit(count: int) -> int:
    """How many characters of a line are shown where `count` lines are requested."""
    return MAX_LONE_LINE if count == 1 else MAX_LINE


def cut_line(line: str, most: int = MAX_LINE) -> str:
    """Cuts off the end of a long line, with a note that it was cut."""
    if len(line) <= most:
        return line
    return f"{line[:most]}… (cut after {most} characters)"


def cut_requested_line(line: str, count: int, max_bytes: int) -> str:
    """Cuts one of `count` requested lines, with a note on how to see more; a single one is cut to fit `max_bytes`."""
    most = MAX_LINE if count > 1 else _count_fitting_chars(line, max_bytes - _CUT_NOTE_BYTES)
    if len(line) <= most:
        return line
    hint = "" if count == 1 else "; alone, with limit 1, more of it is shown"
    return f"{line[:most]}… (cut after {most} characters{hint})"


def _count_fitting_chars(line: str, max_bytes: int) -> int:
    data = line[:MAX_LONE_LINE].encode("utf-8", "replace")
    return MAX_LONE_LINE if len(data) <= max_bytes else len(data[:max_bytes].decode("utf-8", "ignore"))


def number_line(number: int, line: str) -> str:
    """Puts the line number before a line, as `cat -n` does."""
    return f"{number:6}\t{line}"


def cut_text(text: str, most: int) -> str:
    """The first `most` characters, with a mark where that is not all."""
    return text if len(text) <= most else f"{text[:most]}…"


def cut_text_with_count(text: str, most: int) -> str:
    """The same, and how many characters it has in all."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def fit_text(text: str, most: int) -> str:
    """At most so many characters, the mark among them."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """The beginning of the text on one line, with each run of white space as one blank."""
    # A word has a character at least: more words than characters never fit.
    return " ".join(text.split(maxsplit=most)[:most])[:most]

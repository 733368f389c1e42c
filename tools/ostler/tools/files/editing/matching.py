"""Where an edit's old text stands in a file: exactly, but for the style of quotes and of line ends."""

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from ostler.tools.files.editing import text_match

MAX_PLACES: Final = 100_000


class TooMany(Exception):
    """The text stands in more places than one call should touch."""


@dataclass(frozen=True, slots=True)
class Place:
    """From where to where in the file's text, and what comes there."""

    start: int
    end: int
    new: str


def find_places(text: str, old: str, new: str) -> list[Place]:
    """All places, by the strictest comparison that finds any."""
    if "\r" in text and "\n" not in text:
        # Lines as they ended on the first Macintosh: Read shows them as lines, too.
        old, new = _with_returns(old), _with_returns(new)
    new = _with_line_ends_of(text, new)
    exact = _spans(text, old)
    if exact:
        return [_place(text, start, end, new) for start, end in exact]
    straight_text, straight_old = text_match.straight(text), text_match.straight(old)
    spans = _spans(straight_text, straight_old) or _across_line_ends(straight_text, straight_old)
    given = text_match.Given.of(old, new)
    return [_place(text, start, end, given.written_for(text[start:end])) for start, end in spans]


def _place(text: str, start: int, end: int, new: str) -> Place:
    # In a file with both, a line end that stays the first of the passage stays what it was.
    kept = text.startswith("\r\n", start) and new.startswith("\n")
    return Place(start, end, f"\r{new}" if kept else new)


def apply(text: str, places: list[Place]) -> str:
    parts: list[str] = []
    here = 0
    for place in places:
        parts += [text[here : place.start], place.new]
        here = place.end
    return "".join([*parts, text[here:]])


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _starts(text: str, old: str) -> list[int]:
    found: list[int] = []
    start = text.find(old)
    while start >= 0:
        found.append(start)
        if len(found) > MAX_PLACES:
            raise TooMany
        start = text.find(old, start + len(old))
    return found


def _spans(text: str, old: str) -> list[tuple[int, int]]:
    """From where to where, never from between CR and LF: nobody means half of a line end."""
    spans: list[tuple[int, int]] = []
    for start in _starts(text, old):
        free = spans[-1][1] if spans else 0
        spans.append((start - 1 if text.startswith("\r\n", start - 1) and start > free else start, start + len(old)))
    return spans


def _across_line_ends(text: str, old: str) -> list[tuple[int, int]]:
    """Compares with every line end as LF, and tells where that is in the text as it stands."""
    if "\r\n" not in text and "\r\n" not in old:
        return []
    ends = [match.start() for match in re.finditer("\r\n", text)]
    # In the text without CR, each CRLF stands as many places further left as there are before it.
    feeds = [place - index for index, place in enumerate(ends)]
    plain_old = old.replace("\r\n", "\n")
    spans: list[tuple[int, int]] = []
    for start in _starts(text.replace("\r\n", "\n"), plain_old):
        end = start + len(plain_old)
        spans.append((start + bisect_left(feeds, start), end + bisect_left(feeds, end)))
    return spans


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r")


def _with_line_ends_of(text: str, new: str) -> str:
    if "\n" not in new:
        return new
    returns = text.count("\r\n")
    plain = new.replace("\r\n", "\n")
    if returns * 2 > text.count("\n"):
        return plain.replace("\n", "\r\n")
    return plain if returns == 0 and "\n" in text else new

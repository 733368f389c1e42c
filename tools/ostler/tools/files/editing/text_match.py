"""Straight and curly quotes: taken as equal in what is looked for, and written as the file has them."""

# ruff: noqa: RUF001, RUF003 - the curly quotes are meant

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Final

_DOUBLE: Final = "“”„‟"
_SINGLE: Final = "‘’‚‛"
_CLOSED_BY: Final = {"“": "”", "„": "“", "‟": "”", "‘": "’", "‚": "‘", "‛": "’"}
_OPENED_BY: Final = {"”": "“", "“": "„", "’": "‘", "‘": "‚"}
_QUOTE: Final = re.compile(f"[\"'{_DOUBLE}{_SINGLE}]")
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_COMPARED: Final = 250_000
"""Pairs of words: what differs in more of them is taken for something new."""
MAX_PLACES: Final = 100_000


def straight(text: str) -> str:
    """One character for one, so that places stay what they are."""
    # Not with str.translate, which would hold everybody up for half a second on a long text.
    if text.isascii():
        return text
    for curly in _DOUBLE:
        text = text.replace(curly, '"')
    for curly in _SINGLE:
        text = text.replace(curly, "'")
    return text


@dataclass(frozen=True, slots=True)
class Given:
    """The text of an edit, and which of the quotes in `new` are those of `old`."""

    new: str
    quotes: list[str]
    """Those of `old`, in order: a passage that was found for it has as many."""
    kept: list[int | None]
    """For each quote of `new` the one of `old` that it is; null where it is a new one."""

    @classmethod
    def of(cls, old: str, new: str) -> "Given":
        return cls(new, _QUOTE.findall(old), _lined_up(_tokens(old), _tokens(new)))

    def written_for(self, found: str) -> str:
        """The new text with the quotes of the passage that it replaces."""
        quotes: list[str] = _QUOTE.findall(found)
        if quotes == self.quotes:
            return self.new
        if not any(mark in _DOUBLE + _SINGLE for mark in quotes):
            return straight(self.new)
        kept = (None if place is None else quotes[place] for place in self.kept)
        return _QUOTE.sub(partial(_written, found, kept), self.new)


def _written(found: str, kept: Iterator[str | None], quote: re.Match[str]) -> str:
    """A quote that was there stays; a new one is curly only where all of its kind in the passage are."""
    there, mark = next(kept), quote.group()
    if there is not None:
        return there
    if mark not in "\"'" or mark in found:
        return mark
    curly = _DOUBLE if mark == '"' else _SINGLE
    if _in_a_word(quote.string, quote.start()):
        return next((found[place] for place in _places(found, curly) if _in_a_word(found, place)), mark)
    pair = _pair(found, curly)
    if pair is None:
        return mark
    return pair[0] if _opens(quote.string, quote.start()) else pair[1]


def _lined_up(old: list[str], new: list[str]) -> list[int | None]:
    kept: dict[int, int] = {}
    for first, other, size in _equal_parts(old, new):
        kept.update(zip(range(other, other + size), range(first, first + size), strict=True))
    ordinals = {place: ordinal for ordinal, place in enumerate(_quote_places(old))}
    return [ordinals[kept[place]] if place in kept else None for place in _quote_places(new)]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.replace("\r\n", "\n"))


def _quote_places(tokens: list[str]) -> list[int]:
    return [place for place, token in enumerate(tokens) if _QUOTE.match(token)]


def _equal_parts(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Where both are the same, as (place in old, place in new, length)."""
    shorter = min(len(old), len(new))
    head = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - head
    tail = next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)
    yield 0, 0, head
    yield len(old) - tail, len(new) - tail, tail
    between, other = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(between) * len(other) <= _MOST_COMPARED:
        for block in SequenceMatcher(None, between, other, autojunk=False).get_matching_blocks():
            # Marks alone are equal by chance: the apostrophe of a word that went is not the quote of one that came.
            if any(token[0].isalnum() for token in between[block.a : block.a + block.size]):
                yield head + block.a, head + block.b, block.size


def _pair(found: str, curly: str) -> tuple[str, str] | None:
    """How the passage opens and closes what it quotes; what it does not show is what goes with the other."""
    # An apostrophe says nothing of how a text is quoted: code under a comment with `don’t` has straight quotes.
    marks = [(_opens(found, place), found[place]) for place in _places(found, curly) if not _in_a_word(found, place)]
    if not marks:
        return None
    opening = next((mark for opens, mark in marks if opens), None)
    closing = next((mark for opens, mark in marks if not opens), None)
    return opening or _OPENED_BY.get(closing or "", marks[0][1]), closing or _CLOSED_BY.get(opening or "", marks[0][1])


def _places(text: str, marks: str) -> Iterator[int]:
    return (place for place, letter in enumerate(text) if letter in marks)


def _opens(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] in " \t\r\n([{<—–-=/“‘„‚"


def _in_a_word(text: str, place: int) -> bool:
    return text[max(place - 1, 0) : place].isalnum() and text[place + 1 : place + 2].isalnum()


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
    straight_text, straight_old = straight(text), straight(old)
    spans = _spans(straight_text, straight_old) or _across_line_ends(straight_text, straight_old)
    given = Given.of(old, new)
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

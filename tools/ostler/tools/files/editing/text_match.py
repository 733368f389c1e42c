"""Finds the text that an edit replaces, and builds the replacement, with the line ends and quotes of the file.

Straight and curly quotes are equal in the search; the replacement is written with those that the file has.
"""

# ruff: noqa: RUF001, RUF003 - the curly quotes are meant

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Final

from ostler.protocol.patterns import compile_later

_DOUBLE: Final = "“”„‟"
_SINGLE: Final = "‘’‚‛"
_CLOSED_BY: Final = {"“": "”", "„": "“", "‟": "”", "‘": "’", "‚": "‘", "‛": "’"}
_OPENED_BY: Final = {"”": "“", "“": "„", "’": "‘", "‘": "‚"}
_QUOTE: Final = compile_later(f"[\"'{_DOUBLE}{_SINGLE}]")
_TOKEN: Final = compile_later(r"\w+|\s+|[^\w\s]")
_MAX_TOKEN_PAIRS: Final = 250_000
"""Old tokens times new tokens up to which texts are aligned; beyond, all quotes between count as new."""
MAX_REPLACEMENTS: Final = 100_000


def straighten_quotes(text: str) -> str:
    """Replaces curly quotes by straight ones, character by character, so that positions stay the same."""
    # Not with str.translate, which holds the interpreter's lock for half a second on a long text.
    if text.isascii():
        return text
    for curly in _DOUBLE:
        text = text.replace(curly, '"')
    for curly in _SINGLE:
        text = text.replace(curly, "'")
    return text


@dataclass(frozen=True, slots=True)
class QuoteMapping:
    """Which of the quotes in the new text of an edit are those of the old text."""

    new: str
    quotes: list[str]
    """The quotes of `old`, in order: a passage that matches it has as many."""
    kept: list[int | None]
    """For each quote of `new` the index of the same one in `old`; null where it is a new one."""

    @classmethod
    def of(cls, old: str, new: str) -> "QuoteMapping":
        return cls(new, _QUOTE.findall(old), _align_quotes(_tokenize(old), _tokenize(new)))

    def adapt_to(self, found: str) -> str:
        """Returns the new text with the quotes of the passage that it replaces."""
        quotes: list[str] = _QUOTE.findall(found)
        if quotes == self.quotes:
            return self.new
        if not any(mark in _DOUBLE + _SINGLE for mark in quotes):
            return straighten_quotes(self.new)
        kept = (None if place is None else quotes[place] for place in self.kept)
        return _QUOTE.sub(partial(_choose_quote, found, kept), self.new)


def _choose_quote(found: str, kept: Iterator[str | None], quote: re.Match[str]) -> str:
    """Chooses how a quote is written: as it was; a new one is curly only where all of its kind in the passage are."""
    there, mark = next(kept), quote.group()
    if there is not None:
        return there
    if mark not in "\"'" or mark in found:
        return mark
    curly = _DOUBLE if mark == '"' else _SINGLE
    if _is_in_word(quote.string, quote.start()):
        return next((found[place] for place in _find_marks(found, curly) if _is_in_word(found, place)), mark)
    pair = _find_pair(found, curly)
    if pair is None:
        return mark
    return pair[0] if _opens(quote.string, quote.start()) else pair[1]


def _align_quotes(old: list[str], new: list[str]) -> list[int | None]:
    kept: dict[int, int] = {}
    for first, other, size in _find_equal_parts(old, new):
        kept.update(zip(range(other, other + size), range(first, first + size), strict=True))
    ordinals = {place: ordinal for ordinal, place in enumerate(_find_quotes(old))}
    return [ordinals[kept[place]] if place in kept else None for place in _find_quotes(new)]


def _tokenize(text: str) -> list[str]:
    return _TOKEN.findall(text.replace("\r\n", "\n"))


def _find_quotes(tokens: list[str]) -> list[int]:
    return [place for place, token in enumerate(tokens) if _QUOTE.match(token)]


def _find_equal_parts(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Where both are the same, as (place in old, place in new, length)."""
    shorter = min(len(old), len(new))
    head = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - head
    tail = next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)
    yield 0, 0, head
    yield len(old) - tail, len(new) - tail, tail
    between, other = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(between) * len(other) <= _MAX_TOKEN_PAIRS:
        for block in SequenceMatcher(None, between, other, autojunk=False).get_matching_blocks():
            # Punctuation alone is equal by chance: the apostrophe of a removed word is not the quote of an added one.
            if any(token[0].isalnum() for token in between[block.a : block.a + block.size]):
                yield head + block.a, head + block.b, block.size


def _find_pair(found: str, curly: str) -> tuple[str, str] | None:
    """The opening and closing quote of the passage; one that does not occur is derived from the other."""
    # An apostrophe says nothing of how a text is quoted: code under a comment with `don’t` has straight quotes.
    marks = [
        (_opens(found, place), found[place]) for place in _find_marks(found, curly) if not _is_in_word(found, place)
    ]
    if not marks:
        return None
    opening = next((mark for opens, mark in marks if opens), None)
    closing = next((mark for opens, mark in marks if not opens), None)
    return opening or _OPENED_BY.get(closing or "", marks[0][1]), closing or _CLOSED_BY.get(opening or "", marks[0][1])


def _find_marks(text: str, marks: str) -> Iterator[int]:
    return (place for place, letter in enumerate(text) if letter in marks)


def _opens(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] in " \t\r\n([{<—–-=/“‘„‚"


def _is_in_word(text: str, place: int) -> bool:
    return text[max(place - 1, 0) : place].isalnum() and text[place + 1 : place + 2].isalnum()


class TooManyMatches(Exception):
    """The text occurs more often than one call may replace."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A span of the file's text, and the text that replaces it."""

    start: int
    end: int
    new: str


def find_replacements(text: str, old: str, new: str) -> list[Replacement]:
    """All occurrences of `old` with their replacements, by the strictest comparison that finds any."""
    if "\r" in text and "\n" not in text:
        # Lines as they ended on the first Macintosh: Read shows them as lines, too.
        old, new = _convert_to_returns(old), _convert_to_returns(new)
    new = _adopt_line_ends(text, new)
    exact = _find_spans(text, old)
    if exact:
        return [_build_replacement(text, start, end, new) for start, end in exact]
    straight_text, straight_old = straighten_quotes(text), straighten_quotes(old)
    spans = _find_spans(straight_text, straight_old) or _find_across_line_ends(straight_text, straight_old)
    if not spans:
        return []
    given = QuoteMapping.of(old, new)
    return [_build_replacement(text, start, end, given.adapt_to(text[start:end])) for start, end in spans]


def _build_replacement(text: str, start: int, end: int, new: str) -> Replacement:
    # In a file with both, a line end that stays the first of the passage stays what it was.
    kept = text.startswith("\r\n", start) and new.startswith("\n")
    return Replacement(start, end, f"\r{new}" if kept else new)


def apply_replacements(text: str, places: list[Replacement]) -> str:
    parts: list[str] = []
    here = 0
    for place in places:
        parts += [text[here : place.start], place.new]
        here = place.end
    return "".join([*parts, text[here:]])


def get_line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _find_starts(text: str, old: str) -> list[int]:
    found: list[int] = []
    start = text.find(old)
    while start >= 0:
        found.append(start)
        if len(found) > MAX_REPLACEMENTS:
            raise TooManyMatches
        start = text.find(old, start + len(old))
    return found


def _find_spans(text: str, old: str) -> list[tuple[int, int]]:
    """Spans of exact matches; one that starts between CR and LF is extended to the whole line end."""
    spans: list[tuple[int, int]] = []
    for start in _find_starts(text, old):
        free = spans[-1][1] if spans else 0
        spans.append((start - 1 if text.startswith("\r\n", start - 1) and start > free else start, start + len(old)))
    return spans


def _find_across_line_ends(text: str, old: str) -> list[tuple[int, int]]:
    """Compares with every line end as LF, and maps the matches back to the text as it is."""
    if "\r\n" not in text and "\r\n" not in old:
        return []
    ends = [match.start() for match in re.finditer("\r\n", text)]
    # In the text without CR, each CRLF stands as many places further left as there are before it.
    feeds = [place - index for index, place in enumerate(ends)]
    plain_old = old.replace("\r\n", "\n")
    spans: list[tuple[int, int]] = []
    for start in _find_starts(text.replace("\r\n", "\n"), plain_old):
        end = start + len(plain_old)
        spans.append((start + bisect_left(feeds, start), end + bisect_left(feeds, end)))
    return spans


def _convert_to_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r")


def _adopt_line_ends(text: str, new: str) -> str:
    if "\n" not in new:
        return new
    returns = text.count("\r\n")
    plain = new.replace("\r\n", "\n")
    if returns * 2 > text.count("\n"):
        return plain.replace("\n", "\r\n")
    return plain if returns == 0 and "\n" in text else new

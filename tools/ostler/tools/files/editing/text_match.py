"""Straight and curly quotes: taken as equal in what is looked for, and written as the file has them."""

# ruff: noqa: RUF001, RUF003 - the curly quotes are meant

import re
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

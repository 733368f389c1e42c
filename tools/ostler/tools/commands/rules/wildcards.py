"""Rules with stars: whether the words of a command fit one.

Not by a regular expression: that goes back and tries again, with a few stars and a long command for longer than anybody
waits, and a project that nobody trusts may bring the rule. Nothing here goes back.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

_BETWEEN: Final = "\0"
"""Stands between words where they are compared: no word holds it."""


class _Gap(Enum):
    """What a star stands for."""

    WITHIN = "any characters of one word"
    ANY = "any characters, over words too"
    SOME = "the same, and one at least"


@dataclass(frozen=True, slots=True)
class _Steps:
    """A rule one character at a time; each number is a set of places in the rule, with a bit for each."""

    on_by: Mapping[str, int]
    """From where a character leads to the next place."""
    on_by_any: int
    stays: int
    """Where a character of a word may follow without a step: at a star."""
    stays_over_words: int
    end: int


@dataclass(frozen=True, slots=True)
class Stars:
    """What has to stand there, piece by piece, and what may stand between two of them."""

    pieces: tuple[str, ...]
    gaps: tuple[_Gap, ...]
    open_end: bool
    """After the last word whatever there is may follow, or nothing."""
    steps: _Steps | None
    """Where a star stays within its word."""

    def fit(self, words: Iterable[str]) -> bool:
        """Whether all of the words together are what the rule says."""
        text = _BETWEEN.join(words)
        if self.open_end:
            text += _BETWEEN
        if not self.gaps:
            return text == self.pieces[0]
        if not text.startswith(self.pieces[0]) or not text.endswith(self.pieces[-1]):
            return False
        return self._stand_in_order(text) if self.steps is None else _leads_to_the_end(self.steps, text)

    def _stand_in_order(self, text: str) -> bool:
        """Each piece where it is first found: an earlier place only leaves more of the text for those that follow."""
        place = len(self.pieces[0])
        for gap, piece in zip(self.gaps, self.pieces[1:-1], strict=False):
            place = text.find(piece, place + (gap is _Gap.SOME))
            if place < 0:
                return False
            place += len(piece)
        return place + (self.gaps[-1] is _Gap.SOME) <= len(text) - len(self.pieces[-1])


@lru_cache(maxsize=8192)
def stars(words: tuple[str, ...], *, spanning: bool) -> Stars:
    """A star within a word stays in it where something is allowed, and goes over words where something is caught."""
    pieces, gaps = [""], list[_Gap]()
    for place, word in enumerate(words):
        first, *others = word.split("*")
        pieces[-1] += f"{_BETWEEN}{first}" if place else first
        pieces += others
        gap = _Gap.SOME if word == "*" else _Gap.ANY if spanning else _Gap.WITHIN
        gaps += [gap] * len(others)
    open_end = len(words) > 1 and words[-1] == "*"
    if open_end:
        gaps[-1] = _Gap.ANY
    steps = _steps(pieces, gaps) if _Gap.WITHIN in gaps else None
    return Stars(tuple(pieces), tuple(gaps), open_end, steps)


def _leads_to_the_end(steps: _Steps, text: str) -> bool:
    """Follows all places at once: of a piece behind a star that ends with its word, the first may be the wrong one.

    That takes a few operations for each character, on numbers with as many bits as the rule has characters.
    """
    here = 1
    for character in text:
        stays = steps.stays_over_words if character == _BETWEEN else steps.stays
        here = (here & stays) | (here & steps.on_by.get(character, steps.on_by_any)) << 1
        if not here:
            return False
    return bool(here & steps.end)


def _steps(pieces: Sequence[str], gaps: Sequence[_Gap]) -> _Steps:
    on_by: defaultdict[str, int] = defaultdict(int)
    on_by_any = stays = stays_over_words = 0
    place = 1
    for piece, gap in zip(pieces, (*gaps, None), strict=True):
        for character in piece:
            on_by[character] |= place
            place <<= 1
        if gap is _Gap.SOME:
            on_by_any |= place
            place <<= 1
        if gap is not None:
            stays |= place
        if gap in {_Gap.ANY, _Gap.SOME}:
            stays_over_words |= place
    both = {character: places | on_by_any for character, places in on_by.items()}
    return _Steps(both, on_by_any, stays, stays_over_words, end=place)

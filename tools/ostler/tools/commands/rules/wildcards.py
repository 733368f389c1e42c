"""Matches rules with wildcards (`*`) against the words of a command.

Not by a regular expression: that backtracks, with a few stars and a long command for longer than anybody waits, and the
rule may come from an untrusted project. Nothing here backtracks.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

_WORD_SEPARATOR: Final = "\0"
"""Separates words where they are compared: no word contains it."""


class _Gap(Enum):
    """What a star matches."""

    WITHIN = "any characters of one word"
    ANY = "any characters, over words too"
    SOME = "the same, and one at least"


@dataclass(frozen=True, slots=True)
class _Automaton:
    """A rule as a bit-parallel NFA; each number is a set of positions in the rule, with a bit for each."""

    advance_on: Mapping[str, int]
    """The positions from which a character leads to the next one."""
    advance_on_any: int
    stays: int
    """The positions that a character of a word does not leave: at a star."""
    stays_over_words: int
    end: int


@dataclass(frozen=True, slots=True)
class WildcardPattern:
    """A compiled rule: the literal pieces of it, and what may come between two of them."""

    pieces: tuple[str, ...]
    gaps: tuple[_Gap, ...]
    open_end: bool
    """After the last word anything may follow, or nothing."""
    automaton: _Automaton | None
    """None where no star has to stay within its word."""

    def matches(self, words: Iterable[str]) -> bool:
        """Whether the words, all together, match the rule."""
        text = _WORD_SEPARATOR.join(words)
        if self.open_end:
            text += _WORD_SEPARATOR
        if not self.gaps:
            return text == self.pieces[0]
        if not text.startswith(self.pieces[0]) or not text.endswith(self.pieces[-1]):
            return False
        return self._matches_in_order(text) if self.automaton is None else _accepts(self.automaton, text)

    def _matches_in_order(self, text: str) -> bool:
        """Each piece where it is first found: an earlier place only leaves more of the text for those that follow."""
        place = len(self.pieces[0])
        for gap, piece in zip(self.gaps, self.pieces[1:-1], strict=False):
            place = text.find(piece, place + (gap is _Gap.SOME))
            if place < 0:
                return False
            place += len(piece)
        return place + (self.gaps[-1] is _Gap.SOME) <= len(text) - len(self.pieces[-1])


@lru_cache(maxsize=8192)
def compile_wildcards(words: tuple[str, ...], *, spanning: bool) -> WildcardPattern:
    """Compiles a rule. `spanning`: a star within a word matches over words too, as deny and ask rules need it."""
    pieces, gaps = [""], list[_Gap]()
    for place, word in enumerate(words):
        first, *others = word.split("*")
        pieces[-1] += f"{_WORD_SEPARATOR}{first}" if place else first
        pieces += others
        gap = _Gap.SOME if word == "*" else _Gap.ANY if spanning else _Gap.WITHIN
        gaps += [gap] * len(others)
    open_end = len(words) > 1 and words[-1] == "*"
    if open_end:
        gaps[-1] = _Gap.ANY
    steps = _build_automaton(pieces, gaps) if _Gap.WITHIN in gaps else None
    return WildcardPattern(tuple(pieces), tuple(gaps), open_end, steps)


def _accepts(steps: _Automaton, text: str) -> bool:
    """Follows all positions at once: after a star that ends with its word, the first match of a piece may be wrong.

    That takes a few operations for each character, on numbers with as many bits as the rule has characters.
    """
    here = 1
    for character in text:
        stays = steps.stays_over_words if character == _WORD_SEPARATOR else steps.stays
        here = (here & stays) | (here & steps.advance_on.get(character, steps.advance_on_any)) << 1
        if not here:
            return False
    return bool(here & steps.end)


def _build_automaton(pieces: Sequence[str], gaps: Sequence[_Gap]) -> _Automaton:
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
    return _Automaton(both, on_by_any, stays, stays_over_words, end=place)

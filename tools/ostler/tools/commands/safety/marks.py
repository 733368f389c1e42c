"""Words that a wrapper fills in: `{}` of find and fd, whatever xargs was told to replace."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ostler.tools.commands.syntax.parsed import Part, unknown_word

_REPLACING: Final = re.compile(r"-[^-IiJ]*[IiJ](.*)|--replace=?(.*)", re.DOTALL)


def filled_in(parts: Sequence[Part], marks: Iterable[str]) -> list[Part]:
    """The parts as they are written, and as they are where a word with a mark in it is another one at each run."""
    found = list(parts)
    for part in parts:
        words = tuple(
            unknown_word(word.source) if any(mark in word.text for mark in marks) else word for word in part.tokens
        )
        found += [replace(part, tokens=words)] if words != part.tokens else []
    return found


def marks(part: Part) -> list[str]:
    """What xargs puts its input in place of. One too many only makes a word unknown."""
    found = {"{}"}
    for word, following in zip(part.tokens, (*part.tokens[1:], None), strict=True):
        if (spelled := _REPLACING.fullmatch(word.text)) is None:
            continue
        value = spelled[1] or spelled[2]
        if not value and following is not None:
            # Where only the run decides the mark, any word may have it.
            found.add(following.literal if following.literal is not None else "")
        found.add(value or "{}")
    return sorted(found)

"""A command's output as the model reads it, cleaned piece by piece: what comes out is what cleaning all of it gives.

Only a line that is longer than anybody's progress bar is cleaned in parts.
"""

from typing import Final

from ostler.tools.formats.terminal_text import for_the_model

_LONGEST_LINE: Final = 256 * 1024
_LONGEST_ESCAPE: Final = 600
"""Characters, of one that is no string for the terminal."""
_STRINGS_PASSED: Final = 100
"""On the way back to a border: output that is made of strings is none that anybody reads."""
_TITLE: Final = "]"
_STRINGS: Final = frozenset("PX^_")


class Cleaning:
    """Holds back what can be cleaned only with what follows."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, text: str) -> str:
        """What is clean by now."""
        # Of what was held back before, no newline became one between lines since.
        since, self._held = len(self._held), self._held + text
        end = _last_border(self._held, "\n", since) + 1
        clean, self._held = for_the_model(self._held[:end]), self._held[end:]
        return clean + self._begun() if len(self._held) > _LONGEST_LINE else clean

    def rest(self) -> str:
        """What was held back, where nothing follows."""
        clean, self._held = for_the_model(self._held), ""
        return clean

    def _begun(self) -> str:
        """Of a line that is too long to be held: first without what nobody will see of it, then as it is."""
        escape = self._held.rfind("\x1b")
        if escape >= 0 and _in_string(self._held, escape, len(self._held)):
            self._held = self._held[: escape + 2]
        # Not all but the last state at once: where nothing follows it that can be seen, the one before is shown.
        self._forget_states(_LONGEST_LINE // 2)
        self._forget_states(len(self._held.rstrip("\r")))
        if len(self._held) <= _LONGEST_LINE:
            return ""
        end = len(self._held.rstrip("\r"))
        # An escape that has begun ends in what follows.
        escape = self._held.rfind("\x1b", end - _LONGEST_ESCAPE, end)
        end = escape if escape >= 0 else end
        clean, self._held = for_the_model(self._held[:end]), self._held[end:]
        return clean

    def _forget_states(self, end: int) -> None:
        """Of a progress bar, those that stand before the last one that begins by then."""
        if len(self._held) > _LONGEST_LINE:
            self._held = self._held[_last_border(self._held[:end], "\r") + 1 :]


def _last_border(text: str, border: str, since: int = 0) -> int:
    """Where the last one stands that is not within a string for the terminal; -1 where none is near."""
    place = text.rfind(border, since)
    for _ in range(_STRINGS_PASSED):
        escape = text.rfind("\x1b", 0, max(place, 0))
        if place < 0 or escape < 0 or not _in_string(text, escape, place):
            return place
        # All that stands in a string is part of it.
        place = text.rfind(border, since, escape)
    return -1


def _in_string(text: str, escape: int, place: int) -> bool:
    """Whether a string that begins with the last escape before a place goes on there."""
    kind = text[escape + 1 : escape + 2]
    return kind in _STRINGS or (kind == _TITLE and text.find("\x07", escape, place) < 0)

"""Cleans a command's output for the model piece by piece, with the same result as cleaning all of it at once.

Only a line that is longer than any progress bar is cleaned in parts.
"""

from typing import Final

from ostler.tools.formats.terminal_text import clean_for_model

_LONGEST_LINE: Final = 256 * 1024
_LONGEST_ESCAPE: Final = 600
"""Characters of an escape sequence that is not a terminal string (OSC, DCS…)."""
_STRINGS_PASSED: Final = 100
"""How many terminal strings are skipped in the search for a border; nobody reads output that consists of them."""
_TITLE: Final = "]"
_STRINGS: Final = frozenset("PX^_")


class StreamCleaner:
    """Cleans a stream; buffers what can be cleaned only together with what follows."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Adds text; returns what could be cleaned by now."""
        # Newlines in what was buffered before have been searched already.
        since, self._held = len(self._held), self._held + text
        end = _find_last_border(self._held, "\n", since) + 1
        clean, self._held = clean_for_model(self._held[:end]), self._held[end:]
        return clean + self._clean_long_line() if len(self._held) > _LONGEST_LINE else clean

    def flush(self) -> str:
        """Cleans what is still buffered, at the end of the stream."""
        clean, self._held = clean_for_model(self._held), ""
        return clean

    def _clean_long_line(self) -> str:
        """Cleans the beginning of a line that is too long to be buffered, first without what is overwritten later."""
        escape = self._held.rfind("\x1b")
        if escape >= 0 and _is_in_string(self._held, escape, len(self._held)):
            self._held = self._held[: escape + 2]
        # Not all but the last state at once: where the last shows nothing visible, the one before is shown.
        self._forget_states(_LONGEST_LINE // 2)
        self._forget_states(len(self._held.rstrip("\r")))
        if len(self._held) <= _LONGEST_LINE:
            return ""
        end = len(self._held.rstrip("\r"))
        # An escape sequence that has begun ends in later text.
        escape = self._held.rfind("\x1b", end - _LONGEST_ESCAPE, end)
        end = escape if escape >= 0 else end
        clean, self._held = clean_for_model(self._held[:end]), self._held[end:]
        return clean

    def _forget_states(self, end: int) -> None:
        """Drops the states of a progress bar before the last one that begins before `end`."""
        if len(self._held) > _LONGEST_LINE:
            self._held = self._held[_find_last_border(self._held[:end], "\r") + 1 :]


def _find_last_border(text: str, border: str, since: int = 0) -> int:
    """The index of the last border that is not inside a terminal string; -1 where none is near."""
    place = text.rfind(border, since)
    for _ in range(_STRINGS_PASSED):
        escape = text.rfind("\x1b", 0, max(place, 0))
        if place < 0 or escape < 0 or not _is_in_string(text, escape, place):
            return place
        # The border is part of that string: search before it.
        place = text.rfind(border, since, escape)
    return -1


def _is_in_string(text: str, escape: int, place: int) -> bool:
    """Whether the terminal string that begins with the last escape before a place goes on there."""
    kind = text[escape + 1 : escape + 2]
    return kind in _STRINGS or (kind == _TITLE and text.find("\x07", escape, place) < 0)

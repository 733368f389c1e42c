"""The menu below the line: what can follow a `/` or an `@`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MENU_ROWS: Final = 8
_WORD: Final = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that can take the place of what stands from `start` to the cursor."""

    start: int
    text: str
    help: str = ""


Suggest = Callable[[str, int], Sequence[Suggestion]]
"""What is known now for a text and a cursor in it; what is fetched for it calls `refresh` later."""


def find_mention(text: str, cursor: int) -> tuple[int, str] | None:
    """Where the mention that the cursor stands behind begins, and what it says so far."""
    found = _WORD.search(text[:cursor])
    return (found.start(), found[1]) if found else None


class CompletionMenu:
    """Open while there are suggestions that nobody has dismissed."""

    def __init__(self) -> None:
        self.suggest: Suggest = lambda text, cursor: ()
        self.suggestions: Sequence[Suggestion] = ()
        self.at = 0
        self._moved = False
        self._dismissed: str | None = None

    @property
    def is_open(self) -> bool:
        return bool(self.suggestions)

    @property
    def chosen(self) -> Suggestion | None:
        return self.suggestions[self.at] if self.at < len(self.suggestions) else None

    def takes_enter(self, text: str) -> bool:
        """Enter takes the suggestion where it would add something; else it sends the line."""
        chosen = self.chosen
        if chosen is None or text.startswith("/"):
            return self._moved or (chosen is not None and all(text != one.text.rstrip() for one in self.suggestions))
        return self._moved or not text.endswith(chosen.text.rstrip())

    def update(self, text: str, cursor: int) -> None:
        """The line has changed."""
        before = self.chosen
        self.suggestions = () if text == self._dismissed else self.suggest(text, cursor)
        self._dismissed = self._dismissed if text == self._dismissed else None
        kept = next((at for at, one in enumerate(self.suggestions) if before and one.text == before.text), None)
        self._moved = self._moved and kept is not None
        self.at = kept if kept is not None and self._moved else 0

    def move(self, step: int) -> None:
        self.at, self._moved = (self.at + step) % len(self.suggestions), True

    def dismiss(self, text: str) -> None:
        self.close()
        self._dismissed = text

    def close(self) -> None:
        self.suggestions, self.at, self._moved, self._dismissed = (), 0, False, None

    @property
    def shown(self) -> tuple[int, Sequence[Suggestion]]:
        """The part that there is room for, and where it begins."""
        first = max(0, min(self.at - MENU_ROWS // 2, len(self.suggestions) - MENU_ROWS))
        return first, self.suggestions[first : first + MENU_ROWS]

"""Tells the person that something waits, where nobody looks: bell, notification and title of the terminal."""

import time
from typing import TYPE_CHECKING, Final

from ostler.clients.cli.output import fit, sanitize

if TYPE_CHECKING:
    from ostler.clients.cli.terminal.console import TerminalConsole

_AWAY_SECONDS: Final = 10.0
"""Who has pressed no key for so long may look at something else."""
_WORDS_WIDTH: Final = 80


class Attention:
    """The title always says how it stands; a bell and a notification come only where nobody has typed for a while."""

    def __init__(self, console: "TerminalConsole", folder: str) -> None:
        self._console = console
        self._folder = folder.rstrip("/").rpartition("/")[2] or "/"
        self._title = ""

    def show_state(self, state: str) -> None:
        title = f"{state} {self._folder}".strip()
        if title != self._title:
            self._title = title
            self._console.screen.write_raw(f"\x1b]2;{_clean(title)}\x1b\\")

    def call_person(self, words: str) -> None:
        if time.monotonic() - self._console.pressed_at >= _AWAY_SECONDS:
            self._console.screen.write_raw(f"\x07\x1b]9;{_clean(words)}\x1b\\")

    def end(self) -> None:
        self._console.screen.write_raw("\x1b]2;\x1b\\")


def _clean(text: str) -> str:
    """In one line, and nothing that could end the sequence it stands in."""
    return fit(sanitize(text), _WORDS_WIDTH)

"""The queue of open asks in a chat, and the guard against type-ahead: which ask a key answers, and from when on."""

import math
import time
from collections.abc import Callable
from typing import Final

from ostler.clients.cli.chat.ask_prompt import AskPrompt
from ostler.clients.cli.terminal.console import Console
from ostler.protocol.ids import AskId
from ostler.protocol.shapes import Ask

TYPE_AHEAD_SECONDS: Final = 0.7
"""Longer than between two keys of whoever types, shorter than reading takes."""
Clock = Callable[[], float]


class TypeAheadGuard:
    """A key answers an ask only after it has been shown for a while, and no key was pressed meanwhile."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._shown_at = -math.inf

    def begin(self) -> None:
        self._shown_at = self._clock()

    def compute_remaining(self, pressed: float) -> float:
        """The seconds until keys count, if none is pressed meanwhile; `pressed` is when one was last."""
        return max(0.0, max(self._shown_at, pressed) + TYPE_AHEAD_SECONDS - self._clock())


class AskQueue:
    """Only the oldest is shown; what is typed is for it once somebody can have read it."""

    def __init__(
        self, console: Console, tell: Callable[[str], None], folder: str | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._console = console
        self._tell = tell
        self._folder = folder
        """The folder of the session."""
        self._waiting: dict[AskId, AskPrompt] = {}
        self._sent: set[AskId] = set()
        """Answered here; whose answer has won is for the daemon to say."""
        self._shown_id: AskId | None = None
        self._active_id: AskId | None = None
        """The one whose answer is typed."""
        self._draft = ""
        """What was being typed as the ask came up."""
        self._guard = TypeAheadGuard(clock)

    def __len__(self) -> int:
        """Those that nobody here has answered."""
        return len(self._waiting.keys() - self._sent)

    def add(self, ask: Ask) -> bool:
        """Whether it is a new one."""
        new = ask.id not in self._waiting
        if new:
            self._waiting[ask.id] = AskPrompt(ask, folder=self._folder)
        return new

    def keep_only(self, ask_ids: set[AskId]) -> None:
        """Drop the others: they are settled."""
        for ask_id in self._waiting.keys() - ask_ids:
            self.remove(ask_id)

    def remove(self, ask_id: AskId) -> bool:
        """It is settled; whether an answer was given here."""
        if self._active_id == ask_id:
            self._deactivate()
        self._waiting.pop(ask_id, None)
        answered = ask_id in self._sent
        self._sent.discard(ask_id)
        return answered

    def is_sent(self, ask_prompt: AskPrompt) -> bool:
        """Whether an answer was given here, and whose answer has won is not known yet."""
        return ask_prompt.ask.id in self._sent

    @property
    def first(self) -> AskPrompt | None:
        return next(iter(self._waiting.values()), None)

    @property
    def active(self) -> AskPrompt | None:
        """The one that a line or a key answers now."""
        return self._waiting[self._active_id] if self._active_id is not None else None

    def take_unshown(self) -> AskPrompt | None:
        """One that has come to the front and was not shown yet."""
        first = self.first
        if first is None or first.ask.id == self._shown_id:
            return None
        self._shown_id = first.ask.id
        self._guard.begin()
        return first

    def compute_remaining(self) -> float | None:
        """The seconds until the first one can be answered; None where that is not to be waited for."""
        first = self.first
        if first is None or self._active_id is not None or first.ask.id in self._sent:
            return None
        return self._guard.compute_remaining(self._console.pressed_at) if self._console.is_terminal else 0.0

    def activate_first(self) -> None:
        """Let what is typed answer the first ask, if the guard allows it; what was typed before is kept as a draft."""
        if self.compute_remaining() == 0.0 and (first := self.first) is not None:
            self._active_id = first.ask.id
            typed = self._console.take_draft()
            # A key or two that were meant for another ask, or for this one before it could be read.
            self._draft = "" if first.is_key(typed) else typed

    def put_aside(self, words: str) -> bool:
        """Keep words that are no answer for the line after the ask; whether one is being answered."""
        if self._active_id is None:
            return False
        self._draft = f"{words}\n{self._draft}" if self._draft else words
        return True

    def mark_sent(self, ask_prompt: AskPrompt) -> None:
        self._sent.add(ask_prompt.ask.id)
        if self._active_id == ask_prompt.ask.id:
            self._deactivate()

    def mark_unsent(self, ask_prompt: AskPrompt) -> None:
        """It has to be answered again."""
        self._sent.discard(ask_prompt.ask.id)
        self._guard.begin()

    def _deactivate(self) -> None:
        """Stop answering: what was begun belongs to this ask alone; what was typed before it comes back."""
        self._active_id = None
        begun = self._console.take_draft()
        if begun:
            self._console.add_to_history(begun)
            self._tell("  (what you had begun to write is kept: ↑ brings it back)")
        self._console.fill(self._draft)
        self._draft = ""

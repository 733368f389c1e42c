"""The asks that wait in front of a person, one after the other, and whose answer it is that is typed."""

import math
import time
from collections.abc import Callable
from typing import Final

from ostler.clients.cli.chat.ask_prompt import Answering
from ostler.clients.cli.terminal.console import Console
from ostler.protocol.ids import AskId
from ostler.protocol.shapes import Ask

MOMENT_SECONDS: Final = 0.7
"""Longer than between two keys of whoever types, shorter than reading takes."""
Clock = Callable[[], float]


class Moment:
    """What has come up is answered by a key only after it has stood there for a while, and the fingers have rested."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._came_up = -math.inf

    def begin(self) -> None:
        self._came_up = self._clock()

    def left(self, pressed: float) -> float:
        """The seconds until keys count, if none is pressed meanwhile; `pressed` is when one was last."""
        return max(0.0, max(self._came_up, pressed) + MOMENT_SECONDS - self._clock())


class OpenAsks:
    """Only the oldest is shown; what is typed is for it once somebody can have read it."""

    def __init__(self, console: Console, tell: Callable[[str], None], clock: Clock = time.monotonic) -> None:
        self._console = console
        self._tell = tell
        self._waiting: dict[AskId, Answering] = {}
        self._sent: set[AskId] = set()
        """Answered here; whose answer has won is for the daemon to say."""
        self._shown: AskId | None = None
        self._faced: AskId | None = None
        """The one whose answer is typed."""
        self._draft = ""
        """What was being typed for somebody else as it came up."""
        self._moment = Moment(clock)

    def __len__(self) -> int:
        """Those that nobody here has answered."""
        return len(self._waiting.keys() - self._sent)

    def add(self, ask: Ask) -> bool:
        """Whether it is a new one."""
        new = ask.id not in self._waiting
        if new:
            self._waiting[ask.id] = Answering(ask)
        return new

    def keep(self, ask_ids: set[AskId]) -> None:
        """The others are settled."""
        for ask_id in self._waiting.keys() - ask_ids:
            self.remove(ask_id)

    def remove(self, ask_id: AskId) -> bool:
        """It is settled; whether an answer was given here."""
        if self._faced == ask_id:
            self._turn_away()
        self._waiting.pop(ask_id, None)
        answered = ask_id in self._sent
        self._sent.discard(ask_id)
        return answered

    @property
    def first(self) -> Answering | None:
        return next(iter(self._waiting.values()), None)

    @property
    def faced(self) -> Answering | None:
        """The one that a line or a key answers now."""
        return self._waiting[self._faced] if self._faced is not None else None

    def to_show(self) -> Answering | None:
        """One that has come to the front and was not shown yet."""
        first = self.first
        if first is None or first.ask.id == self._shown:
            return None
        self._shown = first.ask.id
        self._moment.begin()
        return first

    def left(self) -> float | None:
        """The seconds until the first one can be answered; null where that is not to be waited for."""
        first = self.first
        if first is None or self._faced is not None or first.ask.id in self._sent:
            return None
        return self._moment.left(self._console.pressed) if self._console.is_terminal else 0.0

    def face(self) -> None:
        """Let what is typed be for the first one, if its moment is over; what was typed before waits."""
        if self.left() == 0.0 and (first := self.first) is not None:
            self._faced = first.ask.id
            typed = self._console.put_aside()
            # A key or two that were meant for another ask, or for this one before it could be read.
            self._draft = "" if first.is_key(typed) else typed

    def sent(self, answered: Answering) -> None:
        self._sent.add(answered.ask.id)
        if self._faced == answered.ask.id:
            self._turn_away()

    def not_sent(self, answered: Answering) -> None:
        """It has to be answered again."""
        self._sent.discard(answered.ask.id)
        self._moment.begin()

    def _turn_away(self) -> None:
        """What was begun as an answer belongs to this ask alone; what was typed before it comes back."""
        self._faced = None
        begun = self._console.put_aside()
        if begun:
            self._console.remember(begun)
            self._tell("  (what you had begun to write is kept: ↑ brings it back)")
        self._console.fill(self._draft)
        self._draft = ""

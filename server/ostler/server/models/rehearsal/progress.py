"""How far a request has come: told anew from the messages each time, because the model remembers nothing."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ostler.server.models.rehearsal.actions import Action, Call, Means, planned
from ostler.server.models.rehearsal.conversation import Exchange, Result, Used
from ostler.server.models.rehearsal.requests import parse

Fate = Literal["done", "failed", "denied", "interrupted"]

_DENIED: Final = re.compile(r"\b(?:denied|denies|said no|counts as a no)\b", re.IGNORECASE)
_INTERRUPTED: Final = re.compile(r"\binterrupted\b|^stopped, because", re.IGNORECASE)
_UNREAD: Final = re.compile(r"\bread\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    call: Call
    fate: Fate
    text: str


@dataclass(slots=True)
class Progress:
    """What has been done about an input, and what is left."""

    means: Means
    pending: deque[Action] = field(default_factory=deque)
    outcomes: list[Outcome] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _running: dict[str, Call] = field(default_factory=dict)

    def add(self, words: Sequence[str]) -> None:
        """A request: the first one, or one that came while this was at work."""
        wishes = [wish for text in words if text.strip() for wish in parse(text)]
        self.pending.extend(planned(wishes, self.means))

    def called(self, used: Used) -> None:
        """Match a call that was made with the action that it was made for."""
        ahead = next((at for at, action in enumerate(self.pending) if isinstance(action, Call)), None)
        action = None if ahead is None else self.pending[ahead]
        # By its name alone: a person may have changed what it was given.
        if ahead is None or not isinstance(action, Call) or action.tool != used.tool:
            self._running[used.id] = Call(used.tool, used.input, f"call {used.tool}")  # another model made it
            return
        # What was to be said before it was said in the same message.
        for _ in range(ahead + 1):
            self.pending.popleft()
        self._running[used.id] = action

    def answered(self, results: Sequence[Result]) -> None:
        """Take the results of one message, and drop what depended on those that went wrong."""
        again: list[Action] = []
        fates: set[Fate] = set()
        for result in results:
            call = self._running.pop(result.used_id, None)
            if call is None:
                continue
            fate = _fate(result)
            if mended := _second_try(call, fate, result):
                again += mended
                continue
            self.outcomes.append(Outcome(call, fate, result.text))
            fates.add(fate)
        self._drop(fates)
        self.pending.extendleft(reversed(again))

    def _drop(self, fates: set[Fate]) -> None:
        if not fates - {"done"}:
            return
        # A denial is a person's word, so it ends everything; a failure ends only what depends on it.
        while self.pending and ("denied" in fates or self.pending[0].join != "apart"):
            self.left_out.append(self.pending.popleft().doing)


def progress_of(tail: Sequence[Exchange], means: Means) -> Progress:
    progress = Progress(means)
    for exchange in tail:
        for used in exchange.used:
            progress.called(used)
        progress.answered(exchange.results)
        progress.add(exchange.words)
    return progress


def _fate(result: Result) -> Fate:
    if not result.is_error:
        return "done"
    # A command may print such words, too: only what the daemon says itself is taken by its words.
    head = result.text[:500] if result.refused else ""
    if _DENIED.search(head):
        return "denied"
    return "interrupted" if _INTERRUPTED.search(head) else "failed"


def _second_try(call: Call, fate: Fate, result: Result) -> list[Action]:
    """What a call that went wrong is worth trying once more with."""
    if call.again:
        return []
    once_more = replace(call, again=True)
    if call.looks and fate == "interrupted":
        return [once_more]
    if call.tool == "Write" and fate == "failed" and _UNREAD.search(result.text[:500]):
        path = call.input["file_path"]
        return [Call("Read", {"file_path": path}, f"read {path} first", again=True), replace(once_more, join="after")]
    return []

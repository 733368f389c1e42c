"""Writes the calls of one message, each after those before it, and with the blocks of the message that it needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.journal.calls import CompletedCall, Draft
from ostler.server.engine.journal.journal import Journal

if TYPE_CHECKING:
    import asyncio


class MessageDraft:
    """The blocks of a message that is being streamed: whoever takes those that are not stored yet has to store them."""

    __slots__ = ("_encoded", "_taken", "closed")

    def __init__(self, encoded: Sequence[bytes]) -> None:
        self._encoded = encoded
        """The complete blocks; the stream adds to them."""
        self._taken = 0
        self.closed = False
        """The message is stored as a whole, or not at all."""

    def take(self) -> Draft:
        if self.closed:
            return ()
        first, self._taken = self._taken, len(self._encoded)
        return [(place, self._encoded[place]) for place in range(first, self._taken)]


@dataclass(slots=True)
class CallWriter:
    """The log knows a call as queued before it hears anything else of it, and in the order of the blocks."""

    journal: Journal
    draft: MessageDraft
    runs: list[CallRun] = field(default_factory=list)
    """The calls of the message, in the order of its blocks."""
    _known: int = 0
    """The calls before this index are in the log, as queued or later."""

    def add(self, run: CallRun, *, known: bool) -> None:
        self.runs.append(run)
        if known:
            self._known = len(self.runs)

    def announce(self, index: int) -> None:
        """Tell of a call as queued, where the log does not know it yet, and of those before it, in their order."""
        while self._known <= index:
            run = self.runs[self._known]
            self._known += 1
            self.journal.calls.queue(run.call, self.draft.take(), run.use.input_error)

    def take_unwritten(self, run: CallRun) -> tuple[Draft, bool]:
        """What has to be written together with news of a call: the new blocks; also whether the log knows the call."""
        index = run.slot.index
        self.announce(index - 1)
        known = self._known > index
        self._known = max(self._known, index + 1)
        return self.draft.take(), known

    def start_call(self, run: CallRun, *, urgent: bool) -> "asyncio.Future[None]":
        draft, known = self.take_unwritten(run)
        return self.journal.calls.start(run.call, draft, queued=known, urgent=urgent)

    def end_call(self, run: CallRun, ended: CompletedCall) -> None:
        draft, known = self.take_unwritten(run)
        self.journal.calls.end(ended, draft, queued=known)

"""The state of a turn in memory, which says also whether it is to end; what is written to the disk is always a copy."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ostler.protocol.shapes import Denial, Turn
from ostler.server.engine.session.stop import StopSignal

MAX_DENIALS: Final = 100

# Why the calls of a turn are stopped: in their results "before it was finished", or started, follows each of these.
BY_PERSON: Final = "Interrupted by the person"
BY_TIME_LIMIT: Final = "Stopped by the turn's time limit"
BY_REFUSAL: Final = "Stopped, since the person said no to another call and so ended the turn,"
BY_HOOK: Final = "Stopped, since a hook said no to another call and so ended the turn,"
BY_PARENT: Final = "Stopped, since the session that it works for was stopped,"
BY_DELETION: Final = "Stopped, since the session is being deleted,"
BY_MISSING_SANDBOX: Final = "Stopped, since the sandbox that commands must run in is missing,"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """Why a turn ends."""

    reason: str
    error: dict[str, Any] | None = None


def never() -> bool:
    return False


class RunningCalls(Protocol):
    """The calls of a turn that run."""

    def interrupt(self, by: str) -> None:
        """Stop those that can be stopped, and start no more."""


@dataclass(slots=True)
class TurnState:
    """What the loop of a turn, its requests and its calls know of it in common."""

    turn: Turn
    input_text: str = ""
    """The text of the turn's input, as the person wrote it."""
    end: TurnEnd | None = None
    """Why the turn ends, once that is decided."""
    followed: frozenset[str] = frozenset()
    """The deferred tools to which the conversation may refer: the provider of the last request loads them itself."""
    wanted_model: str | None = None
    """The model that a skill wants: it answers from the next request on."""
    calls: RunningCalls | None = None
    input_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels the trust ask and the hooks of the input; only the end of the turn does so, not further input."""
    steer_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels the hooks of further input: what they have not let pass goes to the next turn, and its hooks."""
    request_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels a stream, or the wait before a retry; each request has its own."""
    end_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels the Stop hooks: when the turn is halted, or when input with `now` arrives."""
    has_open_asks: Callable[[], bool] = never
    waits_for_agents_ask: Callable[[], bool] = never
    """Whether an agent that one of its calls waits for has an open ask: then it waits for people, too."""

    def change(self, **changes: Any) -> Turn:
        self.turn = self.turn.changed(**changes)
        return self.turn

    def add_denial(self, denial: Denial) -> None:
        # Limited: a turn is stored and sent again and again, and nobody reads the hundredth.
        if len(self.turn.denials) < MAX_DENIALS:
            self.change(denials=[*self.turn.denials, denial])

    def halt(self, reason: str, by: str, error: dict[str, Any] | None = None) -> None:
        """End the turn as soon as its calls allow; `by` says why, in the results of the calls that this stops."""
        if self.end is not None:
            return
        self.end = TurnEnd(reason, error)
        for stop in (self.input_stop, self.end_stop, self.steer_stop, self.request_stop):
            stop.cancel()
        if self.calls is not None:
            self.calls.interrupt(by)

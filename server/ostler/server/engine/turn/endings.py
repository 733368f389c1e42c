"""How turns end, and when the model is asked to go on instead: the reason of each end, and the error with it."""

from dataclasses import dataclass
from typing import Any, Final

from ostler.server.engine.session.turn_state import TurnEnd
from ostler.server.engine.turn.model_attempt import ModelAnswer
from ostler.server.engine.turn.retry_policy import describe_failure
from ostler.server.hooks import Outcome
from ostler.server.models.provider import ModelFailure
from ostler.server.prompt.reminders import CALL_CUT, GO_ON, NUDGE, wrap_note

_MAX_CONTINUATIONS: Final = 3
"""How often the model is asked to continue a message that was cut at its length limit."""
_MAX_NUDGES: Final = 2
"""How often the model is reminded to give its answer in the schema asked for."""
_MAX_BLOCKED_ENDS: Final = 10
"""How often a Stop hook may keep the turn from ending."""


CUT_REASONS: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Why a model's message ends before the model has: its length limit, or the end of the window."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """The model is asked to go on."""

    reminder: str | None = None
    """What it is told; None where it is only sent back what it has written."""
    continues_text: bool = False
    """The text of its next message continues that of the one before it."""


@dataclass(slots=True)
class Continuations:
    """Decides after an answer whether the turn ends, or the model is asked to go on; it counts how often."""

    has_schema: bool
    """The turn is to end with an answer in a schema."""
    _cut: int = 0
    """How many messages were cut at their length limit, one after the other."""
    _nudges: int = 0
    blocked_ends: int = 0
    """How often a Stop hook has kept the turn from ending."""

    def note_answer(self, answer: ModelAnswer) -> None:
        if answer.stop_reason not in CUT_REASONS:
            self._cut = 0

    def judge_text(self, answer: ModelAnswer) -> GoOn | TurnEnd | None:
        """What comes after an answer without calls; None where the model has finished."""
        match answer.stop_reason:
            case "pause_turn" if not answer.empty:
                return GoOn(continues_text=True)
            case "max_tokens" | "model_context_window_exceeded" if self._cut < _MAX_CONTINUATIONS:
                self._cut += 1
                continues = not (answer.empty or answer.call_cut)
                return GoOn(GO_ON if continues else CALL_CUT, continues)
            case "max_tokens" | "model_context_window_exceeded":
                return self._build_truncated_end()
            case _:
                return check_stop_reason(answer.stop_reason)

    def judge_cut_call(self) -> TurnEnd | None:
        """The end of the turn, where calls were cut at the length limit too often."""
        self._cut += 1
        return self._build_truncated_end() if self._cut > _MAX_CONTINUATIONS else None

    def judge_missing_output(self) -> GoOn | TurnEnd:
        """The model has finished without the answer in its schema: two reminders, then the turn has failed."""
        if self._nudges == _MAX_NUDGES:
            return build_schema_end()
        self._nudges += 1
        return GoOn(NUDGE)

    def judge_stop_hooks(self, outcome: Outcome) -> GoOn | TurnEnd:
        if outcome.stop:
            return build_hook_end(outcome.stop)
        if outcome.block and self.blocked_ends < _MAX_BLOCKED_ENDS:
            self.blocked_ends += 1
            return GoOn(wrap_note(outcome.block))
        return TurnEnd("completed")

    def _build_truncated_end(self) -> TurnEnd:
        return build_schema_end() if self.has_schema else TurnEnd("completed")


def check_stop_reason(stop_reason: str | None) -> TurnEnd | None:
    """The end of the turn, where the stop reason of the model's last message forbids another request; else null."""
    match stop_reason:
        case "refusal":
            refused = {"code": "model_error", "kind": "refusal", "message": "The model declined to go on."}
            return TurnEnd("failed", refused)
        case _:
            return None


def build_failure_end(failure: ModelFailure) -> TurnEnd:
    """The end of the turn after a request to the model has failed for good."""
    advice = describe_too_long(failure.message) if failure.kind == "too_long" else {}
    return TurnEnd("failed", {**describe_failure(failure), **advice})


def build_schema_end() -> TurnEnd:
    """The end of a turn with an output schema whose model gave no answer that matches it."""
    message = "The model ended without an answer in the form that was asked for."
    return TurnEnd("schema", {"code": "schema", "message": message})


def build_silent_end() -> TurnEnd:
    """The end of an agent's turn whose last message says nothing: there is nothing to report."""
    return TurnEnd("failed", {"code": "model_error", "kind": "empty", "message": "It ended without a word."})


def build_hook_end(message: str) -> TurnEnd:
    return TurnEnd("stopped_by_hook", {"code": "stopped_by_hook", "message": message})


def describe_too_long(message: str) -> dict[str, Any]:
    advice = "Fork the session from an earlier message, or start a new one."
    return {"code": "model_error", "kind": "too_long", "message": f"{message.rstrip('.')}. {advice}"}


def describe_over_budget(message: str) -> dict[str, Any]:
    return {"code": "budget_exceeded", "message": message}

"""How a headless turn ended: the object that is printed whatever happened, and the exit code."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ostler.protocol.shapes import Turn

INTERRUPTED: Final = 130
TIMED_OUT: Final = 124
NO_SANDBOX: Final = 7
FAILED: Final = 1
MAX_REQUESTS: Final = 3
BUDGET: Final = 4
SCHEMA: Final = 6
DENIED: Final = 5
USAGE: Final = 2

_BY_REASON: Final = {"max_requests": MAX_REQUESTS, "budget": BUDGET, "schema": SCHEMA}
_BY_ERROR: Final = {
    "interrupted": INTERRUPTED,
    "timeout": TIMED_OUT,
    "sandbox_missing": NO_SANDBOX,
    "budget_exceeded": BUDGET,
    "usage": USAGE,
    "bad_folder": USAGE,
    "mode_forbidden": USAGE,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known when it is over."""

    session_id: str | None = None
    turn: "Turn | None" = None
    error: dict[str, Any] | None = None
    """Why there is no ended turn, or why nobody waited for its end: a word in `code`, and a `message`."""
    unanswered: bool = False
    """Something was asked, and nobody answered or the answer was no."""

    def as_json(self) -> dict[str, Any]:
        turn = self.turn.model_dump(mode="json", by_alias=True) if self.turn is not None else None
        fields = {"type": "result", "session_id": self.session_id, "turn": turn}
        return fields if self.error is None else {**fields, "error": self.error}

    @property
    def exit_code(self) -> int:
        """The first that fits, in the order of the documentation."""
        reason = self.turn.reason if self.turn is not None else None
        if reason in {"interrupted", "timeout"}:
            return _BY_ERROR[reason]
        error = self.turn.error or {} if self.turn is not None and reason == "failed" else self.error
        if error is not None:
            return _BY_ERROR.get(str(error.get("code")), FAILED)
        if reason in _BY_REASON:
            return _BY_REASON[reason]
        refused = self.unanswered or (self.turn is not None and bool(self.turn.denials))
        return DENIED if refused else 0

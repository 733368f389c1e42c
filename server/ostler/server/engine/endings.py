"""How turns end, and what is told about it."""

from dataclasses import dataclass
from typing import Any, Final

# What stops the calls of a turn, as it stands before "before it was finished" in their results.
BY_PERSON: Final = "Interrupted by the person"
BY_TIME_LIMIT: Final = "Stopped by the turn's time limit"
BY_REFUSAL: Final = "Stopped, since the person said no to another call and so ended the turn,"
BY_HOOK: Final = "Stopped, since a hook said no to another call and so ended the turn,"
BY_DELETION: Final = "Stopped, since the session is being deleted,"
BY_MISSING_SANDBOX: Final = "Stopped, since the sandbox that commands must run in is missing,"


@dataclass(frozen=True, slots=True)
class End:
    reason: str
    error: dict[str, Any] | None = None


def no_form() -> End:
    message = "The model ended without an answer in the form that was asked for."
    return End("schema", {"code": "schema", "message": message})


def stopped_by_hook(message: str) -> End:
    return End("stopped_by_hook", {"code": "stopped_by_hook", "message": message})


def too_long(message: str) -> dict[str, Any]:
    advice = "Fork the session from an earlier message, or start a new one: older parts cannot be summarised yet."
    return {"code": "model_error", "kind": "too_long", "message": f"{message.rstrip('.')}. {advice}"}


def over_budget(message: str) -> dict[str, Any]:
    return {"code": "budget_exceeded", "message": message}

"""How turns end, and what is told about it."""

from dataclasses import dataclass
from typing import Any

from ostler.server.engine.turn.model_call import described
from ostler.server.models.provider import ModelFailure


@dataclass(frozen=True, slots=True)
class End:
    reason: str
    error: dict[str, Any] | None = None


def ended_by_model(stop_reason: str | None) -> End | None:
    """The end of the turn, where the model's last message says that nothing more comes of it."""
    match stop_reason:
        case "refusal":
            refused = {"code": "model_error", "kind": "refusal", "message": "The model declined to go on."}
            return End("failed", refused)
        case "model_context_window_exceeded":
            return End("failed", too_long("The conversation has filled the model's context window."))
        case _:
            return None


def failed(failure: ModelFailure) -> End:
    """The end of the turn, where the model cannot be asked."""
    advice = too_long(failure.message) if failure.kind == "too_long" else {}
    return End("failed", {**described(failure), **advice})


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

"""How turns end: the reason of each end, and the error that clients are given with it."""

from typing import Any

from ostler.server.engine.session.turn_state import TurnEnd
from ostler.server.engine.turn.retry_policy import describe_failure
from ostler.server.models.provider import ModelFailure


def check_stop_reason(stop_reason: str | None) -> TurnEnd | None:
    """The end of the turn, where the stop reason of the model's last message forbids another request; else null."""
    match stop_reason:
        case "refusal":
            refused = {"code": "model_error", "kind": "refusal", "message": "The model declined to go on."}
            return TurnEnd("failed", refused)
        case "model_context_window_exceeded":
            return TurnEnd("failed", describe_too_long("The conversation has filled the model's context window."))
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


def build_hook_end(message: str) -> TurnEnd:
    return TurnEnd("stopped_by_hook", {"code": "stopped_by_hook", "message": message})


def describe_too_long(message: str) -> dict[str, Any]:
    advice = "Fork the session from an earlier message, or start a new one: older parts cannot be summarised yet."
    return {"code": "model_error", "kind": "too_long", "message": f"{message.rstrip('.')}. {advice}"}


def describe_over_budget(message: str) -> dict[str, Any]:
    return {"code": "budget_exceeded", "message": message}

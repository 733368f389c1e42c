"""How turns end, and what is told about it."""

from dataclasses import dataclass
from typing import Any


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

"""The one policy of failed model requests: the same again after a wait, another request, or none."""

from dataclasses import dataclass

from ostler.protocol.backoff import Backoff
from ostler.protocol.config import Model
from ostler.protocol.events import ModelRetry
from ostler.server.models.provider import ModelFailure


@dataclass(frozen=True, slots=True)
class SameAgain:
    """The same request again, after a wait."""

    seconds: float
    retry: ModelRetry
    """What clients are told."""


@dataclass(frozen=True, slots=True)
class WithoutExtras:
    """A request without what tools say beside their schemas: the model does not take it."""


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A request to the fallback."""

    model: str


Retry = SameAgain | WithoutExtras | OtherModel


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What is done after a failure; it knows the settings, and nothing of the turn."""

    settings: Model

    def plan_same(self, failure: ModelFailure, attempt: int) -> SameAgain | None:
        """The same request again, where this many attempts have not been too many."""
        most = failure.count_retries(self.settings.max_retries)
        if attempt > most:
            return None
        seconds = compute_retry_wait(attempt, failure, self.settings)
        return SameAgain(
            seconds,
            ModelRetry(attempt=attempt, max_retries=most, wait_ms=int(seconds * 1000), error=describe_failure(failure)),
        )

    def plan_other(self, failure: ModelFailure, model: str, *, sent_extras: bool) -> WithoutExtras | OtherModel | None:
        """Another request, after one to this model has failed for good."""
        if failure.kind == "extras" and sent_extras:
            return WithoutExtras()
        fallback = self.settings.fallback
        if failure.kind != "overloaded" or fallback is None or fallback == model:
            return None
        return OtherModel(fallback)


def compute_retry_wait(attempt: int, failure: ModelFailure, settings: Model) -> float:
    """Seconds to wait: at least what the server asks for."""
    wait = Backoff(settings.first_wait_seconds, settings.max_wait_seconds).compute_wait(attempt)
    retry_after = (failure.retry_after_ms or 0) / 1000
    return max(wait, min(retry_after, 10 * settings.max_wait_seconds))


def describe_failure(failure: ModelFailure) -> dict[str, object]:
    """The failure as an error object for clients."""
    facts = {"status": failure.status, "request_id": failure.request_id, "retry_after_ms": failure.retry_after_ms}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return {"code": "model_error", "kind": failure.kind, "message": failure.message, **known}

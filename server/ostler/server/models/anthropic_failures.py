"""Everything that can go wrong with a request to the Messages API, in words for people."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
import orjson

from ostler.server.models.anthropic import AnthropicSettings
from ostler.server.models.provider import FailureKind, ModelFailure

_MAX_WORDS: Final = 1000
"""How much of what a provider says is passed on."""

_BY_STATUS: Final[dict[int, FailureKind]] = {
    401: "access",
    402: "access",
    403: "access",
    408: "timeout",
    413: "too_long",
    429: "rate_limited",
    529: "overloaded",
}
_BY_TYPE: Final[dict[str, FailureKind]] = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
    "authentication_error": "access",
    "permission_error": "access",
    "billing_error": "access",
    "request_too_large": "too_long",
    "invalid_request_error": "bad_request",
    "not_found_error": "bad_request",
}
_WORDS: Final[dict[FailureKind, str]] = {
    "rate_limited": "The provider takes no more requests for now",
    "overloaded": "The provider is overloaded",
    "server": "The provider has failed",
    "timeout": "The provider took too long",
    "garbage": "The provider's answer is not the Messages API's",
    "too_long": "The conversation is too long for the model",
    "access": "The provider does not let us in",
    "bad_request": "The provider refuses the request",
}


class Failures:
    """Makes a ModelFailure of whatever a provider answers and the network raises."""

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._secrets = [secret for secret in (settings.api_key, settings.auth_token) if secret and len(secret) > 8]

    def unusable(self, error: Exception) -> ModelFailure:
        """The settings cannot be right."""
        return ModelFailure("missing", self._clean(f"The provider's address or key cannot be used: {error}"))

    def of_request(self, error: Exception) -> ModelFailure:
        """The request was refused, or never arrived."""
        match error:
            case httpx2.TimeoutException() if not _is_refusal(error):
                return self._of_silence(error)
            case httpx2.HTTPError() | OSError():
                return self._of_connection(error)
            case _:
                return self.unusable(error)

    def of_status(self, response: httpx2.Response, body: bytes) -> ModelFailure:
        """The provider's own refusal."""
        status, headers = response.status_code, response.headers
        refusal = _object(body)
        type_, said = _told(refusal)
        kind = _kind_of(_status_kind(status, type_), said)
        return ModelFailure(
            kind,
            self._words(kind, said or f"it answered {status} without a reason"),
            status=status,
            request_id=_request_id(headers) or _text(refusal.get("request_id")),
            retry_after_ms=retry_after_ms(headers),
        )

    def of_reading(self, response: httpx2.Response, error: Exception) -> ModelFailure:
        """The answer broke off."""
        if isinstance(error, httpx2.TimeoutException) and not _is_refusal(error):
            failure = self._of_silence(error)
        elif isinstance(error, httpx2.DecodingError):
            return self.of_garbage(response, "bytes that cannot be decompressed")
        else:
            failure = ModelFailure("connection", self._clean(f"The provider's answer broke off: {_cause(error)}"))
        failure.request_id = _request_id(response.headers)
        return failure

    def of_page(self, response: httpx2.Response) -> ModelFailure:
        """A success that is no event stream."""
        kind = response.headers.get("content-type", "").partition(";")[0] or "nothing known"
        return self.of_garbage(response, f"{kind[:100]}, not an event stream; is ANTHROPIC_BASE_URL right?")

    def of_garbage(self, response: httpx2.Response, what: str) -> ModelFailure:
        """An answer that makes no sense."""
        return ModelFailure(
            "garbage",
            f"{_WORDS['garbage']}: it sent {what}",
            status=response.status_code,
            request_id=_request_id(response.headers),
        )

    def of_event(self, response: httpx2.Response, event: dict[str, Any]) -> ModelFailure:
        """An `error` in the middle of the stream."""
        type_, said = _told(event)
        kind = _kind_of(_BY_TYPE.get(type_, "server"), said)
        return ModelFailure(
            kind,
            self._words(kind, said),
            request_id=_request_id(response.headers) or _text(event.get("request_id")),
        )

    def _of_silence(self, cause: BaseException | None) -> ModelFailure:
        if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return ModelFailure("timeout", f"No connection to the provider in {self._settings.connect_seconds:g} s")
        return ModelFailure("timeout", f"The provider said nothing for {self._settings.silence_seconds:g} s")

    def _of_connection(self, cause: BaseException) -> ModelFailure:
        if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL | ValueError):
            return self.unusable(cause)
        return ModelFailure("connection", self._clean(f"The provider cannot be reached: {_cause(cause)}"))

    def _words(self, kind: FailureKind, said: str) -> str:
        return self._clean(f"{_WORDS[kind]}: {said}" if said else _WORDS[kind])

    def _clean(self, text: str) -> str:
        """Whatever a provider says: no key of ours in it, and not a whole page."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}…"


def _status_kind(status: int, type_: str) -> FailureKind:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        # A gateway may give an overload a status of its own.
        return "overloaded" if type_ == "overloaded_error" else "server"
    return "bad_request" if status >= 400 else "garbage"


def _kind_of(kind: FailureKind, said: str) -> FailureKind:
    return "too_long" if kind == "bad_request" and "prompt is too long" in said.lower() else kind


def _object(body: bytes) -> dict[str, Any]:
    """A gateway may answer with a page of its own."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _told(body: dict[str, Any]) -> tuple[str, str]:
    """The type and the message of an error, where it has them."""
    error = body.get("error")
    if not isinstance(error, dict):
        return "", ""
    return _text(error.get("type")) or "", _text(error.get("message")) or ""


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a time-out is none: the SDK's transport takes every connection that fails for one."""
    below = error.__cause__ if isinstance(error, httpx2.ConnectTimeout) else None
    return below is not None and not isinstance(below, TimeoutError)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _request_id(headers: Mapping[str, str]) -> str | None:
    return headers.get("request-id") or headers.get("x-request-id")


def _cause(error: BaseException) -> str:
    """The first words on the way to the root of an error: the outer ones are often empty."""
    seen: BaseException | None = error
    while seen is not None:
        if text := str(seen):
            return text
        seen = seen.__cause__ or seen.__context__
    return type(error).__name__


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider wants us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        milliseconds = _number(headers.get(name, ""))
        if milliseconds is not None:
            return max(0, round(milliseconds * unit))
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    now = datetime.now(UTC)
    return max(0, round((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds() * 1000))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

"""Everything that can go wrong with a request to the Messages API, as a ModelFailure with a message for people."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from ostler.server.models.anthropic.provider import AnthropicSettings
from ostler.server.models.http.errors import BadEncoding, ConnectTimeout
from ostler.server.models.http.response import Response
from ostler.server.models.provider import FailureKind, ModelFailure
from ostler.tools.text import cut_text

_MAX_MESSAGE_CHARS: Final = 1000
"""How much of what a provider says is passed on."""

_KIND_BY_STATUS: Final[dict[int, FailureKind]] = {
    401: "access",
    402: "access",
    403: "access",
    408: "timeout",
    413: "too_long",
    429: "rate_limited",
    529: "overloaded",
}
_KIND_BY_TYPE: Final[dict[str, FailureKind]] = {
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
_MESSAGES: Final[dict[FailureKind, str]] = {
    "rate_limited": "The provider takes no more requests for now",
    "overloaded": "The provider is overloaded",
    "server": "The provider has failed",
    "timeout": "The provider took too long",
    "garbage": "The provider's answer is not the Messages API's",
    "too_long": "The conversation is too long for the model",
    "access": "The provider does not let us in",
    "extras": "The provider refuses what the tools say beside their schemas",
    "unknown_model": "The provider has no such model",
    "bad_request": "The provider refuses the request",
}
_EXTRAS_REFUSED: Final = re.compile(
    r"\bstrict\b|\bgrammar\b|\binput_examples\b|\bdefer_loading\b|\btool_references?\b|schemas? (?:is|contains) too",
    re.IGNORECASE,
)
"""How a provider says that a schema cannot be made strict, that there are too many of them, or that it knows none."""

_MODEL_NAMED: Final = re.compile(r"\bmodel\b", re.IGNORECASE)
"""How a provider says that it is the model that was not found, and not the address."""

_UNDECODABLE: Final = "bytes that cannot be decompressed"


class FailureBuilder:
    """Makes a ModelFailure of whatever a provider answers and the network raises."""

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._secrets = [secret for secret in (settings.api_key, settings.auth_token) if secret and len(secret) > 8]

    def from_bad_settings(self, error: Exception) -> ModelFailure:
        """The settings cannot be right."""
        return ModelFailure("missing", self._redact(f"The provider's address or key cannot be used: {error}"))

    def from_request_error(self, error: Exception) -> ModelFailure:
        """The request was refused, or never arrived."""
        match error:
            case TimeoutError():
                return self._from_timeout(error)
            case BadEncoding():
                return ModelFailure("garbage", f"{_MESSAGES['garbage']}: it sent {_UNDECODABLE}")
            case OSError():
                return ModelFailure(
                    "connection",
                    self._redact(f"The provider at {self._settings.place} cannot be reached: {_find_cause(error)}"),
                )
            case _:
                return self.from_bad_settings(error)

    def from_status(self, response: Response, body: bytes) -> ModelFailure:
        """The provider's own refusal."""
        status, headers = response.status, response.headers
        refusal = _parse_object(body)
        type_, said = _read_error(refusal)
        kind = _refine_kind(_classify_status(status, type_), said, type_)
        return ModelFailure(
            kind,
            self._format_message(kind, said or f"it answered {status} without a reason", wrong_key=status == 401),
            status=status,
            request_id=_find_request_id(headers) or _as_text(refusal.get("request_id")),
            retry_after_ms=parse_retry_after(headers),
        )

    def from_read_error(self, response: Response, error: Exception) -> ModelFailure:
        """The answer broke off."""
        if isinstance(error, TimeoutError):
            failure = self._from_timeout(error)
        elif isinstance(error, BadEncoding):
            return self.from_garbage(response, _UNDECODABLE)
        else:
            failure = ModelFailure("connection", self._redact(f"The provider's answer broke off: {_find_cause(error)}"))
        failure.request_id = _find_request_id(response.headers)
        return failure

    def from_content_type(self, response: Response) -> ModelFailure:
        """A success that is no event stream."""
        kind = response.headers.get("content-type", "").partition(";")[0] or "nothing known"
        return self.from_garbage(response, f"{kind[:100]}, not an event stream; is ANTHROPIC_BASE_URL right?")

    def from_garbage(self, response: Response, what: str) -> ModelFailure:
        """An answer that makes no sense."""
        return ModelFailure(
            "garbage",
            f"{_MESSAGES['garbage']}: it sent {what}",
            status=response.status,
            request_id=_find_request_id(response.headers),
        )

    def from_error_event(self, response: Response, event: dict[str, Any]) -> ModelFailure:
        """An `error` in the middle of the stream."""
        type_, said = _read_error(event)
        kind = _refine_kind(_KIND_BY_TYPE.get(type_, "server"), said, type_)
        return ModelFailure(
            kind,
            self._format_message(kind, said, wrong_key=type_ == "authentication_error"),
            request_id=_find_request_id(response.headers) or _as_text(event.get("request_id")),
        )

    def _from_timeout(self, cause: Exception) -> ModelFailure:
        if isinstance(cause, ConnectTimeout):
            seconds = f"{self._settings.connect_seconds:g} s"
            return ModelFailure("timeout", f"No connection to the provider at {self._settings.place} in {seconds}")
        return ModelFailure("timeout", f"The provider said nothing for {self._settings.silence_seconds:g} s")

    def _format_message(self, kind: FailureKind, said: str, *, wrong_key: bool = False) -> str:
        message = self._redact(f"{_MESSAGES[kind]}: {said}" if said else _MESSAGES[kind])
        return f"{message.rstrip('.')}. {self._settings.describe_key()}" if wrong_key else message

    def _redact(self, text: str) -> str:
        """A provider's text without our keys in it, and cut where it is long."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return cut_text(text, _MAX_MESSAGE_CHARS)


def _classify_status(status: int, type_: str) -> FailureKind:
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if status >= 500:
        # A gateway may give an overload a status of its own.
        return "overloaded" if type_ == "overloaded_error" else "server"
    return "bad_request" if status >= 400 else "garbage"


def _refine_kind(kind: FailureKind, said: str, type_: str) -> FailureKind:
    if kind != "bad_request":
        return kind
    if type_ == "not_found_error" and _MODEL_NAMED.search(said):
        return "unknown_model"
    if "prompt is too long" in said.lower():
        return "too_long"
    return "extras" if _EXTRAS_REFUSED.search(said) else kind


def _parse_object(body: bytes) -> dict[str, Any]:
    """A gateway may answer with a page of its own."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_error(body: dict[str, Any]) -> tuple[str, str]:
    """The type and the message of an error, where it has them."""
    error = body.get("error")
    if not isinstance(error, dict):
        return "", ""
    return _as_text(error.get("type")) or "", _as_text(error.get("message")) or ""


def _as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _find_request_id(headers: Mapping[str, str]) -> str | None:
    return headers.get("request-id") or headers.get("x-request-id")


def _find_cause(error: BaseException) -> str:
    """The first message on the way to the root of an error that is not empty: the outer ones often are."""
    current: BaseException | None = error
    while current is not None:
        if text := str(current):
            return text
        current = current.__cause__ or current.__context__
    return type(error).__name__


def parse_retry_after(headers: Mapping[str, str]) -> int | None:
    """How long the provider wants us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        milliseconds = _parse_number(headers.get(name, ""))
        if milliseconds is not None:
            return max(0, round(milliseconds * unit))
    # Imported here: it takes long, and only a provider in trouble says when.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    now = datetime.now(UTC)
    return max(0, round((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds() * 1000))


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

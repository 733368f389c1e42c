"""Answers that go wrong, as the Messages API and what stands between give them."""

import uuid
from typing import Final

import orjson

from tests.support.messages_api.behaviors import Hang, Reply, Reset

_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def fails(
    status: int,
    text: str = "Something went wrong",
    *,
    retry_after: str | None = None,
    retry_after_ms: int | None = None,
    request_id: str | None = None,
) -> Reply:
    """An error with the body and the headers that the API gives it."""
    request_id = request_id or new_request_id()
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": request_id}
    headers = {"content-type": "application/json", "request-id": request_id}
    if retry_after is not None:
        headers["retry-after"] = retry_after
    if retry_after_ms is not None:
        headers["retry-after-ms"] = str(retry_after_ms)
    return Reply(status=status, headers=headers, body=orjson.dumps(body))


def new_request_id() -> str:
    """A `req_…` that nobody has used."""
    return f"req_{uuid.uuid4().hex[:24]}"


def overloaded(retry_after: str | None = None) -> Reply:
    return fails(529, "Overloaded", retry_after=retry_after)


def rate_limited(retry_after: str | None = None) -> Reply:
    return fails(429, "This request would exceed your rate limit", retry_after=retry_after)


def wrong_key() -> Reply:
    return fails(401, "invalid x-api-key")


def too_long(tokens: int = 210_000, most: int = 200_000) -> Reply:
    """The conversation does not fit."""
    return fails(400, f"prompt is too long: {tokens} tokens > {most} maximum")


def too_large() -> Reply:
    """The request has too many bytes."""
    return fails(413, "Request exceeds the maximum size")


def html(status: int = 200) -> Reply:
    """A page, as a proxy or a login wall gives it."""
    page = b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>"
    return Reply(status=status, headers={"content-type": "text/html"}, body=page)


def hangs() -> Reply:
    """No answer at all."""
    return Reply(before=(Hang(),))


def resets() -> Reply:
    """The connection is reset in place of an answer."""
    return Reply(before=(Reset(),))

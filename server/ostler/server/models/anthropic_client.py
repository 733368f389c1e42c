"""Requests through the SDK, and its answers as raw events. Imported in a thread, never at the daemon's start."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, cast

import anyio
import httpx2
import orjson
from anthropic import AnthropicError, AsyncAnthropic, AsyncStream, DefaultAioHttpClient

from ostler.protocol.sse import Frame, SseParser
from ostler.server.models.anthropic import AnthropicSettings
from ostler.server.models.anthropic_failures import Failures
from ostler.server.models.provider import RawEvent

_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is kept while tools run: a new one costs a handshake in each request."""
_MAX_CONNECTIONS: Final = 1000
_MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""What one event may have before it is taken for a stream that is none."""
_REST_SECONDS: Final = 0.1
"""How long the end of a whole answer may take to come; a connection that has seen it can be used again."""
_HEADERS: Final = {
    "content-type": "application/json",
    "accept-encoding": "identity",  # a compressed stream comes in lumps
}
_stored: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("stored", default=None)
"""Of the request that this task is about to send."""


async def _wait_for_the_disk(_: httpx2.Request) -> None:
    # Here, where the SDK has made everything ready, and not before: the two take about the same time.
    if (stored := _stored.get()) is not None:
        await stored()


class AnthropicClient:
    """The SDK's client with our time limits and without its retries."""

    def __init__(self, settings: AnthropicSettings) -> None:
        for name in ("anthropic", "httpx2", "httpcore2"):
            # On lower levels they write whole requests and their headers into the log.
            logging.getLogger(name).setLevel(logging.WARNING)
        self._failures = Failures(settings)
        timeout = httpx2.Timeout(settings.silence_seconds, connect=settings.connect_seconds)
        limits = httpx2.Limits(
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_CONNECTIONS,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
        )
        try:
            self._sdk = AsyncAnthropic(
                api_key=settings.api_key,
                auth_token=settings.auth_token,
                base_url=settings.base_url,
                max_retries=0,
                timeout=timeout,
                open_telemetry=False,
                http_client=DefaultAioHttpClient(
                    timeout=timeout, limits=limits, event_hooks={"request": [_wait_for_the_disk]}
                ),
            )
        except (httpx2.InvalidURL, ValueError, OSError) as error:
            raise self._failures.unusable(error) from error
        # It asks the system who it is, once: better here than in the first request.
        self._sdk.platform_headers()

    async def ask(self, body: bytes, stored: Callable[[], Awaitable[None]] | None = None) -> "Answer":
        """Send a request; returns when the provider has accepted it."""
        _stored.set(stored)
        try:
            response = await self._sdk.post(
                "/v1/messages",
                cast_to=httpx2.Response,
                content=body,
                options={"headers": _HEADERS},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
        except (AnthropicError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, RuntimeError, OSError) as error:
            raise self._failures.of_request(error) from error
        # With this `cast_to` the SDK gives the response itself, which its types do not say.
        answer = Answer(cast(httpx2.Response, response), self._failures)
        await answer.check()
        return answer

    async def close(self) -> None:
        await self._sdk.close()


class Answer:
    """A response whose body is on its way."""

    def __init__(self, response: httpx2.Response, failures: Failures) -> None:
        self._response = response
        self._failures = failures
        # Asked for plain, it needs no unpacking; a server that packs all the same is understood, too.
        packed = response.headers.get("content-encoding", "identity") != "identity"
        self._chunks = response.aiter_bytes() if packed else response.aiter_raw()
        self._whole = False

    async def check(self) -> None:
        """Only an event stream is an answer."""
        if not self._response.headers.get("content-type", "").startswith("text/event-stream"):
            failure = self._failures.of_page(self._response)
            await self._response.aclose()
            raise failure

    async def events(self) -> AsyncGenerator[RawEvent, None]:
        """Each event as soon as its bytes are there."""
        parser = SseParser()
        unread = 0
        try:
            async for chunk in self._chunks:
                unread += len(chunk)
                for frame in parser.feed(chunk):
                    unread = 0
                    if frame.data != b"[DONE]":  # what some servers end with, who speak several languages
                        yield self._event(frame)
                if unread > _MAX_EVENT_BYTES:
                    raise self._failures.of_garbage(self._response, "an event without an end")
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise self._failures.of_reading(self._response, error) from error

    def _event(self, frame: Frame) -> RawEvent:
        try:
            event = orjson.loads(frame.data)
        except orjson.JSONDecodeError as error:
            raise self._failures.of_garbage(self._response, "an event that is not JSON") from error
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._failures.of_garbage(self._response, "an event without a type")
        match event["type"]:
            case "error":
                raise self._failures.of_event(self._response, event)
            case "message_stop":
                self._whole = True
        return event

    async def close(self) -> None:
        """End the request, now; what remains of a whole answer is read, so that its connection stays usable."""
        if self._whole and not self._response.is_closed:
            with anyio.move_on_after(_REST_SECONDS), contextlib.suppress(httpx2.HTTPError):
                async for _ in self._chunks:
                    pass
        await self._chunks.aclose()
        await self._response.aclose()

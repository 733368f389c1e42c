"""Requests through the SDK, and its answers as raw events. Imported in a thread, never at the daemon's start."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import cached_property
from typing import Final, cast

import anyio
import httpx2
import orjson
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from ostler.protocol.sse import Frame, SseParser
from ostler.server.models.anthropic import AnthropicSettings
from ostler.server.models.anthropic_failures import Failures
from ostler.server.models.provider import RawEvent

_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is kept while tools run: a new one costs a handshake in each request."""
_MAX_CONNECTIONS: Final = 1000
_MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""What one event may have before it is taken for a stream that is none."""
_MAX_REFUSAL_BYTES: Final = 1024 * 1024
_REST_SECONDS: Final = 0.1
"""How long the end of a whole answer may take to come; a connection that has seen it can be used again."""
_PATH: Final = "/v1/messages"
_LONG_BYTES: Final = 128 * 1024
_HEADERS: Final = {
    "content-type": "application/json",
    "accept-encoding": "identity",  # a compressed stream comes in lumps
}


class _Parts(httpx2.AsyncByteStream):
    """A long body, written as it is: to put it together would take longer the longer the conversation is."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for part in self._parts:
            yield part


class AnthropicClient:
    """The SDK's address, headers and connections, with our time limits.

    Its way of sending is left out: it builds address and headers anew for each request, and takes 0.4 ms for it.
    """

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
            self._http = DefaultAioHttpClient(timeout=timeout, limits=limits)
            self._sdk = AsyncAnthropic(
                api_key=settings.api_key,
                auth_token=settings.auth_token,
                base_url=settings.base_url,
                max_retries=0,
                timeout=timeout,
                open_telemetry=False,
                http_client=self._http,
            )
            self._address = httpx2.URL(f"{str(self._sdk.base_url).rstrip('/')}{_PATH}")
        except (httpx2.InvalidURL, ValueError, OSError) as error:
            raise self._failures.unusable(error) from error
        self._patience = {"timeout": timeout.as_dict()}
        # It asks the system who it is, once: better here than in the first request.
        self._sdk.platform_headers()

    @cached_property
    def _way(self) -> httpx2.AsyncBaseTransport:
        """To the provider, by a proxy where the environment names one.

        The client itself would look for cookies, credentials and redirections in each answer, 0.1 ms before its first
        word; only the last of them can be, and is left to it.
        """
        # It has no public name for what it finds by address.
        return self._http._transport_for_url(self._address)  # pyright: ignore[reportPrivateUsage]

    @cached_property
    def _headers(self) -> httpx2.Headers:
        # Where the first request is sent from, and not before: they say which event loop it is.
        usual = {name: value for name, value in self._sdk.default_headers.items() if isinstance(value, str)}
        headers = httpx2.Headers(usual)
        headers.update(_HEADERS)
        return headers

    async def ask(self, parts: list[bytes], stored: Callable[[], Awaitable[None]] | None = None) -> "Answer":
        """Send a request; returns when the provider has accepted it."""
        try:
            request = self._request(parts)
            if stored is not None:
                # Here, where all is ready, and not before: the two take about the same time.
                await stored()
            response = await self._way.handle_async_request(request)
            if response.is_redirect:
                await response.aclose()
                response = await self._http.send(self._request(parts), stream=True)
            if not response.is_success:
                await self._refuse(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RuntimeError, OSError) as error:
            raise self._failures.of_request(error) from error
        answer = Answer(response, self._failures)
        await answer.check()
        return answer

    def _request(self, parts: list[bytes]) -> httpx2.Request:
        size, headers = sum(map(len, parts)), self._headers
        content: bytes | _Parts = b"".join(parts) if size < _LONG_BYTES else _Parts(parts)
        if isinstance(content, _Parts):
            headers = headers.copy()
            headers["content-length"] = str(size)
        return httpx2.Request("POST", self._address, headers=headers, content=content, extensions=self._patience)

    async def _refuse(self, response: httpx2.Response) -> None:
        body = bytearray()
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > _MAX_REFUSAL_BYTES:
                    break
        await response.aclose()
        raise self._failures.of_status(response, bytes(body))

    async def close(self) -> None:
        await self._sdk.close()


class Answer:
    """A response whose body is on its way."""

    def __init__(self, response: httpx2.Response, failures: Failures) -> None:
        self._response = response
        self._failures = failures
        # Asked for plain, it needs no unpacking; a server that packs all the same is understood, too.
        packed = response.headers.get("content-encoding", "identity") != "identity"
        plain = cast(httpx2.AsyncByteStream, response.stream)
        self._chunks = response.aiter_bytes() if packed else aiter(plain)
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
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()
        await self._response.aclose()

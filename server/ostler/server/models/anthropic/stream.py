"""The response stream of the Messages API: its events, each as soon as its bytes are there."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import aiohttp
import anyio
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.protocol.sse import Frame, SseParser
from ostler.server.models.anthropic.errors import FailureBuilder
from ostler.server.models.long_events import LONG_BYTES, check_event, split_event
from ostler.server.models.provider import RawEvent
from ostler.tools.threads import read_in_thread

READ_ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What reading raises: the parser has errors of its own, beside the client's."""
_MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""Bytes without the end of an event after which the stream is taken for garbage."""
_MAX_REFUSAL_BYTES: Final = 1024 * 1024
_DRAIN_SECONDS: Final = 0.1
"""How long the end of a whole answer may take to come; a connection that has seen it can be used again."""


class ResponseStream:
    """A response whose body is on its way."""

    def __init__(self, response: aiohttp.ClientResponse, failures: FailureBuilder) -> None:
        self._response = response
        self._failures = failures
        self._complete = False

    async def check_response(self) -> None:
        """Only an event stream is an answer; anything else is raised."""
        kind = self._response.headers.get("content-type", "")
        if self._response.status == 200 and kind.startswith("text/event-stream"):
            return
        try:
            raise await self._read_refusal()
        finally:
            self._response.close()

    async def _read_refusal(self) -> Exception:
        if 200 <= self._response.status < 300:
            return self._failures.from_content_type(self._response)
        body = bytearray()
        try:
            while len(body) <= _MAX_REFUSAL_BYTES and (chunk := await self._response.content.readany()):
                body += chunk
        except READ_ERRORS as error:
            return self._failures.from_request_error(error)
        return self._failures.from_status(self._response, bytes(body))

    async def iter_events(self) -> AsyncGenerator[RawEvent, None]:
        parser = SseParser()
        unread = 0
        try:
            while chunk := await self._response.content.readany():
                unread += len(chunk)
                for frame in parser.feed(chunk):
                    unread = 0
                    if len(frame.data) >= LONG_BYTES:
                        for event in split_event(await read_in_thread(self._parse_event, frame)):
                            yield event
                    elif frame.data != b"[DONE]":  # how another API ends its streams; some servers do, too
                        yield self._parse_event(frame)
                if unread > _MAX_EVENT_BYTES:
                    raise self._failures.from_garbage(self._response, "an event without an end")
        except READ_ERRORS as error:
            raise self._failures.from_read_error(self._response, error) from error

    def _parse_event(self, frame: Frame) -> RawEvent:
        try:
            check_event(frame.data)
            event = orjson.loads(frame.data)
        except (ParseError, InvalidRequest) as error:
            raise self._failures.from_garbage(self._response, f"an event that cannot be read: {error}") from error
        except orjson.JSONDecodeError as error:
            raise self._failures.from_garbage(self._response, "an event that is not JSON") from error
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._failures.from_garbage(self._response, "an event without a type")
        match event["type"]:
            case "error":
                raise self._failures.from_error_event(self._response, event)
            case "message_stop":
                self._complete = True
        return event

    async def close(self) -> None:
        """End the request, now; what remains of a whole answer is read, so that its connection stays usable."""
        content = self._response.content
        if self._complete and not content.at_eof():
            with anyio.move_on_after(_DRAIN_SECONDS), contextlib.suppress(*READ_ERRORS):
                while await content.readany():
                    pass
        self._response.close()

"""What a provider answers: its events, each as soon as its bytes are there."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import aiohttp
import anyio
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.protocol.sse import Frame, SseParser
from ostler.server.models.anthropic.errors import Failures
from ostler.server.models.long_events import LONG_BYTES, check_event, in_pieces
from ostler.server.models.provider import RawEvent
from ostler.tools.threads import read_in_thread

TROUBLE: Final = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What reading raises: the parser has errors of its own, beside the client's."""
_MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""What one event may have before it is taken for a stream that is none."""
_MAX_REFUSAL_BYTES: Final = 1024 * 1024
_REST_SECONDS: Final = 0.1
"""How long the end of a whole answer may take to come; a connection that has seen it can be used again."""


class Answer:
    """A response whose body is on its way."""

    def __init__(self, response: aiohttp.ClientResponse, failures: Failures) -> None:
        self._response = response
        self._failures = failures
        self._whole = False

    async def check(self) -> None:
        """Only an event stream is an answer; anything else is raised."""
        kind = self._response.headers.get("content-type", "")
        if self._response.status == 200 and kind.startswith("text/event-stream"):
            return
        try:
            raise await self._refusal()
        finally:
            self._response.close()

    async def _refusal(self) -> Exception:
        if 200 <= self._response.status < 300:
            return self._failures.of_page(self._response)
        body = bytearray()
        try:
            while len(body) <= _MAX_REFUSAL_BYTES and (chunk := await self._response.content.readany()):
                body += chunk
        except TROUBLE as error:
            return self._failures.of_request(error)
        return self._failures.of_status(self._response, bytes(body))

    async def events(self) -> AsyncGenerator[RawEvent, None]:
        parser = SseParser()
        unread = 0
        try:
            while chunk := await self._response.content.readany():
                unread += len(chunk)
                for frame in parser.feed(chunk):
                    unread = 0
                    if len(frame.data) >= LONG_BYTES:
                        for event in in_pieces(await read_in_thread(self._event, frame)):
                            yield event
                    elif frame.data != b"[DONE]":  # what some servers end with, who speak several languages
                        yield self._event(frame)
                if unread > _MAX_EVENT_BYTES:
                    raise self._failures.of_garbage(self._response, "an event without an end")
        except TROUBLE as error:
            raise self._failures.of_reading(self._response, error) from error

    def _event(self, frame: Frame) -> RawEvent:
        try:
            check_event(frame.data)
            event = orjson.loads(frame.data)
        except (ParseError, InvalidRequest) as error:
            raise self._failures.of_garbage(self._response, f"an event that cannot be read: {error}") from error
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
        content = self._response.content
        if self._whole and not content.at_eof():
            with anyio.move_on_after(_REST_SECONDS), contextlib.suppress(*TROUBLE):
                while await content.readany():
                    pass
        self._response.close()

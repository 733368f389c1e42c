"""The response of the Messages API: its events, each as soon as its bytes are there, or those of a whole message."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import anyio
import orjson

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.protocol.sse import SseParser
from ostler.server.models.anthropic.errors import FailureBuilder
from ostler.server.models.http.errors import BadEncoding
from ostler.server.models.http.response import Response
from ostler.server.models.long_events import LONG_BYTES, check_event, split_event
from ostler.server.models.provider import RawEvent
from ostler.server.models.whole_message import split_message
from ostler.tools.threads import read_in_thread

READ_ERRORS: Final = (BadEncoding, OSError)
"""What reading raises."""
_MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""Bytes without the end of an event after which the stream is taken for garbage."""
_MAX_REFUSAL_BYTES: Final = 1024 * 1024
_MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a message that comes whole after which it is taken for garbage."""
_DRAIN_SECONDS: Final = 0.1
"""How long the end of a whole answer may take to come; a connection that has seen it can be used again."""


class ResponseStream:
    """A response whose body is on its way."""

    def __init__(self, response: Response, failures: FailureBuilder) -> None:
        self._response = response
        self._failures = failures
        self._complete = False

    async def check_response(self) -> None:
        """Only an event stream or a JSON message is an answer; anything else is raised."""
        if self._response.status == 200 and self._content_type in {"text/event-stream", "application/json"}:
            return
        try:
            raise await self._read_refusal()
        finally:
            self._response.close()

    @property
    def _content_type(self) -> str:
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def _read_refusal(self) -> Exception:
        if 200 <= self._response.status < 300:
            return self._failures.from_content_type(self._response)
        try:
            body = await self._read_body(_MAX_REFUSAL_BYTES)
        except READ_ERRORS as error:
            return self._failures.from_request_error(error)
        return self._failures.from_status(self._response, body)

    async def _read_body(self, most: int) -> bytes:
        """All of it; where it has more bytes than that, a few more than that."""
        body = bytearray()
        while len(body) <= most and (chunk := await self._response.read()):
            body += chunk
        return bytes(body)

    async def read_document(self, most: int) -> bytes:
        """The body of an answer that is one short JSON document, and nothing of a stream."""
        try:
            await self.check_response()
            body = await self._read_body(most)
        except READ_ERRORS as error:
            raise self._failures.from_read_error(self._response, error) from error
        finally:
            self._response.close()
        if len(body) > most:
            raise self._failures.from_garbage(self._response, "a document without an end")
        return body

    def iter_events(self) -> AsyncGenerator[RawEvent, None]:
        return self._iter_message() if self._content_type == "application/json" else self._iter_stream()

    async def _iter_message(self) -> AsyncGenerator[RawEvent, None]:
        try:
            body = await self._read_body(_MAX_MESSAGE_BYTES)
        except READ_ERRORS as error:
            raise self._failures.from_read_error(self._response, error) from error
        if len(body) > _MAX_MESSAGE_BYTES:
            raise self._failures.from_garbage(self._response, "a message without an end")
        long = len(body) >= LONG_BYTES
        for event in await read_in_thread(self._split_message, body) if long else self._split_message(body):
            yield event

    def _split_message(self, body: bytes) -> list[RawEvent]:
        message = self._parse_event(body, "a message")
        try:
            events = list(split_message(message))
        except ValueError as error:
            raise self._failures.from_garbage(self._response, f"{error}; is ANTHROPIC_BASE_URL right?") from error
        self._complete = True
        return events

    async def _iter_stream(self) -> AsyncGenerator[RawEvent, None]:
        parser = SseParser()
        unread = 0
        try:
            while chunk := await self._response.read():
                unread += len(chunk)
                for frame in parser.feed(chunk):
                    unread = 0
                    if len(frame.data) >= LONG_BYTES:
                        for event in split_event(await read_in_thread(self._parse_event, frame.data)):
                            yield event
                    elif frame.data != b"[DONE]":  # how another API ends its streams; some servers do, too
                        yield self._parse_event(frame.data)
                if unread > _MAX_EVENT_BYTES:
                    raise self._failures.from_garbage(self._response, "an event without an end")
        except READ_ERRORS as error:
            raise self._failures.from_read_error(self._response, error) from error

    def _parse_event(self, data: bytes, what: str = "an event") -> RawEvent:
        try:
            check_event(data)
            event = orjson.loads(data)
        except (ParseError, InvalidRequest) as error:
            raise self._failures.from_garbage(self._response, f"{what} that cannot be read: {error}") from error
        except orjson.JSONDecodeError as error:
            raise self._failures.from_garbage(self._response, f"{what} that is not JSON") from error
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._failures.from_garbage(self._response, f"{what} without a type")
        match event["type"]:
            case "error":
                raise self._failures.from_error_event(self._response, event)
            case "message_stop":
                self._complete = True
        return event

    async def close(self) -> None:
        """End the request, now; what remains of a whole answer is read, so that its connection stays usable."""
        if self._complete and not self._response.complete:
            with anyio.move_on_after(_DRAIN_SECONDS), contextlib.suppress(*READ_ERRORS):
                while await self._response.read():
                    pass
        self._response.close()

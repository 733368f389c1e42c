"""HTTP/1.1 on loopback, as little of it as the clients of the Messages API need."""

import asyncio
import contextlib
import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import orjson

from tests.support.messages_api.behaviors import Act, Clock, Cut, Forever, Hang, Hold, Pause, Reply, Reset, Send, Start
from tests.support.messages_api.recorded_requests import AnswerEnd, RecordedRequest

_HEAD_BUFFER_BYTES: Final = 512
_DISCARD_BUFFER_BYTES: Final = 64 * 1024
_RST: Final = struct.pack("ii", 1, 0)
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: memoryview
    """All of it, or its beginning where the server keeps no more."""
    size: int
    """Of all of it."""
    began: float
    received: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does about a request."""

    reply: Reply
    record: RecordedRequest | None
    """None for questions about the server itself."""


Handler = Callable[[IncomingRequest], Answer]


class _ScriptedDisconnect(Exception):
    """The script ends the connection here."""


@dataclass(frozen=True, slots=True)
class _RequestHead:
    method: str
    path: str
    headers: Mapping[str, str]
    end: int
    length: int


class Connection(asyncio.BufferedProtocol):
    """One client's connection; its requests are answered one after the other."""

    def __init__(self, handler: Handler, connections: "set[Connection]", kept_bytes: int | None = None) -> None:
        self._handler = handler
        self._connections = connections
        self._kept_bytes = kept_bytes
        """Of each request; null: all."""
        self._discard_buffer = memoryview(bytearray(_DISCARD_BUFFER_BYTES if kept_bytes is not None else 0))
        # A little at a time until it is known how much comes: to copy all that is there already would take the longer,
        # the longer a request is, and it would seem to have begun later.
        self._head_buffer = memoryview(bytearray(_HEAD_BUFFER_BYTES))
        self._buffer = bytearray()
        self._head: _RequestHead | None = None
        self._body_buffer = bytearray()
        """Used again for each request, which is answered before the next one comes in."""
        self._body = memoryview(b"")
        """Of the request that is coming in, as much as is kept of it."""
        self._filled = 0
        self._began = 0.0
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        # Straight to where it belongs: a copy of a long request would empty the caches of who waits for the answer.
        if self._filled < len(self._body):
            return self._body[self._filled :]
        return self._discard_buffer[: self._missing] if self._missing else self._head_buffer

    @property
    def _missing(self) -> int:
        """Bytes of the request that are still to come."""
        return self._head.length - self._filled if self._head is not None else 0

    def buffer_updated(self, nbytes: int) -> None:
        if self._missing:
            self._filled += nbytes
        else:
            if not self._buffer:
                self._began = time.monotonic()
            self._buffer += self._head_buffer[:nbytes]
        self._answer_next()

    def abort(self) -> None:
        self._transport.abort()

    def _answer_next(self) -> None:
        if self._task is None and (incoming := self._take_request()) is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(incoming))
            self._task.add_done_callback(self._on_answered)

    def _on_answered(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and not self._transport.is_closing():
            self._answer_next()

    def _take_request(self) -> IncomingRequest | None:
        if self._head is None:
            self._head = _parse_head(self._buffer)
            if self._head is None:
                return None
            self._prepare_body(self._head)
        if self._missing:
            return None
        head, body = self._head, self._body
        self._head, self._body, self._filled = None, memoryview(b""), 0
        return IncomingRequest(head.method, head.path, head.headers, body, head.length, self._began, time.monotonic())

    def _prepare_body(self, head: _RequestHead) -> None:
        begun = self._buffer[head.end : head.end + head.length]
        del self._buffer[: head.end + head.length]
        kept = head.length if self._kept_bytes is None else min(head.length, self._kept_bytes)
        if len(self._body_buffer) < kept:
            self._body_buffer = bytearray(2 * kept)
        self._body, self._filled = memoryview(self._body_buffer)[:kept], len(begun)
        self._body[: len(begun)] = begun[:kept]

    async def _answer(self, incoming: IncomingRequest) -> None:
        answer = self._handler(incoming)
        writer = _ReplyWriter(self._transport, self._writable, answer)
        try:
            await writer.perform()
        except _ScriptedDisconnect:
            writer.finish("cut")
        except asyncio.CancelledError:
            writer.finish("left")
            raise
        else:
            writer.finish("complete")


class _ReplyWriter:
    """Writes one reply to a connection, act by act."""

    def __init__(self, transport: asyncio.Transport, writable: asyncio.Event, answer: Answer) -> None:
        self._transport = transport
        self._writable = writable
        self._reply = answer.reply
        self._record = answer.record

    def finish(self, end: AnswerEnd) -> None:
        if self._record is not None:
            self._record.finish(end)

    async def perform(self) -> None:
        reply = self._reply
        for act in reply.before:
            await self._perform_act(act)
        if self._record is not None:
            self._record.status = reply.status
        if reply.body is not None:
            self._record_sent()
            self._transport.write(_build_response_head(reply, f"content-length: {len(reply.body)}") + reply.body)
            return
        self._transport.write(_build_response_head(reply, "transfer-encoding: chunked"))
        for act in reply.acts:
            await self._perform_act(act)
        self._transport.write(b"0\r\n\r\n")

    async def _perform_act(self, act: Act) -> None:
        match act:
            case Send(data):
                await self._send(data)
            case Start():
                await self._send(self._build_message_start(act))
            case Clock(index):
                await self._send(_build_clock_event(index))
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Hold(gate):
                await gate.pass_through()
            case Hang():
                await asyncio.Event().wait()
            case Cut():
                self._transport.close()
                raise _ScriptedDisconnect
            case Reset():
                self._reset()
                raise _ScriptedDisconnect
            case Forever(data, seconds):
                while True:
                    await self._send(data)
                    await asyncio.sleep(seconds)

    async def _send(self, data: bytes) -> None:
        if not self._writable.is_set():
            await self._writable.wait()
        self._record_sent()
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _record_sent(self) -> None:
        if self._record is not None:
            self._record.sent.append(time.monotonic())

    def _reset(self) -> None:
        sock: socket.socket = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        self._transport.abort()

    def _build_message_start(self, start: Start) -> bytes:
        usage = start.usage
        message: dict[str, Any] = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self._record.body.get("model") if self._record else None,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens,
                "cache_creation_input_tokens": usage.cache_creation_input_tokens,
                "cache_read_input_tokens": usage.cache_read_input_tokens,
                "output_tokens": 1,
                "service_tier": "standard",
            },
        }
        return b"event: message_start\ndata: %s\n\n" % orjson.dumps({"type": "message_start", "message": message})


def _build_clock_event(index: int) -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
        b'"delta":{"type":"text_delta","text":"%d "}}\n\n' % (index, time.monotonic_ns())
    )


def _parse_head(buffer: bytearray) -> _RequestHead | None:
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return _RequestHead(method, path, headers, end + 4, int(headers.get("content-length", "0")))


def _build_response_head(reply: Reply, framing: str) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {_PHRASES.get(reply.status, 'Unknown')}", framing]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

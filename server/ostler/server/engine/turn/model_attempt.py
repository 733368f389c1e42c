"""One attempt at a request to the model: sent and streamed until there is a message or a failure."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

import anyio

from ostler.protocol import times
from ostler.protocol.config import Model
from ostler.protocol.events import MessageDelta
from ostler.protocol.ids import SessionId, TurnId, new_message_id
from ostler.protocol.shapes import Message, Usage
from ostler.server.engine.calls.call_writer import MessageDraft
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.session.history import join_blocks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.session.usage import add_usage
from ostler.server.events.event_log import EventLog
from ostler.server.models.assembler import Delta, MessageAssembler, StreamItem, ToolUse
from ostler.server.models.pricing import format_usd
from ostler.server.models.provider import ModelFailure, ModelRequest, Provider
from ostler.storage import Scope
from ostler.tools.threads import change_in_thread, read_in_thread

_EVENTS_AT_ONCE: Final = 32
"""Events read before the event loop is yielded: thousands may be buffered, and reading those never waits."""
_SECONDS_AT_ONCE: Final = 0.005
"""It is yielded earlier where few events take long: thirty-two pieces of a long call's input took 90 ms."""
_MAX_BROKEN_STREAMS: Final = 3
DISCARDED = "Not run: the model's answer broke off, and it was asked again."


@dataclass(slots=True)
class Streaming:
    """Whether the requests of a turn ask for a stream: after three broken ones in a row no more, to its end.

    Some proxies break every long stream, and let a whole answer through.
    """

    broken: int = 0

    @property
    def on(self) -> bool:
        return self.broken < _MAX_BROKEN_STREAMS

    def note_end(self, *, whole: bool) -> None:
        """Note how a stream has ended; what was asked for without one says nothing about streams."""
        if self.on:
            self.broken = 0 if whole else self.broken + 1


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer to a request."""

    text: str
    stop_reason: str | None
    executor: Executor
    empty: bool
    """It has no content that could be stored."""
    call_cut: bool
    """It was cut in the middle of a call, which was dropped."""
    stream_failure: ModelFailure | None = None
    """Why the stream broke off, for an answer that is kept as far as it came."""


def create_assistant_message(session_id: SessionId, turn_id: TurnId, model: str) -> Message:
    """A new assistant message, still without content."""
    return Message(
        id=new_message_id(),
        session_id=session_id,
        turn_id=turn_id,
        role="assistant",
        content=[],
        model=model,
        created_at=times.now(),
    )


@dataclass(slots=True)
class ModelAttempt:
    """One attempt at a request: streamed until there is a message, or a failure."""

    session: LiveSession
    state: TurnState
    provider: Provider
    request: ModelRequest
    stream: "MessageStream"
    executor: Executor
    """Runs the calls of the message, while the model still writes it."""
    streaming: Streaming
    settings: Model
    cost: Callable[[str, Usage], Decimal | None]

    async def fetch_answer(self) -> ModelAnswer | None:
        """The answer; None where it was stopped before any of it was kept. Raises ModelFailure."""
        stream, stopped = self.stream, self.state.request_stop
        known_reads = self.session.reads.snapshot()
        failure = await self.read_stream()
        if stream.assembly.stopped:
            self.streaming.note_end(whole=True)
            return await self._keep_message()
        # Silence in the place of an answer counts: perhaps it comes, all at once, where no stream is asked for.
        if not stopped.cancel_called and (stream.accepted or (failure is not None and failure.kind == "timeout")):
            self.streaming.note_end(whole=False)
        if stopped.cancel_called or self.executor.changed_something:
            # The person has seen it, or a call of it has had an effect: it is kept, as far as it came.
            if stream.assembly.completes_long_block():
                await read_in_thread(stream.assembly.complete_ahead)
            stream.assembly.finish_incomplete()
            answer = await self._keep_message()
            return (
                answer
                if answer is None or stopped.cancel_called
                else replace(answer, stream_failure=failure or _make_stream_failure())
            )
        await self.executor.discard(DISCARDED)
        self._abort_message()
        # The model was not sent what its calls have read: those files do not count as read, and may not be overwritten.
        if reverted := self.session.reads.restore(known_reads):
            self.session.journal.messages.restore_reads(reverted)
        await self.session.tasks.mark_unread(self.session.record.id)
        raise failure or _make_stream_failure()

    async def read_stream(self) -> ModelFailure | None:
        """Read the events of the answer; returns what went wrong."""
        stream, limit = self.stream, self.settings.message_seconds
        try:
            with self.state.request_stop.scope(), anyio.fail_after(limit):
                async with self.provider.stream(replace(self.request, stream=self.streaming.on)) as events:
                    stream.accepted = True
                    yielded_at, events_read = time.monotonic(), 0
                    async for event in events:
                        if stream.assembly.completes_long_block(event):
                            await read_in_thread(stream.assembly.complete_ahead)
                        for tool_use in _feed_event(stream, event):
                            self.executor.add(tool_use)
                            self.state.change(tool_calls=self.state.turn.tool_calls + 1)
                        if stream.assembly.stopped:
                            # Let the calls start first: the rest of this message is handled while a command starts.
                            await asyncio.sleep(0)
                            await self.session.journal.writes.reach_commit_gate()
                            return None
                        events_read += 1
                        if events_read == _EVENTS_AT_ONCE or time.monotonic() - yielded_at > _SECONDS_AT_ONCE:
                            await asyncio.sleep(0)
                            yielded_at, events_read = time.monotonic(), 0
        except ModelFailure as failure:
            if self.request.stored is not None:
                await self.request.stored()  # raises where the disk failed, and not the model
            return failure
        except TimeoutError:
            return ModelFailure("garbage", f"The model was still writing one message after {limit:.0f} seconds.")
        return None

    async def _keep_message(self) -> ModelAnswer | None:
        """Store the message and add it to the history; None where there is nothing to store."""
        assembly = self.stream.assembly
        answer = ModelAnswer(
            assembly.text, assembly.stop_reason, self.executor, empty=not assembly.content, call_cut=assembly.call_cut
        )
        if not assembly.content:
            self._abort_message()
            return answer if assembly.stopped else None
        message = self.stream.message.changed(
            stop_reason=assembly.stop_reason, model=assembly.model or self.request.model
        )
        # The same bytes go to the history and to the disk: the prompt cache of the provider depends on them.
        content = await self._add_to_history(assembly)
        self.stream.draft.closed = True
        used = self._count_usage(assembly)
        self.session.context.note_answer(used, self.request.prefix_tokens, self.session.history.tokens)
        self.session.journal.messages.complete(message, content, self.state.turn, used)
        return answer

    async def _add_to_history(self, assembly: MessageAssembler) -> bytes:
        """Add the content to the history; returns it as JSON."""

        def encode_and_add() -> bytes:
            content = join_blocks(assembly.encoded)
            self.session.history.add_answer(assembly.content, assembly.encoded, content)
            return content

        if not assembly.is_long:
            return encode_and_add()
        # Shielded: what is in the history must be stored, even where the turn is stopped meanwhile.
        with anyio.CancelScope(shield=True):
            return await change_in_thread(encode_and_add)
        raise AssertionError("a shielded scope is never left early")

    def _abort_message(self) -> None:
        stream = self.stream
        stream.draft.closed = True
        self.session.journal.messages.abort(stream.message)
        if stream.assembly.usage != Usage():
            used = self._count_usage(stream.assembly)
            self.session.journal.messages.record_usage(self.request.model, self.state.turn, used)

    def _count_usage(self, assembly: MessageAssembler) -> Usage:
        """The usage of the request with its cost; added to the sums of the turn and the session."""
        requested, actual = self.request.model, assembly.model or self.request.model
        # A provider may answer under a model name without a known price: the price of the requested model counts then.
        usage = assembly.usage
        price = self.cost(actual, usage)
        price = self.cost(requested, usage) if price is None else price
        used = usage.changed(cost_usd=None if price is None else format_usd(price))
        self.state.change(usage=add_usage(self.state.turn.usage, used))
        self.session.journal.writes.used = add_usage(self.session.journal.writes.used, used)
        self.session.usage_meter.charge_parents(used)
        return used


class MessageStream:
    """A message that is being streamed: sends its deltas to clients, and gives out its blocks to be stored."""

    __slots__ = ("_log", "_scope", "accepted", "assembly", "draft", "message")

    def __init__(self, message: Message, assembly: MessageAssembler, log: EventLog, scope: Scope) -> None:
        self.message = message
        self.assembly = assembly
        self.draft = MessageDraft(assembly.encoded)
        self.accepted = False
        """The provider has begun to answer."""
        self._log = log
        self._scope = scope

    def feed(self, event: dict[str, object]) -> list[ToolUse]:
        """Feed one event, and send its deltas to clients; returns the tool uses that it completes."""
        # As a list: a block is in the content only when the whole event has been read.
        steps: list[StreamItem] = list(self.assembly.feed(event))
        for step in steps:
            if isinstance(step, Delta):
                self._publish_delta(step)
        return [step for step in steps if isinstance(step, ToolUse)]

    def _publish_delta(self, delta: Delta) -> None:
        data = MessageDelta(
            message_id=self.message.id, index=delta.index, kind=delta.kind, offset=delta.offset, text=delta.text
        )
        self._log.publish_transient("message.delta", self._scope, data)


def _feed_event(stream: MessageStream, event: dict[str, object]) -> list[ToolUse]:
    """Feed one event; a malformed one is the provider's mistake, and raises ModelFailure."""
    try:
        return stream.feed(event)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise ModelFailure("garbage", f"The provider sent an event that makes no sense: {error}") from None


def _make_stream_failure() -> ModelFailure:
    return ModelFailure("connection", "The model's answer broke off in the middle.")

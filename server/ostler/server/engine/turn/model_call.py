"""One request to the model, with its retries: sent and streamed until there is a message or a failure."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import anyio

from ostler.protocol import times
from ostler.protocol.config import Model
from ostler.protocol.events import MessageDelta, ModelRetry
from ostler.protocol.ids import MessageId, SessionId, TurnId, new_message_id
from ostler.protocol.shapes import Message, Usage
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.session.history import join_blocks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.session.usage import add_usage
from ostler.server.engine.turn.stop import StopSignal
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
class ModelCall:
    """One request, with all its attempts."""

    session: LiveSession
    state: TurnState
    provider: Provider
    request: ModelRequest
    settings: Model
    make_executor: Callable[[MessageId, Callable[[], Draft]], Executor]
    cost: Callable[[str, Usage], Decimal | None]
    stop: StopSignal
    """Cancelled to stop the stream; the message is kept as far as it came."""
    streaming: Streaming = field(default_factory=Streaming)
    started_message: Message | None = None
    """The message of the first attempt, where its start is already in the log."""
    executor: Executor | None = None
    """The executor of the current attempt."""

    async def fetch_answer(self) -> ModelAnswer | None:
        """Send the request until there is an answer; None where it was stopped before any of it was kept.

        Raises ModelFailure.
        """
        attempt = 1
        while True:
            try:
                return await self._attempt()
            except ModelFailure as failure:
                if self.stop.cancel_called:
                    return None
                if attempt > failure.count_retries(self.settings.max_retries):
                    if attempt > 1:
                        failure.message = f"{failure.message.rstrip('.')}. It was tried {attempt} times."
                    raise
                await wait_for_retry(self.session, self.state, self.settings, self.stop, attempt, failure)
                if self.stop.cancel_called:
                    return None
                attempt += 1

    async def _attempt(self) -> ModelAnswer | None:
        message, self.started_message = self.started_message, None
        if message is None:
            message = create_assistant_message(self.session.record.id, self.state.turn.id, self.request.model)
            # Logged with the request and not with the answer, so that the first delta need not wait for a commit.
            self.session.journal.start_message(message)
        scope = self.session.journal.scope(message.turn_id)
        stream = _Stream(self.session, message, MessageAssembler(self.session.history.tool_use_ids), scope)
        executor = self.executor = self.make_executor(message.id, stream.take_draft)
        known_reads = self.session.reads.snapshot()
        failure = await self._read_stream(stream, executor)
        if stream.assembly.stopped:
            self.streaming.note_end(whole=True)
            return await self._keep_message(stream, executor)
        # Silence in the place of an answer counts: perhaps it comes, all at once, where no stream is asked for.
        if not self.stop.cancel_called and (stream.accepted or (failure is not None and failure.kind == "timeout")):
            self.streaming.note_end(whole=False)
        if self.stop.cancel_called or executor.changed_something:
            # The person has seen it, or a call of it has had an effect: it is kept, as far as it came.
            if stream.assembly.completes_long_block():
                await read_in_thread(stream.assembly.complete_ahead)
            stream.assembly.finish_incomplete()
            answer = await self._keep_message(stream, executor)
            return (
                answer
                if answer is None or self.stop.cancel_called
                else replace(answer, stream_failure=failure or _make_stream_failure())
            )
        await executor.discard(DISCARDED)
        self._abort_message(stream)
        # The model was not sent what its calls have read: those files do not count as read, and may not be overwritten.
        if reverted := self.session.reads.restore(known_reads):
            self.session.journal.restore_reads(reverted)
        await self.session.tasks.mark_unread(self.session.record.id)
        raise failure or _make_stream_failure()

    async def _read_stream(self, stream: "_Stream", executor: Executor) -> ModelFailure | None:
        limit = self.settings.message_seconds
        try:
            with self.stop.scope(), anyio.fail_after(limit):
                async with self.provider.stream(replace(self.request, stream=self.streaming.on)) as events:
                    stream.accepted = True
                    yielded_at, events_read = time.monotonic(), 0
                    async for event in events:
                        if stream.assembly.completes_long_block(event):
                            await read_in_thread(stream.assembly.complete_ahead)
                        for tool_use in _feed_event(stream, event):
                            executor.add(tool_use)
                            self.state.change(tool_calls=self.state.turn.tool_calls + 1)
                        if stream.assembly.stopped:
                            # Let the calls start first: the rest of this message is handled while a command starts.
                            await asyncio.sleep(0)
                            await self.session.journal.reach_commit_gate()
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

    async def _keep_message(self, stream: "_Stream", executor: Executor) -> ModelAnswer | None:
        """Store the message and add it to the history; None where there is nothing to store."""
        assembly = stream.assembly
        answer = ModelAnswer(
            assembly.text, assembly.stop_reason, executor, empty=not assembly.content, call_cut=assembly.call_cut
        )
        if not assembly.content:
            self._abort_message(stream)
            return answer if assembly.stopped else None
        message = stream.message.changed(stop_reason=assembly.stop_reason, model=assembly.model or self.request.model)
        # The same bytes go to the history and to the disk: the prompt cache of the provider depends on them.
        content = await self._add_to_history(assembly)
        stream.completed = True
        used = self._count_usage(assembly)
        self.session.journal.complete_message(message, content, self.state.turn, used)
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

    def _abort_message(self, stream: "_Stream") -> None:
        stream.completed = True
        self.session.journal.abort_message(stream.message)
        if stream.assembly.usage != Usage():
            used = self._count_usage(stream.assembly)
            self.session.journal.record_usage(self.request.model, self.state.turn, used)

    def _count_usage(self, assembly: MessageAssembler) -> Usage:
        """The usage of the request with its cost; added to the sums of the turn and the session."""
        requested, actual = self.request.model, assembly.model or self.request.model
        # A provider may answer under a model name without a known price: the price of the requested model counts then.
        usage = assembly.usage
        price = self.cost(actual, usage)
        price = self.cost(requested, usage) if price is None else price
        used = usage.changed(cost_usd=None if price is None else format_usd(price))
        self.state.change(usage=add_usage(self.state.turn.usage, used))
        self.session.journal.used = add_usage(self.session.journal.used, used)
        return used


@dataclass(slots=True)
class _Stream:
    """A message that is being streamed: sends its deltas to clients, and gives out its blocks to be stored."""

    session: LiveSession
    message: Message
    assembly: MessageAssembler
    scope: Scope
    completed: bool = False
    accepted: bool = False
    """The provider has begun to answer."""
    _taken: int = 0

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
        self.session.journal.log.publish_transient("message.delta", self.scope, data)

    def take_draft(self) -> Draft:
        """The complete blocks that are not stored yet; whoever takes them has to store them."""
        if self.completed:
            return ()
        first, self._taken = self._taken, len(self.assembly.content)
        return [(place, self.assembly.encoded[place]) for place in range(first, self._taken)]


def _feed_event(stream: "_Stream", event: dict[str, object]) -> list[ToolUse]:
    """Feed one event; a malformed one is the provider's mistake, and raises ModelFailure."""
    try:
        return stream.feed(event)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise ModelFailure("garbage", f"The provider sent an event that makes no sense: {error}") from None


def _make_stream_failure() -> ModelFailure:
    return ModelFailure("connection", "The model's answer broke off in the middle.")


async def wait_for_retry(
    session: LiveSession, state: TurnState, settings: Model, stop: StopSignal, attempt: int, failure: ModelFailure
) -> None:
    """Wait before the next attempt, and tell clients why."""
    wait = compute_retry_wait(attempt, failure, settings)
    retry = ModelRetry(
        attempt=attempt,
        max_retries=failure.count_retries(settings.max_retries),
        wait_ms=int(wait * 1000),
        error=describe_failure(failure),
    )
    session.journal.record_retry(state.turn.id, retry)
    with stop.scope():
        await anyio.sleep(wait)


def compute_retry_wait(attempt: int, failure: ModelFailure, settings: Model) -> float:
    """Seconds to wait: exponential backoff with jitter, so that a hundred sessions do not retry in the same second."""
    wait: float = min(settings.first_wait_seconds * 2 ** (attempt - 1), settings.max_wait_seconds)
    wait *= random.uniform(0.75, 1.0)  # noqa: S311 - to spread, not to hide
    retry_after = (failure.retry_after_ms or 0) / 1000
    return max(wait, min(retry_after, 10 * settings.max_wait_seconds))


def describe_failure(failure: ModelFailure) -> dict[str, object]:
    """The failure as an error object for clients."""
    facts = {"status": failure.status, "request_id": failure.request_id, "retry_after_ms": failure.retry_after_ms}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return {"code": "model_error", "kind": failure.kind, "message": failure.message, **known}

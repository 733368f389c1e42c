"""One request to the model: sent, streamed, tried again, until there is a message or a failure."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from ostler.server.engine.session.history import joined
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.session.usage import added
from ostler.server.engine.turn.stop import Stop
from ostler.server.models.assembler import Assembly, Delta, Step, ToolUse
from ostler.server.models.pricing import usd
from ostler.server.models.provider import ModelFailure, ModelRequest, Provider
from ostler.storage import Scope
from ostler.tools.threads import change_in_thread, read_in_thread

_EVENTS_AT_ONCE: Final = 32
"""Thousands may have come already, and reading those never waits: other sessions have a turn between."""
DISCARDED = "Not run: the model's answer broke off, and it was asked again."


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a request."""

    text: str
    stop_reason: str | None
    executor: Executor
    empty: bool
    """The model said nothing that could be kept."""
    call_cut: bool
    """It was cut in the middle of a call, which is dropped."""
    broke: ModelFailure | None = None
    """Why it ends where it does, for one that broke off and stays."""


def next_message(session_id: SessionId, turn_id: TurnId, model: str) -> Message:
    """The model's next message, of which nothing has come yet."""
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
    stop: Stop
    """Cancelled to end the message where it is."""
    begun: Message | None = None
    """The message of the first attempt, where the log has its start already."""
    executor: Executor | None = None
    """Of the attempt that runs."""

    async def answer(self) -> Answered | None:
        """The model's message; None where it was stopped before anything of it was kept. Raises ModelFailure."""
        attempt = 1
        while True:
            try:
                return await self._attempt()
            except ModelFailure as failure:
                if self.stop.called:
                    return None
                if attempt > failure.retries(self.settings.max_retries):
                    raise
                await pause(self.session, self.state, self.settings, self.stop, attempt, failure)
                if self.stop.called:
                    return None
                attempt += 1

    async def _attempt(self) -> Answered | None:
        message, self.begun = self.begun, None
        if message is None:
            message = next_message(self.session.record.id, self.state.turn.id, self.request.model)
            # With the request and not with the answer: the first words need not wait for a commit.
            self.session.journal.message_started(message)
        scope = self.session.journal.scope(message.turn_id)
        stream = _Stream(self.session, message, Assembly(self.session.history.tool_use_ids), scope)
        executor = self.executor = self.make_executor(message.id, stream.draft)
        known = self.session.reads.known()
        failure = await self._read(stream, executor)
        if stream.assembly.stopped:
            return await self._keep(stream, executor)
        if self.stop.called or executor.changed_something:
            # The person has seen it, or something was done because of it: it stays, as far as it came.
            if stream.assembly.ends_long():
                await read_in_thread(stream.assembly.make_ahead)
            stream.assembly.end_where_it_broke()
            kept = await self._keep(stream, executor)
            return kept if kept is None or self.stop.called else replace(kept, broke=failure or _broke_off())
        await executor.discard(DISCARDED)
        self._abort(stream)
        # What its calls have read was shown to nobody: it may not be called known, nor be written over.
        if taken_back := self.session.reads.back_to(known):
            self.session.journal.reads_taken_back(taken_back)
        await self.session.tasks.unread(self.session.record.id)
        raise failure or _broke_off()

    async def _read(self, stream: "_Stream", executor: Executor) -> ModelFailure | None:
        limit = self.settings.message_seconds
        try:
            with self.stop.obeyed(), anyio.fail_after(limit):
                async with self.provider.stream(self.request) as events:
                    taken = 0
                    async for event in events:
                        if stream.assembly.ends_long(event):
                            await read_in_thread(stream.assembly.make_ahead)
                        for step in _understood(stream, event):
                            executor.add(step)
                            self.state.change(tool_calls=self.state.turn.tool_calls + 1)
                        if stream.assembly.stopped:
                            # The calls first: while a command starts, the rest of the work on this message is done.
                            await asyncio.sleep(0)
                            await self.session.journal.with_the_disk()
                            return None
                        taken += 1
                        if taken % _EVENTS_AT_ONCE == 0:
                            await asyncio.sleep(0)
        except ModelFailure as failure:
            if self.request.stored is not None:
                await self.request.stored()  # raises where it was the disk that failed, and not the model
            return failure
        except TimeoutError:
            return ModelFailure("garbage", f"The model was still writing one message after {limit:.0f} seconds.")
        return None

    async def _keep(self, stream: "_Stream", executor: Executor) -> Answered | None:
        """The message goes into the history."""
        assembly = stream.assembly
        answered = Answered(
            assembly.text, assembly.stop_reason, executor, empty=not assembly.content, call_cut=assembly.call_cut
        )
        if not assembly.content:
            self._abort(stream)
            return answered if assembly.stopped else None
        message = stream.message.changed(stop_reason=assembly.stop_reason, model=assembly.model or self.request.model)
        # The same bytes go to the history and to the disk: the model's cache depends on them.
        content = await self._remembered(assembly)
        stream.completed = True
        used = self._count(assembly)
        self.session.journal.message_completed(message, content, self.state.turn, used)
        return answered

    async def _remembered(self, assembly: Assembly) -> bytes:
        """The content, which the history has then."""

        def remember() -> bytes:
            content = joined(assembly.encoded)
            self.session.history.add_answer(assembly.content, assembly.encoded, content)
            return content

        if not assembly.is_long:
            return remember()
        # What the history has is stored, whoever stops the turn.
        with anyio.CancelScope(shield=True):
            return await change_in_thread(remember)
        raise AssertionError("a shielded scope is never left early")

    def _abort(self, stream: "_Stream") -> None:
        stream.completed = True
        self.session.journal.message_aborted(stream.message)
        if stream.assembly.usage != Usage():
            used = self._count(stream.assembly)
            self.session.journal.paid(self.request.model, self.state.turn, used)

    def _count(self, assembly: Assembly) -> Usage:
        """What the request took, added to the turn's and the session's sums."""
        asked, answered = self.request.model, assembly.model or self.request.model
        # A provider may answer under a name that nobody knows; what was asked for has a price all the same.
        usage = assembly.usage
        price = self.cost(answered, usage)
        price = self.cost(asked, usage) if price is None else price
        used = usage.changed(cost_usd=None if price is None else usd(price))
        self.state.change(usage=added(self.state.turn.usage, used))
        self.session.journal.used = added(self.session.journal.used, used)
        return used


@dataclass(slots=True)
class _Stream:
    """A message on its way in: what clients see of it while it comes."""

    session: LiveSession
    message: Message
    assembly: Assembly
    scope: Scope
    completed: bool = False
    _taken: int = 0

    def feed(self, event: dict[str, object]) -> list[ToolUse]:
        """Tell the clients what an event brings; returns the calls that it completes."""
        # As a list: a block is in the content only when the whole event has been read.
        steps: list[Step] = list(self.assembly.feed(event))
        for step in steps:
            if isinstance(step, Delta):
                self._say(step)
        return [step for step in steps if isinstance(step, ToolUse)]

    def _say(self, delta: Delta) -> None:
        data = MessageDelta(
            message_id=self.message.id, index=delta.index, kind=delta.kind, offset=delta.offset, text=delta.text
        )
        self.session.journal.log.say("message.delta", self.scope, data)

    def draft(self) -> Draft:
        """The complete blocks that nobody has stored yet; whoever takes them stores them."""
        if self.completed:
            return ()
        first, self._taken = self._taken, len(self.assembly.content)
        return [(place, self.assembly.encoded[place]) for place in range(first, self._taken)]


def _understood(stream: "_Stream", event: dict[str, object]) -> list[ToolUse]:
    """An event that makes no sense is the provider's mistake, and is treated as one."""
    try:
        return stream.feed(event)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise ModelFailure("garbage", f"The provider sent an event that makes no sense: {error}") from None


def _broke_off() -> ModelFailure:
    return ModelFailure("connection", "The model's answer broke off in the middle.")


async def pause(
    session: LiveSession, state: TurnState, settings: Model, stop: Stop, attempt: int, failure: ModelFailure
) -> None:
    """Wait before the model is asked again, and tell clients why."""
    wait = wait_before_retry(attempt, failure, settings)
    retry = ModelRetry(
        attempt=attempt,
        max_retries=failure.retries(settings.max_retries),
        wait_ms=int(wait * 1000),
        error=described(failure),
    )
    session.journal.retrying(state.turn.id, retry)
    with stop.obeyed():
        await anyio.sleep(wait)


def wait_before_retry(attempt: int, failure: ModelFailure, settings: Model) -> float:
    """Doubled each time, with jitter, so that a hundred sessions do not come back in the same second."""
    wait: float = min(settings.first_wait_seconds * 2 ** (attempt - 1), settings.max_wait_seconds)
    wait *= random.uniform(0.75, 1.0)  # noqa: S311 - to spread, not to hide
    asked = (failure.retry_after_ms or 0) / 1000
    return max(wait, min(asked, 10 * settings.max_wait_seconds))


def described(failure: ModelFailure) -> dict[str, object]:
    """A failure as clients are told of it."""
    facts = {"status": failure.status, "request_id": failure.request_id, "retry_after_ms": failure.retry_after_ms}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return {"code": "model_error", "kind": failure.kind, "message": failure.message, **known}

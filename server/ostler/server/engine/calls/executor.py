"""Runs the calls of one assistant message: in the order of its blocks, concurrently where that is safe."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol.config import Config
from ostler.protocol.ids import MessageId, TurnId, call_id
from ostler.protocol.shapes import Ask, Call
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.calls.authorize import Authorizer
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.call_writer import CallWriter, MessageDraft
from ostler.server.engine.calls.concurrency import CallConcurrency, CallState
from ostler.server.engine.calls.parse_input import parse_call
from ostler.server.engine.calls.pipeline import Pipeline
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.stages import Ended
from ostler.server.engine.loading import StoredCall
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.models.assembler import ToolUse
from ostler.server.observability.metrics import ToolCounts
from ostler.tools.registry import ToolSet
from ostler.tools.tool import Block

BEFORE_START = "before it started."
WHILE_RUNNING = "before it was finished. It may have had a part of its effect."
_ANNOUNCE_SECONDS: Final = 0.05
"""A call that has not started by then is told as queued."""
STEERED = "Stopped, because the person said something meanwhile: read that first."
OUTCOME_UNKNOWN = "interrupted, outcome unknown: the daemon stopped while this ran. Check before doing it again."


class Executor:
    """The calls of one assistant message, and the tasks that run them."""

    def __init__(
        self,
        group: TaskGroup,
        session: LiveSession,
        toolset: ToolSet,
        pipeline: Pipeline,
        writer: CallWriter,
        message_id: MessageId,
        turn_id: TurnId,
        limit: int,
    ) -> None:
        self.message_id = message_id
        self.calls = writer.runs
        self._group = group
        self._session = session
        self._toolset = toolset
        self._pipeline = pipeline
        self._writer = writer
        self._turn_id = turn_id
        self._concurrency = CallConcurrency(limit)
        self._unapplied: list[CallRun] = []
        """Calls that are done, and whose changes are not applied yet."""
        self._call_ended = asyncio.Event()
        """Set, and replaced, whenever a call ends."""
        self._closed_reason: str | None = None
        """Why nothing starts any more, for the model."""
        self._shell_failure: str | None = None
        """Why no further command starts, for the model."""

    @property
    def changed_something(self) -> bool:
        """Whether a call that is not read-only has begun: the message cannot be discarded then."""
        return any(run.has_effect for run in self.calls)

    def add(self, use: ToolUse) -> None:
        """Add a call that the model has just finished writing, and start it where it is ready."""
        run = self._add_run(use, None, None)
        if self._closed_reason is not None or (self._shell_failure is not None and _is_shell(run)):
            self._drop(run, self._closed_reason or self._shell_failure or "")
            return
        self.start_ready()
        # The stored block of an unusable call has {} as its input: without this record a restart would run it.
        if run.slot.state is CallState.WAITING or use.input_error is not None or self._pipeline.may_hold(run.tool):
            self._writer.announce(run.slot.index)
        else:
            # Most calls start at once, and both facts are written together.
            run.announcement = asyncio.get_running_loop().call_later(
                _ANNOUNCE_SECONDS, self._writer.announce, run.slot.index
            )

    def restore(self, calls: Iterable[StoredCall]) -> None:
        """Add the calls from before a restart, each as it was stored, and start those that are ready."""
        for one in calls:
            self._add_run(one.use, one.call, one.ask, one.messages)
        self.start_ready()

    def _add_run(
        self, use: ToolUse, stored: Call | None, ask: Ask | None, messages: Sequence[Sequence[Block]] = ()
    ) -> CallRun:
        """Add a call at the end, with its tool looked up and its input parsed."""
        call = stored or Call(
            call_id=call_id(self.message_id, use.index),
            tool_use_id=use.id,
            session_id=self._session.record.id,
            turn_id=self._turn_id,
            tool=use.name[:200],
            input=use.input,
            summary=use.name[:200],
            status="queued",
        )
        slot, spans = self._concurrency.add(safe=False), Spans()
        if call.status == "completed":
            slot.state = CallState.DONE
            run = CallRun(use, slot, Ended(call, messages=messages), ask, spans)
        else:
            found = parse_call(self._session, self._toolset, use, call, spans)
            slot.safe = found.is_safe
            spans.begin("order")
            run = CallRun(use, slot, found, ask, spans, goes_on=call.status == "running")
        self._writer.add(run, known=stored is not None)
        return run

    async def wait_for_calls(self) -> None:
        """Wait until every call has its result."""
        while not self._concurrency.done:
            await self._call_ended.wait()

    async def _wait_until_safe(self, run: CallRun) -> None:
        """Hold a call whose input has changed until it is safe beside the calls that run already."""
        if run.slot.safe or self._concurrency.may_go_on(run.slot):
            return
        run.slot.waits_alone = True
        while not self._concurrency.may_go_on(run.slot):
            await self._call_ended.wait()

    # Stopping.

    def interrupt(self, by: str) -> None:
        """Stop the calls that can be stopped, and start no more; the others finish. `by` says why, for the model."""
        self._close(f"{by} {BEFORE_START}", f"{by} {WHILE_RUNNING}")

    def stop_for_steer(self) -> None:
        """Stop the running calls that can be stopped, and drop those that wait: the model gets new input at once."""
        self._close(STEERED, STEERED)

    def _close(self, before_start: str, while_running: str) -> None:
        self._closed_reason = before_start
        for run in self._list_unfinished():
            if run.slot.state is CallState.WAITING:
                self._drop(run, before_start)
            elif not run.blocks_interrupt:
                self._stop(run, while_running if run.call.status == "running" else before_start)

    def cancel(self, run: CallRun, words: str) -> None:
        """Stop one call; the others go on, except that stopping a command stops the other commands, too."""
        if run.slot.state is CallState.WAITING:
            self._drop(run, words)
            self._stop_siblings(run)
            self.start_ready()
        elif not run.completed:
            self._stop(run, words)

    async def discard(self, words: str) -> None:
        """Stop all calls, since their message is discarded: none is delivered, and each is stored as ended."""
        self._closed_reason = words
        for run in self._list_unfinished():
            if run.slot.state is CallState.WAITING:
                self._drop(run, words)
            else:
                self._stop(run, words)
        with anyio.CancelScope(shield=True):
            await self.wait_for_calls()

    def _list_unfinished(self) -> Iterable[CallRun]:
        return [run for run in self.calls if run.slot.state is not CallState.DONE]

    def _stop(self, run: CallRun, words: str) -> None:
        run.stop_words = run.stop_words or words
        if run.handle is not None:
            run.handle.cancel()

    def _drop(self, run: CallRun, words: str) -> None:
        """End a call that never began."""
        run.stop_words = words
        self._pipeline.end_with_error(run, words)
        self._end_call(run)

    # Running.

    def start_ready(self) -> None:
        """Start the calls that are ready."""
        if self._closed_reason is not None:
            return
        for slot in self._concurrency.take_ready():
            run = self.calls[slot.index]
            run.handle = self._group.start_soon(self._run, run)

    async def _run(self, run: CallRun) -> None:
        try:
            authorized = await self._pipeline.authorize(run)
            if authorized is not None:
                run.spans.begin("order")
                await self._wait_until_safe(run)
                await self._pipeline.work(run, authorized)
        except asyncio.CancelledError:
            # Without a reason it is the daemon that stops: the next one finds the call as it is stored.
            if run.stop_words is not None:
                if not run.completed:
                    self._pipeline.end_stopped(run, run.stop_words)
                self._finish_call(run)
            raise
        finally:
            run.handle = None  # breaks a cycle: a cancelled task's exception has this frame, which has the call
        self._finish_call(run)

    def _finish_call(self, run: CallRun) -> None:
        """End a call that has run, and start those that are ready now."""
        self._end_call(run)
        self._stop_siblings(run)
        self.start_ready()

    def _end_call(self, run: CallRun) -> None:
        """Mark a call as done, apply its changes, and wake whoever waits for it."""
        run.slot.state = CallState.DONE
        if run.announcement is not None:
            run.announcement.cancel()
        self._pipeline.record_end(run)
        if isinstance(run.stage, Ended) and run.stage.changes:
            self._unapplied.append(run)
        self._apply_changes(run)
        self._call_ended.set()
        self._call_ended = asyncio.Event()

    def _stop_siblings(self, failed: CallRun) -> None:
        """Stop the other commands of the message when one has failed: they may build on what it did not do."""
        if not (failed.call.is_error and _is_shell(failed)) or self._shell_failure is not None:
            return
        words = self._shell_failure = f"Cancelled: parallel tool call {failed.call.summary[:100]} errored"
        for run in self._list_unfinished():
            if _is_shell(run) and run.slot.state is CallState.WAITING:
                self._drop(run, words)
            elif _is_shell(run):
                self._stop(run, words)

    def _apply_changes(self, ended: CallRun) -> None:
        """Apply the changes of an unsafe call at once; those of concurrent calls when all are done, in their order."""
        if not self._unapplied or (ended.slot.safe and self._concurrency.running):
            return
        changed, self._unapplied = sorted(self._unapplied, key=lambda done: done.slot.index), []
        for run in changed:
            assert isinstance(run.stage, Ended)
            for change in run.stage.changes:
                self._session.apply_change(change)


def _is_shell(run: CallRun) -> bool:
    return run.tool is not None and run.tool.shell.is_shell


@dataclass(slots=True)
class CallRunner:
    """Runs the calls of one turn: an executor for each message of the model's."""

    group: TaskGroup
    session: LiveSession
    state: TurnState
    asks: TurnAsks
    toolset: ToolSet
    config: Callable[[], Config]
    counts: ToolCounts
    executor: Executor | None = None
    """Of the message whose results are not stored yet."""

    def open(self, message_id: MessageId, draft: MessageDraft) -> Executor:
        """An executor for the calls of a message; those of the message before it have ended."""
        config = self.config()
        writer = CallWriter(self.session.journal, draft)
        authorizer = Authorizer(self.session, self.asks, self.state, writer, config.asks.expire_seconds)
        pipeline = Pipeline(self.session, authorizer, self.state, writer, config.results, self.counts)
        limit = config.turns.tool_concurrency
        turn_id = self.state.turn.id
        self.executor = Executor(self.group, self.session, self.toolset, pipeline, writer, message_id, turn_id, limit)
        return self.executor

    def interrupt(self, by: str) -> None:
        if self.executor is not None:
            self.executor.interrupt(by)

    def stop_for_steer(self) -> None:
        if self.executor is not None:
            self.executor.stop_for_steer()

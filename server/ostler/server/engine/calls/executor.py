"""Runs the calls of one assistant message: in the order of its blocks, concurrently where that is safe."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol.ids import MessageId, SessionId, TurnId, call_id
from ostler.protocol.shapes import Call
from ostler.server.engine.calls.concurrency import CallConcurrency, CallState
from ostler.server.engine.calls.pending_call import PendingCall
from ostler.server.engine.calls.pipeline import Pipeline
from ostler.server.models.assembler import ToolUse
from ostler.tools.tool import Change

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
        pipeline: Pipeline,
        message_id: MessageId,
        session_id: SessionId,
        turn_id: TurnId,
        limit: int,
        apply: Callable[[Change], None],
    ) -> None:
        self.message_id = message_id
        self.calls: list[PendingCall] = []
        self._group = group
        self._pipeline = pipeline
        self._session_id = session_id
        self._turn_id = turn_id
        self._concurrency = CallConcurrency(limit)
        self._apply = apply
        self._unapplied: list[PendingCall] = []
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
        return any(pending.started and not pending.only_reads for pending in self.calls)

    def add(self, use: ToolUse) -> None:
        """Add a call that the model has just finished writing, and start it where it is ready."""
        pending = self._add_pending(use, None)
        if self._closed_reason is not None or (self._shell_failure is not None and _is_shell(pending)):
            self._drop(pending, self._closed_reason or self._shell_failure or "")
            return
        self._start_ready()
        # The stored block of an unusable call has {} as its input: without this record a restart would run it.
        if pending.slot.state is CallState.WAITING or use.input_error is not None or self._pipeline.may_hold(pending):
            self._pipeline.announce(pending)
        else:
            # Most calls start at once, and both facts are written together.
            pending.announcement = asyncio.get_running_loop().call_later(
                _ANNOUNCE_SECONDS, self._pipeline.announce, pending
            )

    def restore(self, use: ToolUse, stored: Call | None) -> PendingCall:
        """Add a call from before a restart, as it was stored; `start_ready` starts those that wait."""
        pending = self._add_pending(use, stored)
        pending.queued = stored is not None
        pending.started = stored is not None and stored.started_at is not None
        if pending.completed:
            pending.slot.state = CallState.DONE
        return pending

    def start_ready(self) -> None:
        """Start the restored calls that are ready."""
        self._start_ready()

    def _add_pending(self, use: ToolUse, stored: Call | None) -> PendingCall:
        """Add a call at the end, with its tool looked up and its input parsed."""
        call = stored or Call(
            call_id=call_id(self.message_id, use.index),
            tool_use_id=use.id,
            session_id=self._session_id,
            turn_id=self._turn_id,
            tool=use.name[:200],
            input=use.input,
            summary=use.name[:200],
            status="queued",
        )
        previous = self.calls[-1] if self.calls else None
        pending = PendingCall(use, call, self._concurrency.add(safe=False), previous=previous)
        if not pending.completed:
            self._pipeline.look_up(pending)
            pending.slot.safe = pending.is_safe()
        self.calls.append(pending)
        return pending

    async def wait_for_calls(self) -> None:
        """Wait until every call has its result."""
        while not self._concurrency.done:
            await self._call_ended.wait()

    async def wait_until_safe(self, pending: PendingCall) -> None:
        """Hold a call whose input has changed until it is safe beside the calls that run already."""
        if pending.slot.safe or self._concurrency.may_go_on(pending.slot):
            return
        pending.slot.waits_alone = True
        while not self._concurrency.may_go_on(pending.slot):
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
        for pending in self._list_unfinished():
            if pending.slot.state is CallState.WAITING:
                self._drop(pending, before_start)
            elif not pending.blocks_interrupt:
                self._stop(pending, while_running if pending.call.status == "running" else before_start)

    def cancel(self, pending: PendingCall, words: str) -> None:
        """Stop one call; the others go on, except that stopping a command stops the other commands, too."""
        if pending.slot.state is CallState.WAITING:
            self._drop(pending, words)
            self._stop_siblings(pending)
            self._start_ready()
        elif not pending.completed:
            self._stop(pending, words)

    async def discard(self, words: str) -> None:
        """Stop all calls, since their message is discarded: none is delivered, and each is stored as ended."""
        self._closed_reason = words
        for pending in self._list_unfinished():
            if pending.slot.state is CallState.WAITING:
                self._drop(pending, words)
            else:
                self._stop(pending, words)
        with anyio.CancelScope(shield=True):
            await self.wait_for_calls()

    def _list_unfinished(self) -> Iterable[PendingCall]:
        return [pending for pending in self.calls if pending.slot.state is not CallState.DONE]

    def _stop(self, pending: PendingCall, words: str) -> None:
        pending.cancel_reason = pending.cancel_reason or words
        if pending.handle is not None:
            pending.handle.cancel()

    def _drop(self, pending: PendingCall, words: str) -> None:
        """End a call that never began."""
        pending.cancel_reason = words
        self._pipeline.complete_with_error(pending, words)
        self._end_call(pending)

    # Running.

    def _start_ready(self) -> None:
        if self._closed_reason is not None:
            return
        for slot in self._concurrency.take_ready():
            pending = self.calls[slot.index]
            pending.handle = self._group.start_soon(self._run, pending)

    async def _run(self, pending: PendingCall) -> None:
        try:
            await self._pipeline.process(pending, self.wait_until_safe)
        except asyncio.CancelledError:
            # Without a reason it is the daemon that stops: the next one finds the call as it is stored.
            if pending.cancel_reason is not None:
                if not pending.completed:
                    self._pipeline.complete_stopped(pending, pending.cancel_reason)
                self._finish_call(pending)
            raise
        finally:
            pending.handle = None  # breaks a cycle: a cancelled task's exception has this frame, which has the call
        self._finish_call(pending)

    def _finish_call(self, pending: PendingCall) -> None:
        """End a call that has run, and start those that are ready now."""
        self._end_call(pending)
        self._stop_siblings(pending)
        self._start_ready()

    def _end_call(self, pending: PendingCall) -> None:
        """Mark a call as done, apply its changes, and wake whoever waits for it."""
        pending.slot.state = CallState.DONE
        if pending.announcement is not None:
            pending.announcement.cancel()
        self._pipeline.record_end(pending)
        if pending.changes:
            self._unapplied.append(pending)
        self._apply_changes(pending)
        self._call_ended.set()
        self._call_ended = asyncio.Event()

    def _stop_siblings(self, failed: PendingCall) -> None:
        """Stop the other commands of the message when one has failed: they may build on what it did not do."""
        if not (failed.call.is_error and _is_shell(failed)) or self._shell_failure is not None:
            return
        words = self._shell_failure = f"Cancelled: parallel tool call {failed.call.summary[:100]} errored"
        for pending in self._list_unfinished():
            if _is_shell(pending) and pending.slot.state is CallState.WAITING:
                self._drop(pending, words)
            elif _is_shell(pending):
                self._stop(pending, words)

    def _apply_changes(self, pending: PendingCall) -> None:
        """Apply the changes of an unsafe call at once; those of concurrent calls when all are done, in their order."""
        if not self._unapplied or (pending.slot.safe and self._concurrency.running):
            return
        changed, self._unapplied = sorted(self._unapplied, key=lambda done: done.slot.index), []
        for done in changed:
            for change in done.changes:
                self._apply(change)
            done.changes = []


def _is_shell(pending: PendingCall) -> bool:
    return pending.tool is not None and pending.tool.shell.is_shell

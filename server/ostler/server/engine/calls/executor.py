"""Runs the calls of one assistant message: in the order of its blocks, beside each other where that is safe."""

import asyncio
from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskGroup

from ostler.protocol.ids import MessageId, SessionId, TurnId, call_id
from ostler.protocol.shapes import Call
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.pipeline import Pipeline
from ostler.server.engine.calls.schedule import Schedule, Stage
from ostler.server.models.assembler import ToolUse
from ostler.tools.tool import Change

BEFORE_START = "before it started."
WHILE_RUNNING = "before it was finished. It may have had a part of its effect."
STEERED = "Stopped, because the person said something meanwhile: read that first."
OUTCOME_UNKNOWN = "interrupted, outcome unknown: the daemon stopped while this ran. Check before doing it again."


class Executor:
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
        self.entries: list[Entry] = []
        self._group = group
        self._pipeline = pipeline
        self._session_id = session_id
        self._turn_id = turn_id
        self._schedule = Schedule(limit)
        self._apply = apply
        self._changed: list[Entry] = []
        """Those that are done and whose changes do not count yet."""
        self._moved = asyncio.Event()
        """Set, and replaced, whenever a call ends."""
        self._closed: str | None = None
        """Why nothing starts any more, for the model."""
        self._shell_failed: str | None = None
        """Why no further command starts, for the model."""

    @property
    def changed_something(self) -> bool:
        """A call that is not read-only has begun: the stream that asked for it cannot be taken back."""
        return any(entry.started and not entry.only_reads for entry in self.entries)

    def add(self, use: ToolUse) -> None:
        """A call that the model has just finished writing."""
        entry = self._entry(use, None)
        if self._closed is not None or (self._shell_failed is not None and _is_shell(entry)):
            self._drop(entry, self._closed or self._shell_failed or "")
            return
        self._advance()
        # Of one that cannot be run the block says nothing but {}: whoever finds only that would run it.
        if entry.slot.stage is Stage.WAITING or use.unusable is not None:
            entry.queued = True
            self._pipeline.session.journal.call_queued(entry.call, self._pipeline.draft(), use.unusable)

    def restore(self, use: ToolUse, stored: Call | None) -> Entry:
        """A call from before a restart, as it was stored; `go_on` starts what waits."""
        entry = self._entry(use, stored)
        entry.queued = stored is not None
        entry.started = stored is not None and stored.started_at is not None
        if entry.completed:
            entry.slot.stage = Stage.DONE
        return entry

    def go_on(self) -> None:
        self._advance()

    def _entry(self, use: ToolUse, stored: Call | None) -> Entry:
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
        entry = Entry(use, call, self._schedule.add(safe=False))
        if not entry.completed:
            self._pipeline.look_up(entry)
            entry.slot.safe = entry.is_safe()
        self.entries.append(entry)
        return entry

    async def finished(self) -> None:
        """Wait until every call has its result."""
        while not self._schedule.done:
            await self._moved.wait()

    async def clear_to_run(self, entry: Entry) -> None:
        """Hold a call whose new input is not safe beside what runs already."""
        if entry.slot.safe or self._schedule.may_go_on(entry.slot):
            return
        entry.slot.alone = True
        while not self._schedule.may_go_on(entry.slot):
            await self._moved.wait()

    # Stopping.

    def interrupt(self, by: str) -> None:
        """Stop what can be stopped; what must finish finishes, and nothing new starts. `by` says why, for the model."""
        self._close(f"{by} {BEFORE_START}", f"{by} {WHILE_RUNNING}")

    def make_room(self) -> None:
        """Stop the running calls that can be stopped, so that the person is heard at once; what waits is dropped."""
        self._close(STEERED, STEERED)

    def _close(self, before_start: str, while_running: str) -> None:
        self._closed = before_start
        for entry in self._unfinished():
            if entry.slot.stage is Stage.WAITING:
                self._drop(entry, before_start)
            elif not entry.finishes_first:
                self._stop(entry, while_running if entry.call.status == "running" else before_start)

    def cancel(self, entry: Entry, words: str) -> None:
        """Stop one call; the others go on, but for the commands where it is one."""
        if entry.slot.stage is Stage.WAITING:
            self._drop(entry, words)
            self._stop_siblings(entry)
            self._advance()
        elif not entry.completed:
            self._stop(entry, words)

    async def discard(self, words: str) -> None:
        """The message is taken back: nothing of it is delivered, and each of its calls gets an ending."""
        self._closed = words
        for entry in self._unfinished():
            if entry.slot.stage is Stage.WAITING:
                self._drop(entry, words)
            else:
                self._stop(entry, words)
        with anyio.CancelScope(shield=True):
            await self.finished()

    def _unfinished(self) -> Iterable[Entry]:
        return [entry for entry in self.entries if entry.slot.stage is not Stage.DONE]

    def _stop(self, entry: Entry, words: str) -> None:
        entry.stopped = entry.stopped or words
        if entry.running is not None:
            entry.running.cancel()

    def _drop(self, entry: Entry, words: str) -> None:
        """End a call that never began."""
        self._pipeline.complete_with_error(entry, words)
        self._end(entry)

    # Running.

    def _advance(self) -> None:
        if self._closed is not None:
            return
        for slot in self._schedule.take():
            entry = self.entries[slot.place]
            entry.running = self._group.start_soon(self._run, entry)

    async def _run(self, entry: Entry) -> None:
        try:
            await self._pipeline.process(entry, self.clear_to_run)
        except asyncio.CancelledError:
            # Without words it is the whole turn that ends, with the daemon: the next one finds the call as it is.
            if entry.stopped is not None:
                if not entry.completed:
                    self._pipeline.complete_stopped(entry, entry.stopped)
                self._over(entry)
            raise
        finally:
            entry.running = None  # where it was cancelled, its exception has this frame, which has the entry
        self._over(entry)

    def _over(self, entry: Entry) -> None:
        self._end(entry)
        self._stop_siblings(entry)
        self._advance()

    def _end(self, entry: Entry) -> None:
        entry.slot.stage = Stage.DONE
        self._pipeline.over(entry)
        if entry.changes:
            self._changed.append(entry)
        self._apply_changes(entry)
        self._moved.set()
        self._moved = asyncio.Event()

    def _stop_siblings(self, failed: Entry) -> None:
        """Commands of one message belong together: when one fails, the others would work on sand."""
        if not (failed.call.is_error and _is_shell(failed)) or self._shell_failed is not None:
            return
        words = self._shell_failed = f"Cancelled: parallel tool call {failed.call.summary[:100]} errored"
        for entry in self._unfinished():
            if _is_shell(entry) and entry.slot.stage is Stage.WAITING:
                self._drop(entry, words)
            elif _is_shell(entry):
                self._stop(entry, words)

    def _apply_changes(self, entry: Entry) -> None:
        """An unsafe call's changes count at once; those of calls beside each other in the order of the calls."""
        if not self._changed or (entry.slot.safe and self._schedule.running):
            return
        changed, self._changed = sorted(self._changed, key=lambda done: done.slot.place), []
        for done in changed:
            for change in done.changes:
                self._apply(change)
            done.changes = []


def _is_shell(entry: Entry) -> bool:
    return entry.tool is not None and entry.tool.is_shell

"""A background task that runs: its output is polled until it ends, whichever daemon started it."""

from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from ostler.protocol import times
from ostler.protocol.events import TaskOutput
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.monitor import LineMonitor
from ostler.server.engine.tasks.output_files import decode_part
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.fs.text_file import format_size
from ostler.tools.shell.output.output_file import MAX_BYTES, OutputFile
from ostler.tools.threads import read_in_thread

_POLL_SECONDS: Final = 0.25
_TRIM_BYTES: Final = 8 * 1024 * 1024
"""New output after which the file is trimmed."""


class TaskSource(Protocol):
    """What a task watches: it prints to a file until it ends, or is ended."""

    @property
    def output(self) -> OutputFile: ...

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        ...

    async def wait(self) -> None:
        """Wait until it ends by itself; cancelled where the task is stopped."""

    async def end(self) -> None:
        """End whatever still runs of it."""

    async def build_outcome(self, task: Task, size: int) -> Task:
        """The last state of the task, after it has ended by itself."""
        ...


@dataclass(slots=True)
class RunningTask:
    record: TaskRecord
    source: TaskSource
    scope: Scope
    log: EventLog
    monitor: LineMonitor | None = None
    """Reads the lines, where the task is a monitor."""
    end_stored: anyio.Event = field(default_factory=anyio.Event)
    """Set when its end is stored."""
    _stop_reason: str | None = None
    """Why it is being stopped, where it is."""
    _end_due: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended, or is to be stopped."""
    _sent_bytes: int = 0
    _trimmed_bytes: int = 0

    @property
    def task(self) -> Task:
        return self.record.task

    def stop(self, why: str) -> None:
        if not self.source.ended:
            self._stop_reason = self._stop_reason or why
        self._end_due.set()

    async def watch(self) -> Task:
        """Watch it until its end; returns the task with its last state."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._wait_for_end)
            while not self._end_due.is_set():
                with anyio.move_on_after(_POLL_SECONDS):
                    await self._end_due.wait()
                await self._poll_output()
            group.cancel_scope.cancel()
        await self.source.end()
        await self._send_output(last=True)
        if self.monitor is not None:
            await self.monitor.read_remaining_lines()
        return await self._build_outcome()

    async def _wait_for_end(self) -> None:
        await self.source.wait()
        self._end_due.set()

    async def _poll_output(self) -> None:
        size = self.source.output.size
        if size > MAX_BYTES:
            self.stop(f"It printed more than {format_size(MAX_BYTES)}.")
        if self.record.ends_at is not None and times.now() >= self.record.ends_at:
            self.stop("Its time is over.")
        if size != self._sent_bytes:
            await self._send_output()
        if self.monitor is not None and self.monitor.has_unread(size) and await self.monitor.read_new_lines():
            self._end_due.set()

    async def _send_output(self, *, last: bool = False) -> None:
        """Send new output to the clients that follow; of very much only the end."""
        new = await read_in_thread(self.source.output.read_newest, self._sent_bytes)
        part = decode_part(self._sent_bytes, new, whole=last)
        if not part.text:
            return
        self._sent_bytes = part.end
        event = TaskOutput(task_id=self.task.id, offset=part.offset, text=part.text)
        self.log.publish_transient("task.output", self.scope, event)
        if self._sent_bytes - self._trimmed_bytes > _TRIM_BYTES:
            self._trimmed_bytes = self._sent_bytes
            await read_in_thread(self.source.output.trim)

    async def _build_outcome(self) -> Task:
        size = self.source.output.size
        if self.monitor is not None and self.monitor.satisfied:
            return outcome.mark_satisfied(self.task, size)
        if self._stop_reason is not None:
            return outcome.mark_stopped(self.task, self._stop_reason, size)
        return await self.source.build_outcome(self.task, size)

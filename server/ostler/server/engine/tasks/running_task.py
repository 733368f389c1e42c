"""Something that goes on behind its call: looked at until it ends, whoever started it and whichever daemon."""

from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from ostler.protocol import times
from ostler.protocol.events import TaskOutput
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.monitor import Ear
from ostler.server.engine.tasks.output_files import decoded
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.fs.text_file import size_in_words
from ostler.tools.shell.output.output_file import MAX_BYTES, OutputFile
from ostler.tools.threads import read_in_thread

_LOOK_SECONDS: Final = 0.25
_TRIM_BYTES: Final = 8 * 1024 * 1024
"""New output after which the file is looked at for what can be given back."""


class Source(Protocol):
    """What a task looks after: it prints to a file until it ends, or is ended."""

    @property
    def output(self) -> OutputFile: ...

    @property
    def ended(self) -> bool:
        """By itself."""
        ...

    async def wait(self) -> None:
        """Until it ends by itself; cancelled where somebody else ends it."""

    async def end(self) -> None:
        """End whatever is alive of it."""

    async def outcome(self, task: Task, size: int) -> Task:
        """The task as it is after it has ended by itself."""
        ...


@dataclass(slots=True)
class RunningTask:
    record: TaskRecord
    source: Source
    scope: Scope
    log: EventLog
    ear: Ear | None = None
    """Of a monitor."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Its end is stored."""
    _stopped: str | None = None
    """Why it is being ended, where somebody wants that."""
    _due: anyio.Event = field(default_factory=anyio.Event)
    """It has ended, or is to end."""
    _seen: int = 0
    _trimmed: int = 0

    @property
    def task(self) -> Task:
        return self.record.task

    def stop(self, why: str) -> None:
        if not self.source.ended:
            self._stopped = self._stopped or why
        self._due.set()

    async def watch(self) -> Task:
        """Until its end; returns the task as it is then."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_it_ends)
            while not self._due.is_set():
                with anyio.move_on_after(_LOOK_SECONDS):
                    await self._due.wait()
                await self._look()
            group.cancel_scope.cancel()
        await self.source.end()
        await self._tell(last=True)
        if self.ear is not None:
            await self.ear.hear_rest()
        return await self._ended()

    async def _until_it_ends(self) -> None:
        await self.source.wait()
        self._due.set()

    async def _look(self) -> None:
        size = self.source.output.size
        if size > MAX_BYTES:
            self.stop(f"It printed more than {size_in_words(MAX_BYTES)}.")
        if self.record.ends_at is not None and times.now() >= self.record.ends_at:
            self.stop("Its time is over.")
        if size != self._seen:
            await self._tell()
        if self.ear is not None and self.ear.wants(size) and await self.ear.hear():
            self._due.set()

    async def _tell(self, *, last: bool = False) -> None:
        """What is new, to whoever watches; of very much only the end."""
        new = await read_in_thread(self.source.output.newest, self._seen)
        part = decoded(self._seen, new, whole=last)
        if not part.text:
            return
        self._seen = part.end
        said = TaskOutput(task_id=self.task.id, offset=part.offset, text=part.text)
        self.log.say("task.output", self.scope, said)
        if self._seen - self._trimmed > _TRIM_BYTES:
            self._trimmed = self._seen
            await read_in_thread(self.source.output.trim)

    async def _ended(self) -> Task:
        size = self.source.output.size
        if self.ear is not None and self.ear.satisfied:
            return outcome.satisfied(self.task, size)
        if self._stopped is not None:
            return outcome.stopped(self.task, self._stopped, size)
        return await self.source.outcome(self.task, size)

"""A resource of an MCP server as the source of a task: what is new in it is printed to a file."""

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.protocol.shapes import Task, TaskResource
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.output_files import opened, remove, seen_draft, seen_path
from ostler.server.mcp.connection import Connection, NotThere, Refused, Unreachable
from ostler.server.mcp.connections import Lease, McpRoom, Want
from ostler.server.observability import logs
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.process.environment import output_prefix
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import change_in_thread, read_in_thread

_LEAST_SECONDS: Final = 0.2
"""Between two looks, however often the server says that something changed."""
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0
_TRIES: Final = 6
"""In a row, until it is given up: half a minute after the first."""
_SOUND_SECONDS: Final = 60.0
"""A connection that lasted as long is lost for the first time."""


@dataclass(slots=True)
class Following:
    resource: TaskResource
    want: Want
    call_id: CallId
    room: McpRoom
    output: OutputFile
    seen: str | None = None
    """The text as it was at the last look; null: nobody knows."""
    _lease: Lease | None = None
    _trouble: str | None = None
    """Why it has ended by itself."""

    @classmethod
    async def begin(cls, room: McpRoom, want: Want, call_id: CallId, uri: str, folder: Path) -> "Following":
        """Speaks with the server once, so that what cannot be watched is known at once.

        Raises Unreachable, and OSError where nothing can be kept.
        """
        lease = await room.lease(want)
        found: Following | None = None
        try:
            text = await lease.connection.read(uri)
            # Shielded: a file that is made for a call that ends meanwhile would be nobody's.
            with anyio.CancelScope(shield=True):
                output = await change_in_thread(OutputFile.create, folder, output_prefix(call_id))
                resource = TaskResource(server=want.server, digest=want.digest, uri=uri)
                found = cls(resource, want, call_id, room, output, _lease=lease)
                await found._remember(text)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await (lease.give_back() if found is None else found.drop())
            raise
        assert found is not None
        return found

    @classmethod
    async def again(cls, room: McpRoom, record: TaskRecord) -> "Following | None":
        """What an earlier daemon watched; null where the task is about something else."""
        task = record.task
        if task.resource is None or task.call_id is None or record.output is None:
            return None
        output, seen = await read_in_thread(_left, record.output)
        want = Want(task.session_id, task.resource.server, task.resource.digest)
        return cls(task.resource, want, task.call_id, room, output, seen)

    # What a task wants of its source.

    @property
    def ended(self) -> bool:
        return self._trouble is not None

    async def wait(self) -> None:
        tries, wait = 0, _FIRST_WAIT
        try:
            while True:
                began = anyio.current_time()
                try:
                    await self._follow()
                except (Unreachable, OSError) as error:
                    if anyio.current_time() - began > _SOUND_SECONDS:
                        tries, wait = 0, _FIRST_WAIT
                    tries += 1
                    if await self._given_up(error, tries):
                        return
                await anyio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
        finally:
            await self._give_back()

    async def _given_up(self, error: Unreachable | OSError, tries: int) -> bool:
        """Whether it is not to be tried again."""
        logs.log.info("resource_not_seen", server=self.want.server, tries=tries, reason=str(error))
        if tries == _TRIES or isinstance(error, NotThere):
            self._trouble = why_not(error)
            return True
        if not isinstance(error, Refused | OSError):
            await self._give_back(broken=True)
        return False

    async def _follow(self) -> None:
        lease = self._lease = self._lease or await self.room.lease(self.want)
        async with lease.connection.changes(self.resource.uri) as next_change:
            while True:
                await self._look(lease.connection)
                await anyio.sleep(_LEAST_SECONDS)
                await next_change()

    async def end(self) -> None:
        await self._give_back()

    async def outcome(self, task: Task, size: int) -> Task:
        return outcome.failed(task, self._trouble or outcome.GONE, size)

    async def drop(self) -> None:
        """It did not become a task."""
        await self._give_back()
        self.output.close()
        await change_in_thread(remove, [self.output.path])

    # Looking.

    async def _look(self, connection: Connection) -> None:
        text = await connection.read(self.resource.uri)
        if text == self.seen:
            return
        if self.seen is not None:
            # In this order: where the daemon dies in between, something is told twice rather than never.
            await change_in_thread(_print_new, self.output.descriptor, self.seen, text)
        await self._remember(text)

    async def _remember(self, text: str) -> None:
        await change_in_thread(_write_seen, self.output.path, text)
        self.seen = text

    async def _give_back(self, *, broken: bool = False) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            with anyio.CancelScope(shield=True):
                await lease.give_back(broken=broken)


def why_not(error: Unreachable | OSError) -> str:
    if isinstance(error, OSError):
        return f"What is seen cannot be kept: {error.strerror}."
    return str(error)


def new_lines(before: str, now: str) -> list[str]:
    """The lines that stand there more often than before, in their order."""
    known = Counter(before.split("\n"))
    found: list[str] = []
    for line in now.removesuffix("\n").split("\n"):
        if known[line]:
            known[line] -= 1
        else:
            found.append(line)
    return found or ["(lines were removed)"]


def _print_new(descriptor: int, before: str, now: str) -> None:
    text = "".join(f"{line}\n" for line in new_lines(before, now))
    rest, place = memoryview(text.encode("utf-8", "replace")), os.fstat(descriptor).st_size
    while rest:
        written = os.pwrite(descriptor, rest, place)
        rest, place = rest[written:], place + written


def _write_seen(path: str, text: str) -> None:
    draft = seen_draft(path)
    Path(draft).write_text(text, "utf-8", "replace", newline="")
    os.replace(draft, seen_path(path))


def _left(path: str) -> tuple[OutputFile, str | None]:
    seen: str | None = None
    with contextlib.suppress(OSError):
        seen = Path(seen_path(path)).read_bytes().decode("utf-8", "replace")
    return opened(path), seen

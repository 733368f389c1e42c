"""A resource of an MCP server as the source of a background task: its new lines are appended to a file."""

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from ostler.protocol.backoff import Backoff
from ostler.protocol.ids import CallId
from ostler.protocol.shapes import Task, TaskResource
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.output_files import (
    make_seen_draft_path,
    make_seen_path,
    open_or_create,
    remove_output_files,
)
from ostler.server.mcp.connection import Connection, NoSuchServer, Refused, Unreachable
from ostler.server.mcp.connections import Lease, McpConnections, ServerKey
from ostler.server.observability import logs
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.process.environment import build_output_prefix
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import change_in_thread, read_in_thread

_MIN_READ_INTERVAL: Final = 0.2
"""Between two reads, however often the server says that something changed."""
_BACKOFF: Final = Backoff(first_seconds=1.0, most_seconds=30.0)
_MAX_TRIES: Final = 6
"""Failures in a row before it gives up: half a minute after the first."""
_STABLE_SECONDS: Final = 60.0
"""After a connection that lasted as long, failures are counted from one again."""


@dataclass(slots=True)
class McpResourceSource:
    """Follows one resource: reads it after each change, and appends what is new to the output file."""

    resource: TaskResource
    want: ServerKey
    call_id: CallId
    connections: McpConnections
    output: OutputFile
    last_text: str | None = None
    """The text at the last read; None where it is not known."""
    _lease: Lease | None = None
    _failure: str | None = None
    """Why it ended by itself."""

    @classmethod
    async def begin(
        cls, connections: McpConnections, want: ServerKey, call_id: CallId, uri: str, folder: Path
    ) -> "McpResourceSource":
        """Reads the resource once, so that one that cannot be watched fails at once.

        Raises Unreachable, and OSError where the text cannot be stored.
        """
        lease = await connections.lease(want)
        source: McpResourceSource | None = None
        try:
            text = await lease.connection.read(uri)
            # Shielded: where the call is cancelled meanwhile, nobody would remove the new file.
            with anyio.CancelScope(shield=True):
                output = await change_in_thread(OutputFile.create, folder, build_output_prefix(call_id))
                resource = TaskResource(server=want.server, digest=want.digest, uri=uri)
                source = cls(resource, want, call_id, connections, output, _lease=lease)
                await source._store_text(text)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await (lease.release() if source is None else source.discard())
            raise
        assert source is not None
        return source

    @classmethod
    async def resume(cls, connections: McpConnections, record: TaskRecord) -> "McpResourceSource | None":
        """Resume what an earlier daemon followed; None where the task has another kind of source."""
        task = record.task
        if task.resource is None or task.call_id is None or record.output is None:
            return None
        output, last_text = await read_in_thread(_open_left, record.output)
        want = ServerKey(task.session_id, task.resource.server, task.resource.digest)
        return cls(task.resource, want, task.call_id, connections, output, last_text)

    # The source of a task (see running_task.py).

    @property
    def ended(self) -> bool:
        return self._failure is not None

    async def wait(self) -> None:
        tries = 0
        try:
            while True:
                began = anyio.current_time()
                try:
                    await self._follow()
                except (Unreachable, OSError) as error:
                    if anyio.current_time() - began > _STABLE_SECONDS:
                        tries = 0
                    tries += 1
                    if await self._handle_failure(error, tries):
                        return
                await anyio.sleep(_BACKOFF.compute_wait(tries))
        finally:
            await self._release_lease()

    async def _handle_failure(self, error: Unreachable | OSError, tries: int) -> bool:
        """True where it gives up, false where it is to be tried again."""
        logs.log.info("resource_not_seen", server=self.want.server, tries=tries, reason=str(error))
        if tries == _MAX_TRIES or isinstance(error, NoSuchServer):
            self._failure = describe_failure(error)
            return True
        if not isinstance(error, Refused | OSError):
            await self._release_lease(broken=True)
        return False

    async def _follow(self) -> None:
        lease = self._lease = self._lease or await self.connections.lease(self.want)
        async with lease.connection.watch_changes(self.resource.uri) as next_change:
            while True:
                await self._read_changes(lease.connection)
                await anyio.sleep(_MIN_READ_INTERVAL)
                await next_change()

    async def end(self) -> None:
        await self._release_lease()

    async def build_outcome(self, task: Task, size: int) -> Task:
        return outcome.mark_failed(task, self._failure or outcome.GONE_AFTER_RESTART, size)

    async def discard(self) -> None:
        """Release the lease and remove the file, where it did not become a task."""
        await self._release_lease()
        self.output.close()
        await change_in_thread(remove_output_files, [self.output.path])

    # Reading.

    async def _read_changes(self, connection: Connection) -> None:
        text = await connection.read(self.resource.uri)
        if text == self.last_text:
            return
        if self.last_text is not None:
            # In this order: where the daemon dies in between, lines are sent twice rather than never.
            await change_in_thread(_append_new_lines, self.output.descriptor, self.last_text, text)
        await self._store_text(text)

    async def _store_text(self, text: str) -> None:
        await change_in_thread(_write_last_text, self.output.path, text)
        self.last_text = text

    async def _release_lease(self, *, broken: bool = False) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            with anyio.CancelScope(shield=True):
                await lease.release(broken=broken)


def describe_failure(error: Unreachable | OSError) -> str:
    if isinstance(error, OSError):
        return f"What is seen cannot be kept: {error.strerror}."
    return str(error)


def find_new_lines(before: str, now: str) -> list[str]:
    """The lines that occur more often than before, in their order."""
    known = Counter(before.split("\n"))
    found: list[str] = []
    for line in now.removesuffix("\n").split("\n"):
        if known[line]:
            known[line] -= 1
        else:
            found.append(line)
    return found or ["(lines were removed)"]


def _append_new_lines(descriptor: int, before: str, now: str) -> None:
    text = "".join(f"{line}\n" for line in find_new_lines(before, now))
    rest, position = memoryview(text.encode("utf-8", "replace")), os.fstat(descriptor).st_size
    while rest:
        written = os.pwrite(descriptor, rest, position)
        rest, position = rest[written:], position + written


def _write_last_text(path: str, text: str) -> None:
    draft = make_seen_draft_path(path)
    Path(draft).write_text(text, "utf-8", "replace", newline="")
    os.replace(draft, make_seen_path(path))


def _open_left(path: str) -> tuple[OutputFile, str | None]:
    last_text: str | None = None
    with contextlib.suppress(OSError):
        last_text = Path(make_seen_path(path)).read_bytes().decode("utf-8", "replace")
    return open_or_create(path), last_text

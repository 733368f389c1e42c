"""The tasks of one session, as its tools use them: implements `ostler.tools.services.Tasks`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.errors import TaskNotFound
from ostler.protocol.ids import CallId, TaskId
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks.mcp_resource_source import McpResourceSource, describe_failure
from ostler.server.engine.tasks.output_files import OutputPart
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.mcp.connection import Unreachable
from ostler.server.mcp.connections import ServerKey
from ostler.storage import Scope
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.services import (
    BackgroundedBy,
    McpResource,
    NotWatchable,
    RunningCommand,
    TaskSnapshot,
    WatchSpec,
)

_MAX_TASKS: Final = 1_000
_MAX_LINE_CHARS: Final = 64 * 1024
_END_STORED_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class SessionTasks:
    """See `ostler.tools.services.Tasks`."""

    registry: TaskRegistry
    scope: Scope
    tool_use_id: str
    """Of the call that uses them."""
    enabled: bool

    async def adopt(self, running: RunningCommand, by: BackgroundedBy) -> TaskId:
        return (await self.registry.adopt(self.scope, running, self.tool_use_id)).task.id

    async def monitor(self, running: RunningCommand, watch: WatchSpec) -> TaskId:
        return (await self.registry.adopt(self.scope, running, self.tool_use_id, watch)).task.id

    async def follow(self, call_id: CallId, resource: McpResource, description: str, watch: WatchSpec) -> TaskId:
        assert self.scope.session_id is not None
        want = ServerKey(self.scope.session_id, resource.server, resource.digest)
        try:
            source = await McpResourceSource.begin(
                self.registry.servers, want, call_id, resource.uri, self.registry.folder
            )
        except (Unreachable, OSError) as error:
            raise NotWatchable(describe_failure(error)) from error
        return (await self.registry.follow(self.scope, source, description, self.tool_use_id, watch)).task.id

    async def list_tasks(self) -> Sequence[Task]:
        assert self.scope.session_id is not None
        return [
            record.task for record in await self.registry.list_page([self.scope.session_id], None, None, _MAX_TASKS)
        ]

    async def poll(
        self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False
    ) -> TaskSnapshot | None:
        """What is new since the last read; waits for its end, if a time is given."""
        record = await self._find(task_id)
        if record is None:
            return None
        if record.task.ended_at is not None:
            # The notification of its end is queued a moment after the end is stored: wait, so that it can be dropped.
            record = await self.registry.wait(task_id, _END_STORED_SECONDS)
        elif seconds > 0:
            record = await self.registry.wait(task_id, seconds)
        new = await self.registry.read_output(record, record.read_bytes, most)
        if whole_lines and (new.end < record.task.output_bytes or record.task.ended_at is None):
            new = _keep_whole_lines(new)
        if new.end > record.read_bytes:
            assert self.scope.session_id is not None
            self.registry.notifications.record_read(self.scope.session_id, task_id, record.read_bytes)
            await self.registry.mark_read(task_id, new.end)
        return TaskSnapshot(record.task, new.text, has_more=new.end < record.task.output_bytes)

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        record = await self._find(task_id)
        if record is None:
            return None
        if record.task.status in {"pending", "running"}:
            record = await self.registry.stop(task_id, why)
        return record.task

    async def _find(self, task_id: TaskId) -> TaskRecord | None:
        """Only its own: a session cannot see the tasks of others."""
        try:
            record = await self.registry.find(task_id)
        except TaskNotFound:
            return None
        return record if record.task.session_id == self.scope.session_id else None


def _keep_whole_lines(part: OutputPart) -> OutputPart:
    """Without an incomplete line at the end."""
    kept = part.text[: part.text.rfind("\n") + 1]
    rest = part.text[len(kept) :]
    # Where the number of bytes is not known, or the line is too long, the text is taken as it is.
    if "\ufffd" in rest or len(rest) >= _MAX_LINE_CHARS:
        return part
    return OutputPart(part.offset, kept, part.end - len(rest.encode()))

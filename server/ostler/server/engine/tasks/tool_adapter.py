"""The tasks of one session, as its tools see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.errors import TaskNotFound
from ostler.protocol.ids import CallId, TaskId
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks.mcp_resource_source import Following, why_not
from ostler.server.engine.tasks.output_files import Part
from ostler.server.engine.tasks.registry import TaskDesk
from ostler.server.mcp.connection import Unreachable
from ostler.server.mcp.connections import Want
from ostler.storage import Scope
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.services import NotWatchable, Resource, TaskLook, Watch
from ostler.tools.shell.running.command import BackgroundedBy, RunningCommand

_MOST_KNOWN: Final = 1_000
_LONG_LINE: Final = 64 * 1024
_MOMENT: Final = 5.0


@dataclass(frozen=True, slots=True)
class SessionTasks:
    """See `ostler.tools.context.Tasks`."""

    desk: TaskDesk
    scope: Scope
    tool_use_id: str
    """Of the call that sees them."""
    enabled: bool

    async def adopt(self, running: RunningCommand, by: BackgroundedBy) -> TaskId:
        return (await self.desk.adopt(self.scope, running, self.tool_use_id)).task.id

    async def monitor(self, running: RunningCommand, watch: Watch) -> TaskId:
        return (await self.desk.adopt(self.scope, running, self.tool_use_id, watch)).task.id

    async def follow(self, call_id: CallId, resource: Resource, description: str, watch: Watch) -> TaskId:
        assert self.scope.session_id is not None
        want = Want(self.scope.session_id, resource.server, resource.digest)
        try:
            following = await Following.begin(self.desk.servers, want, call_id, resource.uri, self.desk.folder)
        except (Unreachable, OSError) as error:
            raise NotWatchable(why_not(error)) from error
        return (await self.desk.follow(self.scope, following, description, self.tool_use_id, watch)).task.id

    async def known(self) -> Sequence[Task]:
        assert self.scope.session_id is not None
        return [record.task for record in await self.desk.page([self.scope.session_id], None, None, _MOST_KNOWN)]

    async def look(self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False) -> TaskLook | None:
        """What is new since the last look; waits for its end, if a time is given."""
        record = await self._find(task_id)
        if record is None:
            return None
        if record.task.ended_at is not None:
            # What is told of its end comes a moment after it is stored; who has seen the end is not told once more.
            record = await self.desk.wait(task_id, _MOMENT)
        elif seconds > 0:
            record = await self.desk.wait(task_id, seconds)
        new = await self.desk.output(record, record.read_bytes, most)
        if whole_lines and (new.end < record.task.output_bytes or record.task.ended_at is None):
            new = _whole_lines(new)
        if new.end > record.read_bytes:
            assert self.scope.session_id is not None
            self.desk.news.looked(self.scope.session_id, task_id, record.read_bytes)
            await self.desk.read_by_model(task_id, new.end)
        return TaskLook(record.task, new.text, more=new.end < record.task.output_bytes)

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        record = await self._find(task_id)
        if record is None:
            return None
        if record.task.status in {"pending", "running"}:
            record = await self.desk.stop(task_id, why)
        return record.task

    async def _find(self, task_id: TaskId) -> TaskRecord | None:
        """Only its own: a session knows nothing of its neighbours'."""
        try:
            record = await self.desk.find(task_id)
        except TaskNotFound:
            return None
        return record if record.task.session_id == self.scope.session_id else None


def _whole_lines(part: Part) -> Part:
    """Without the beginning of a line whose end is still to come."""
    kept = part.text[: part.text.rfind("\n") + 1]
    rest = part.text[len(kept) :]
    # Where it cannot be told how many bytes that is, or a line does not end at all, it is taken as it is.
    if "\ufffd" in rest or len(rest) >= _LONG_LINE:
        return part
    return Part(part.offset, kept, part.end - len(rest.encode()))

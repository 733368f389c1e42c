"""The handlers of the task methods: list, get, output, wait, stop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.methods import TASK_LIST
from ostler.protocol.shapes import Task
from ostler.protocol.task import TaskList, TaskPage, TaskPart, TaskRead, TaskRef, TaskWait
from ostler.server.engine.engine import Engine
from ostler.server.rpc.paging import make_page_token, parse_page_token

_STOPPED_BY_PERSON: Final = "It was stopped by the person."


@dataclass(frozen=True, slots=True)
class TaskMethods:
    engine: Engine

    async def list(self, params: TaskList) -> TaskPage:
        after = parse_page_token(TASK_LIST.name, params, params.page, (int,))
        family = await self._find_family(params.session_id) if params.session_id is not None else None
        place = Cursor(after[0]) if after else None
        found = await self.engine.tasks.list_page(family, params.status, place, params.limit + 1)
        page = found[: params.limit]
        token = make_page_token(TASK_LIST.name, params, [page[-1].cursor]) if len(found) > params.limit else None
        return TaskPage(tasks=[record.task for record in page], next=token)

    async def get(self, params: TaskRef) -> Task:
        return (await self.engine.tasks.find(params.task_id)).task

    async def output(self, params: TaskRead) -> TaskPart:
        # The state is read first: where the task has ended by then, the output that is read after it is complete.
        record = await self.engine.tasks.find(params.task_id)
        part = await self.engine.tasks.read_output(record, params.offset, params.limit)
        return TaskPart(task=record.task, offset=part.offset, output=part.text, next_offset=part.end)

    async def wait(self, params: TaskWait) -> Task:
        return (await self.engine.tasks.wait(params.task_id, params.timeout_ms / 1000)).task

    async def stop(self, params: TaskRef) -> Task:
        return (await self.engine.tasks.stop(params.task_id, _STOPPED_BY_PERSON)).task

    async def _find_family(self, session_id: SessionId) -> Sequence[SessionId]:
        """The session and its agents. Raises SessionNotFound."""
        await self.engine.log.read(lambda snapshot: snapshot.sessions.get(session_id))
        members = await self.engine.log.read(lambda snapshot: snapshot.sessions.list_family(session_id))
        return [member.id for member in members]

"""Tasks after a restart: what still runs is taken over, what is gone left its exit code, or nobody knows."""

import sqlite3
import time
from dataclasses import dataclass

from ostler.protocol.ids import CallId, SessionId
from ostler.server.engine.tasks.command_source import CommandSource
from ostler.server.engine.tasks.mcp_resource_source import Following
from ostler.server.engine.tasks.notifications import end_of
from ostler.server.engine.tasks.output_files import opened, strays
from ostler.server.engine.tasks.registry import TaskDesk
from ostler.server.engine.tasks.running_task import RunningTask
from ostler.server.observability import logs
from ostler.storage import Scope
from ostler.storage.repositories import sessions, tasks
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.process import process
from ostler.tools.sandbox import hold_again
from ostler.tools.shell.running.command import RunningCommand
from ostler.tools.shell.running.launch import held_note
from ostler.tools.threads import read_in_thread


@dataclass(frozen=True, slots=True)
class _Left:
    """What an earlier daemon left."""

    unfinished: list[TaskRecord]
    untold: list[TaskRecord]
    roots: dict[SessionId, SessionId]
    to_wake: list[SessionId]
    """Sessions that want to hear of the end of a task at once."""
    outputs: set[str]


async def recover(desk: TaskDesk) -> list[str]:
    """Returns when every task that runs is looked after; what is gone is brought in order behind that.

    Tells the files that are nobody's: they are to be removed when what still writes to them has been ended.
    """
    began = time.monotonic()
    left = await desk.log.read(_look)
    for record in left.untold:
        await desk.hear_rest(record)
        desk.news.add(record.task.session_id, end_of(record.task))
    for record in left.unfinished:
        await _take_over(desk, record, left.roots.get(record.task.session_id, record.task.session_id))
    for session_id in left.to_wake:
        desk.on_news(session_id)
    if left.unfinished:
        took = int((time.monotonic() - began) * 1000)
        logs.log.info("tasks_recovered", tasks=len(left.unfinished), milliseconds=took)
    return await read_in_thread(strays, desk.folder, left.outputs)


def _look(connection: sqlite3.Connection) -> _Left:
    unfinished, untold = tasks.unfinished(connection), tasks.untold(connection)
    roots = sessions.roots_of(connection, {record.task.session_id for record in unfinished})
    owners = (sessions.find(connection, session_id) for session_id in {record.task.session_id for record in untold})
    to_wake = [owner.id for owner in owners if owner is not None and owner.options.get("wake_on_task_end")]
    return _Left(unfinished, untold, roots, to_wake, tasks.outputs(connection))


async def _take_over(desk: TaskDesk, record: TaskRecord, root_id: SessionId) -> None:
    scope = Scope(record.task.session_id, root_id, record.turn_id)
    source = await Following.again(desk.servers, record) or await _still_running(record)
    if source is not None:
        desk.look_after(RunningTask(record, source, scope, desk.log))
    else:
        desk.bury(record, scope)


async def _still_running(record: TaskRecord) -> CommandSource | None:
    task = record.task
    if record.pid is None or record.start_time is None or record.output is None:
        return None
    child = process.adopt(record.pid, record.start_time)
    if child is None:
        return None
    output = await read_in_thread(opened, record.output)
    held = await read_in_thread(hold_again, held_note(record.output))
    call_id = task.call_id or CallId("")
    running = RunningCommand(call_id, task.command or "", task.description, "", output, child, held=held)
    return CommandSource(running)

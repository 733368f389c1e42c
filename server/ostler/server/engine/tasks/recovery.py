"""Recovers tasks after a restart: takes over what still runs, and finds out how the others ended."""

import time
from dataclasses import dataclass

from ostler.protocol.ids import CallId, SessionId
from ostler.server.engine.tasks.command_source import CommandSource
from ostler.server.engine.tasks.mcp_resource_source import McpResourceSource
from ostler.server.engine.tasks.notifications import build_end_notification, wakes_session
from ostler.server.engine.tasks.output_files import find_strays, open_or_create
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.engine.tasks.running_task import RunningTask, TaskSource
from ostler.server.observability import logs
from ostler.storage import Scope, Snapshot
from ostler.storage.repositories.tasks import TaskRecord, TaskReport
from ostler.tools.process import process
from ostler.tools.sandbox import rehold_placeholders
from ostler.tools.sandbox.kernel.limits import LimitWatch
from ostler.tools.shell.running.command import RunningCommand
from ostler.tools.shell.running.launch import build_note_path
from ostler.tools.threads import read_in_thread
from ostler.tools.tool_config import NO_LIMITS


@dataclass(frozen=True, slots=True)
class _LeftTasks:
    """The tasks that an earlier daemon left."""

    unfinished: list[TaskRecord]
    untold: list[TaskRecord]
    roots: dict[SessionId, SessionId]
    to_wake: set[SessionId]
    """Sessions that a task's end wakes (`wake_on_task_end`)."""
    outputs: set[str]


async def recover_tasks(registry: TaskRegistry) -> list[str]:
    """Returns when every task that still runs is watched; those that are gone are settled in the background.

    Returns the output files without a task: remove them when the processes that still write to them have been killed.
    """
    began = time.monotonic()
    left = await registry.log.read(_read_left_tasks)
    for record in left.untold:
        await registry.read_remaining_lines(record)
        registry.notifications.add(record.task.session_id, build_end_notification(record.task))
    for record in left.unfinished:
        await _take_over(registry, record, left.roots.get(record.task.session_id, record.task.session_id))
    for session_id in left.to_wake:
        registry.on_notification(session_id)
    if left.unfinished:
        took = int((time.monotonic() - began) * 1000)
        logs.log.info("tasks_recovered", tasks=len(left.unfinished), milliseconds=took)
    return await read_in_thread(find_strays, registry.folder, left.outputs)


def _read_left_tasks(snapshot: Snapshot) -> _LeftTasks:
    unfinished, untold = snapshot.tasks.list_unfinished(), snapshot.tasks.list_unreported()
    roots = snapshot.sessions.find_roots({record.task.session_id for record in unfinished})
    to_wake: set[SessionId] = set()
    for record in untold:
        owner = snapshot.sessions.find(record.task.session_id)
        if owner is not None and wakes_session(TaskReport(record.task.id), owner.options.get("wake_on_task_end")):
            to_wake.add(owner.id)
    return _LeftTasks(unfinished, untold, roots, to_wake, snapshot.tasks.list_output_files())


async def _take_over(registry: TaskRegistry, record: TaskRecord, root_id: SessionId) -> None:
    scope = Scope(record.task.session_id, root_id, record.turn_id)
    source: TaskSource | None = await McpResourceSource.resume(registry.servers, record)
    if source is None and registry.resume_agent is not None:
        source = await registry.resume_agent(record)
    source = source or await _adopt_running(record)
    if source is not None:
        registry.start_watching(RunningTask(record, source, scope, registry.log))
    else:
        registry.settle_gone(record, scope)


async def _adopt_running(record: TaskRecord) -> CommandSource | None:
    task = record.task
    if record.pid is None or record.start_time is None or record.output is None:
        return None
    child = process.adopt(record.pid, record.start_time)
    if child is None:
        return None
    output = await read_in_thread(open_or_create, record.output)
    held = await read_in_thread(rehold_placeholders, build_note_path(record.output))
    call_id = task.call_id or CallId("")
    running = RunningCommand(call_id, task.command or "", task.description, "", output, child, placeholders=held)
    if held is not None and held.limits != NO_LIMITS:
        running.limit_watch = LimitWatch(held.limits, child.pid)
    return CommandSource(running)

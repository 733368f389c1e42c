"""The registry of background tasks, one for the daemon. SQLite has their state; those that run are watched here."""

import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol import times
from ostler.protocol.errors import ProtocolError, TaskNotFound
from ostler.protocol.events import GitChange, TaskData
from ostler.protocol.ids import CallId, Cursor, SessionId, TaskId, TurnId, new_task_id
from ostler.protocol.shapes import Call, Task, TaskStatus
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.command_source import CommandSource
from ostler.server.engine.tasks.git_effects import FindActor, find_git_change, link_pull
from ostler.server.engine.tasks.mcp_resource_source import McpResourceSource
from ostler.server.engine.tasks.monitor import build_monitor
from ostler.server.engine.tasks.notifications import (
    AGENT_LETTER,
    Notification,
    Notifications,
    build_end_notification,
    build_stall_notification,
)
from ostler.server.engine.tasks.output_files import OutputPart, read_ending, read_part, remove_output_files
from ostler.server.engine.tasks.running_task import RunningTask, TaskSource
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connections import McpConnections
from ostler.server.observability import logs
from ostler.storage import Scope, Snapshot, Tx
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.process import orphans
from ostler.tools.sandbox import release_noted_placeholders
from ostler.tools.services import RunningCommand, WatchSpec
from ostler.tools.shell.running.launch import build_note_path
from ostler.tools.text import one_line
from ostler.tools.threads import change_in_thread, read_in_thread

ID_LETTERS: Final = {
    "local_bash": "b",
    "local_agent": AGENT_LETTER,
    "remote_agent": "r",
    "in_process_teammate": "t",
    "local_workflow": "w",
    "monitor_mcp": "m",
    "dream": "d",
}
STOPPED_WITH_TURN: Final = "It was stopped together with its turn."
_STOP_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 2.0
_MAX_STOPPED_TURNS: Final = 1000


@dataclass(slots=True)
class TaskRegistry:
    """Starts, watches, reads, stops and ends background tasks, and queues the notifications about them."""

    log: EventLog
    folder: Path
    """The folder of output files."""
    on_notification: Callable[[SessionId], None]
    """Called when a notification waits for a session."""
    servers: McpConnections
    """The connections to the MCP servers of sessions."""
    find_actor: FindActor | None = None
    """Finds the actor of a session; None where there are no sessions, as in a test."""
    notifications: Notifications = field(default_factory=Notifications)
    resume_agent: Callable[[TaskRecord], Awaitable[TaskSource | None]] | None = None
    """Follows an agent on that an earlier daemon has started; None for a task of another type."""
    group: TaskGroup | None = None
    _live: dict[TaskId, RunningTask] = field(default_factory=dict)
    _end_events: dict[TaskId, anyio.Event] = field(default_factory=dict)
    """For each task that has not ended: set when its end is stored."""
    _stopped_turns: deque[TurnId] = field(default_factory=lambda: deque(maxlen=_MAX_STOPPED_TURNS))
    """Turns whose tasks are stopped, also commands that are just becoming one."""

    _latest_start: str = ""

    # Starting.

    def _build_task(self, scope: Scope, kind: str, call_id: CallId, tool_use_id: str, description: str) -> Task:
        assert scope.session_id is not None
        # Lists are in the order of the beginnings: two tasks never begin in the same millisecond.
        self._latest_start = times.now_after(self._latest_start)
        return Task(
            id=new_task_id(ID_LETTERS[kind]),
            type=kind,
            status="running",
            description=description,
            session_id=scope.session_id,
            call_id=call_id,
            tool_use_id=tool_use_id,
            started_at=self._latest_start,
        )

    async def adopt(
        self,
        scope: Scope,
        running: RunningCommand,
        tool_use_id: str,
        watch: WatchSpec | None = None,
    ) -> RunningTask:
        """Turn a running command into a background task; when this returns, it is stored and watched.

        With `watch` it is a monitor.
        """
        kind = "local_bash" if watch is None else "monitor_mcp"
        description = running.description or one_line(running.command, 200)
        task = self._build_task(scope, kind, running.call_id, tool_use_id, description).changed(command=running.command)
        child = running.child
        record = TaskRecord(task, scope.turn_id, child.pid, child.start_time, running.output.path)
        return await self._begin(RunningTask(_add_watch(record, watch), CommandSource(running), scope, self.log))

    async def follow(
        self, scope: Scope, source: McpResourceSource, description: str, tool_use_id: str, watch: WatchSpec
    ) -> RunningTask:
        """The same for a resource of an MCP server."""
        task = self._build_task(scope, "monitor_mcp", source.call_id, tool_use_id, description)
        record = TaskRecord(task.changed(resource=source.resource), scope.turn_id, output=source.output.path)
        try:
            return await self._begin(RunningTask(_add_watch(record, watch), source, scope, self.log))
        except ProtocolError:
            await source.discard()
            raise

    def build_agent_task(
        self, scope: Scope, call: Call, description: str, agent_id: SessionId, output: str
    ) -> TaskRecord:
        """The same for an agent, whose output is its report: to be stored by `put_task`, then watched by `watch`."""
        task = self._build_task(scope, "local_agent", call.call_id, call.tool_use_id, description)
        return TaskRecord(task.changed(agent_id=agent_id), scope.turn_id, output=output)

    async def _begin(self, begun: RunningTask) -> RunningTask:
        # Shielded: where the call is cancelled meanwhile, the task would be stored and not watched.
        with anyio.CancelScope(shield=True):
            await self.log.write(lambda tx: put_task(tx, begun.record, begun.scope), begun.scope.root_id)
        return self.watch(begun)

    def watch(self, begun: RunningTask) -> RunningTask:
        """Watch a task that is stored; it is stopped at once where its turn was stopped with its tasks."""
        self.start_watching(begun)
        if begun.scope.turn_id in self._stopped_turns:
            begun.stop(STOPPED_WITH_TURN)
        return begun

    def start_watching(self, task: RunningTask) -> RunningTask:
        assert self.group is not None
        task.monitor = build_monitor(task.record, partial(self._notify, task.task.session_id))
        self._live[task.task.id] = task
        self._end_events[task.task.id] = task.end_stored
        self.group.start_soon(self._watch, task)
        return task

    def settle_gone(self, record: TaskRecord, scope: Scope) -> None:
        """A task whose process is gone: find out how it ended, and kill what it left running."""
        assert self.group is not None
        self._end_events[record.task.id] = anyio.Event()
        self.group.start_soon(self._settle_gone, record, scope)

    # Ends.

    async def _watch(self, task: RunningTask) -> None:
        try:
            ended = await _watch_to_end(task)
            await self._store_end(ended, task.scope, await self._find_source_git_change(ended, task.source))
        except Exception as error:  # noqa: BLE001 - the boundary of a task: its failure must not end the daemon
            logs.log.error("task_end_lost", task_id=task.task.id, exc_info=error)
        finally:
            task.source.output.close()
            self._live.pop(task.task.id, None)
            self._end_events.pop(task.task.id, task.end_stored).set()

    async def _settle_gone(self, record: TaskRecord, scope: Scope) -> None:
        task = record.task
        try:
            if task.call_id is not None:
                await orphans.kill_left_over(record.pid or 0, record.start_time or "", task.call_id)
            await self.read_remaining_lines(record)
            set_aside = await change_in_thread(release_noted_placeholders, build_note_path(record.output or ""))
            if set_aside:
                logs.log.warning("guarded_names_set_aside", task_id=task.id, names=set_aside)
            left, size = await read_in_thread(read_ending, record.output or "")
            ended = outcome.mark_ended(task, left.exit_code, None, size)
            await self._store_end(ended, scope, await self._find_git_change(ended, record.output or ""))
        except Exception as error:  # noqa: BLE001 - as above
            logs.log.error("task_end_lost", task_id=task.id, exc_info=error)
        finally:
            self._end_events.pop(task.id).set()

    async def _find_source_git_change(self, ended: Task, source: TaskSource) -> GitChange | None:
        if not isinstance(source, CommandSource):
            return None
        running = source.running
        return await self._find_git_change(
            ended, running.output.path, running.folder, time.monotonic() - running.started
        )

    async def _find_git_change(self, ended: Task, path: str, folder: str = "", ran: float = 0.0) -> GitChange | None:
        """What it did to a git repository. Its folder is not known where an earlier daemon started it."""
        try:
            place = folder or await self.log.read(lambda snapshot: _find_folder(snapshot, ended.session_id))
            return await read_in_thread(find_git_change, ended, path, [place], ran)
        except Exception as error:  # noqa: BLE001 - whatever it is, the end of the task is stored
            logs.log.warning("git_look_failed", task_id=ended.id, exc_info=error)
            return None

    async def _store_end(self, task: Task, scope: Scope, done: GitChange | None) -> None:
        """Tries until it is written; if the daemon stops before, the next one finds the end in the `.end` file."""

        def work(tx: Tx) -> bool:
            if not tx.tasks.end(task):
                return False  # its session was deleted meanwhile
            tx.append("task.ended", scope, data=TaskData(task=task))
            if done is not None:
                tx.append("git.changed", scope, data=done)
            return True

        while True:
            try:
                stored = await self.log.write(work, scope.root_id)
                break
            except ProtocolError as error:
                logs.log.warning("task_end_not_stored", task_id=task.id, reason=error.message)
                await anyio.sleep(_RETRY_SECONDS)
        if stored:
            self._notify(task.session_id, [build_end_notification(task)])
            if done is not None and self.find_actor is not None:
                with contextlib.suppress(ProtocolError):  # it was deleted meanwhile, or nothing can be stored
                    await link_pull(self.find_actor, task.session_id, done)

    def _notify(self, session_id: SessionId, notifications: Sequence[Notification]) -> None:
        for each in notifications:
            self.notifications.add(session_id, each)
        self.on_notification(session_id)

    def tell_of_stall(self, task: Task, words: str) -> None:
        """The model is told of an agent that makes no progress."""
        self._notify(task.session_id, [build_stall_notification(task, words)])

    async def read_remaining_lines(self, record: TaskRecord) -> None:
        """Send notifications of the lines that a monitor which is gone has not read."""
        monitor = build_monitor(record, partial(self._notify, record.task.session_id))
        if monitor is not None:
            await monitor.read_remaining_lines()

    # Reading.

    @property
    def running(self) -> int:
        return len(self._end_events)

    async def find(self, task_id: TaskId) -> TaskRecord:
        """As it is now. Raises TaskNotFound."""
        record = await self.log.read(lambda snapshot: snapshot.tasks.find(task_id))
        if record is None:
            raise TaskNotFound(task_id)
        return self._add_live_state(record)

    async def list_page(
        self, session_ids: Iterable[SessionId] | None, status: TaskStatus | None, after: Cursor | None, limit: int
    ) -> list[TaskRecord]:
        """Oldest first."""
        found = await self.log.read(lambda snapshot: snapshot.tasks.list_page(session_ids, status, after, limit))
        return [self._add_live_state(record) for record in found]

    def _add_live_state(self, record: TaskRecord) -> TaskRecord:
        """The record with the current size of the output, and what the model has read of it."""
        known: dict[str, Any] = {"output_offset": record.read_bytes, "notified": record.told}
        live = self._live.get(record.task.id)
        if live is not None and record.task.status == "running":
            known["output_bytes"] = live.source.output.size
        return replace(record, task=record.task.changed(**known))

    async def wait(self, task_id: TaskId, seconds: float) -> TaskRecord:
        """Wait until it has ended, at most `seconds`; returns it as it is then."""
        if (over := self._end_events.get(task_id)) is not None:
            with anyio.move_on_after(seconds):
                await over.wait()
        return await self.find(task_id)

    async def read_output(self, record: TaskRecord, offset: int, most: int) -> OutputPart:
        """What it printed from `offset` on."""
        if record.output is None:
            return OutputPart(offset, "", offset)
        over = record.task.ended_at is not None
        return await read_in_thread(partial(read_part, over=over), record.output, offset, most)

    async def mark_read(self, task_id: TaskId, read_bytes: int) -> None:
        """Store up to where the model has read; where that fails, the output is shown once more."""
        with contextlib.suppress(ProtocolError):
            await self.log.write(lambda tx: tx.tasks.mark_read(task_id, read_bytes))

    async def mark_unread(self, session_id: SessionId) -> None:
        """The results of the last reads are not sent to the model: what they showed counts as unread again."""
        reads = self.notifications.take_reads(session_id)

        def work(tx: Tx) -> None:
            for task_id, read_bytes in reads.items():
                tx.tasks.mark_unread(task_id, read_bytes)

        if reads:
            await self.log.write(work)

    async def queue_unannounced(self, session_id: SessionId) -> None:
        """A session is loaded: queue the ends of tasks that were never announced to it."""
        for record in await self.log.read(lambda snapshot: snapshot.tasks.list_unreported(session_id)):
            self.notifications.add(session_id, build_end_notification(record.task))

    async def mark_announced(self, session_id: SessionId, task_ids: Sequence[TaskId]) -> None:
        """A turn resumes whose input announces these ends; where the input is withdrawn, they are queued again."""
        found = await self.log.read(lambda snapshot: [snapshot.tasks.find(one) for one in task_ids])
        self.notifications.drop(
            session_id, [build_end_notification(record.task) for record in found if record is not None]
        )

    # Stopping.

    async def stop(self, task_id: TaskId, why: str) -> TaskRecord:
        """Stop a task, with all processes that it started; one that has ended stays as it is. Raises TaskNotFound."""
        if (live := self._live.get(task_id)) is not None:
            live.stop(why)
        return await self.wait(task_id, _STOP_SECONDS)

    def stop_turn_tasks(self, turn_id: TurnId) -> None:
        """Stop all tasks that a turn started, also commands that are just becoming one."""
        self._stopped_turns.append(turn_id)
        for each in self._live.values():
            if each.record.turn_id == turn_id:
                each.stop(STOPPED_WITH_TURN)

    def list_running_agents(self, turn_id: TurnId) -> list[RunningTask]:
        """The agents in the background that a turn has started."""
        mine = (each for each in self._live.values() if each.record.turn_id == turn_id)
        return [each for each in mine if each.task.type == "local_agent"]

    async def wait_for_agents(self, turn_id: TurnId) -> None:
        """Wait until all of them have ended, and their ends are stored."""
        for each in self.list_running_agents(turn_id):
            await each.end_stored.wait()

    async def stop_agents(self, turn_id: TurnId) -> None:
        """Stop all of them, and wait a while for their ends."""
        found = self.list_running_agents(turn_id)
        for each in found:
            each.stop(STOPPED_WITH_TURN)
        with anyio.move_on_after(_STOP_SECONDS):
            for each in found:
                await each.end_stored.wait()

    async def stop_tasks_of(self, session_id: SessionId, why: str) -> None:
        """Stop what still runs of a session, and wait a while for its end."""
        found = [each for each in self._live.values() if each.task.session_id == session_id]
        for each in found:
            each.stop(why)
        with anyio.move_on_after(_STOP_SECONDS):
            for each in found:
                await each.end_stored.wait()

    async def stop_session_tasks(self, session_ids: Iterable[SessionId]) -> None:
        """Sessions are about to be deleted: stop their tasks, and remove the output files."""
        wanted = set(session_ids)
        found = [each for each in self._live.values() if each.task.session_id in wanted]
        for each in found:
            each.stop("Its session was deleted.")
        with anyio.move_on_after(_STOP_SECONDS):
            for each in found:
                await each.end_stored.wait()
        records = await self.log.read(lambda snapshot: snapshot.tasks.list_by_sessions(wanted))
        for session_id in wanted:
            self.notifications.forget(session_id)
        await change_in_thread(remove_output_files, [record.output for record in records if record.output is not None])


def put_task(tx: Tx, record: TaskRecord, scope: Scope) -> None:
    """Store a task that begins, and announce it."""
    tx.tasks.put(replace(record, cursor=tx.next_cursor))
    if record.pid is not None and record.start_time is not None:
        # In the same transaction: the process of a task is not killed as left over after a restart.
        tx.processes.drop(record.pid, record.start_time)
    tx.append("task.started", scope, data=TaskData(task=record.task))


def _find_folder(snapshot: Snapshot, session_id: SessionId) -> str:
    found = snapshot.sessions.find(session_id)
    return found.cwd if found is not None else ""


def _add_watch(record: TaskRecord, watch: WatchSpec | None) -> TaskRecord:
    if watch is None:
        return record
    ends_at = times.format_time(datetime.now(UTC) + timedelta(seconds=watch.seconds))
    return replace(record, until=watch.until, ends_at=ends_at)


async def _watch_to_end(task: RunningTask) -> Task:
    try:
        return await task.watch()
    except Exception as error:  # noqa: BLE001 - whatever it is, the command must not go on unwatched
        logs.log.error("task_failed", task_id=task.task.id, exc_info=error)
        await task.source.end()
        return outcome.mark_failed(task.task, "The daemon could not look after it; its log says why.", 0)

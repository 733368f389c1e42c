"""The registry of tasks: one for the daemon. What is in SQLite is the truth; what runs is looked after here."""

import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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
from ostler.protocol.ids import CallId, SessionId, TaskId, TurnId, new_task_id
from ostler.protocol.shapes import Task, TaskStatus
from ostler.server.engine.tasks import outcome
from ostler.server.engine.tasks.command_source import CommandSource
from ostler.server.engine.tasks.git_effects import FindActor, git_done, link_pull
from ostler.server.engine.tasks.mcp_resource_source import Following
from ostler.server.engine.tasks.monitor import ear_of
from ostler.server.engine.tasks.notifications import News, NewsDesk, end_of
from ostler.server.engine.tasks.output_files import Part, left_by, part_of, remove
from ostler.server.engine.tasks.running_task import RunningTask, Source
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connections import McpRoom
from ostler.server.observability import logs
from ostler.storage import Scope, Tx
from ostler.storage.repositories import processes, sessions, tasks
from ostler.storage.repositories.tasks import Position, TaskRecord
from ostler.tools.process import orphans
from ostler.tools.sandbox import release_noted
from ostler.tools.services import Watch
from ostler.tools.shell.running.command import RunningCommand
from ostler.tools.shell.running.launch import held_note
from ostler.tools.text import one_line
from ostler.tools.threads import change_in_thread, read_in_thread

LETTERS: Final = {
    "local_bash": "b",
    "local_agent": "a",
    "remote_agent": "r",
    "in_process_teammate": "t",
    "local_workflow": "w",
    "monitor_mcp": "m",
    "dream": "d",
}
WITH_ITS_TURN: Final = "It was stopped together with its turn."
_STOP_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 2.0
_STOPPED_TURNS: Final = 1000


@dataclass(slots=True)
class TaskDesk:
    log: EventLog
    folder: Path
    """Where commands print to."""
    on_news: Callable[[SessionId], None]
    """A session has something to be told."""
    servers: McpRoom
    """The way to the MCP servers of sessions."""
    find_actor: FindActor | None = None
    """The way to sessions themselves; null where there are none, as in a test."""
    news: NewsDesk = field(default_factory=NewsDesk)
    group: TaskGroup | None = None
    _live: dict[TaskId, RunningTask] = field(default_factory=dict)
    _over: dict[TaskId, anyio.Event] = field(default_factory=dict)
    """Set when the end of a task is stored; of those that are not over."""
    _stopped_turns: deque[TurnId] = field(default_factory=lambda: deque(maxlen=_STOPPED_TURNS))
    """Turns whose tasks are not to go on, also those that are just becoming one."""

    # Beginning.

    async def adopt(
        self,
        scope: Scope,
        running: RunningCommand,
        tool_use_id: str,
        watch: Watch | None = None,
    ) -> RunningTask:
        """A command goes behind its call; when this returns it is stored as a task, and looked after.

        With a watch it is a monitor.
        """
        kind = "local_bash" if watch is None else "monitor_mcp"
        description = running.description or one_line(running.command, 200)
        task = _begun(scope, kind, running.call_id, tool_use_id, description).changed(command=running.command)
        child = running.child
        record = TaskRecord(task, scope.turn_id, child.pid, child.start_time, running.output.path)
        return await self._begin(RunningTask(_watching(record, watch), CommandSource(running), scope, self.log))

    async def follow(
        self, scope: Scope, following: Following, description: str, tool_use_id: str, watch: Watch
    ) -> RunningTask:
        """The same for a resource of an MCP server."""
        task = _begun(scope, "monitor_mcp", following.call_id, tool_use_id, description)
        record = TaskRecord(task.changed(resource=following.resource), scope.turn_id, output=following.output.path)
        try:
            return await self._begin(RunningTask(_watching(record, watch), following, scope, self.log))
        except ProtocolError:
            await following.drop()
            raise

    async def _begin(self, begun: RunningTask) -> RunningTask:
        record, scope = begun.record, begun.scope

        def work(tx: Tx) -> None:
            tasks.put(tx.connection, record)
            if record.pid is not None and record.start_time is not None:
                # In the same breath: what is a task is not left over when the daemon dies.
                processes.drop(tx.connection, record.pid, record.start_time)
            tx.append("task.started", scope, data=TaskData(task=record.task))

        # Shielded: what is stored and not looked after, when its call ends meanwhile, would be nobody's.
        with anyio.CancelScope(shield=True):
            await self.log.write(work, scope.root_id)
        self.look_after(begun)
        if scope.turn_id in self._stopped_turns:
            begun.stop(WITH_ITS_TURN)
        return begun

    def look_after(self, task: RunningTask) -> RunningTask:
        assert self.group is not None
        task.ear = ear_of(task.record, partial(self._tell, task.task.session_id))
        self._live[task.task.id] = task
        self._over[task.task.id] = task.over
        self.group.start_soon(self._watch, task)
        return task

    def bury(self, record: TaskRecord, scope: Scope) -> None:
        """Its process is gone: how it ended is found out, and what it left running is ended."""
        assert self.group is not None
        self._over[record.task.id] = anyio.Event()
        self.group.start_soon(self._bury, record, scope)

    # Ends.

    async def _watch(self, task: RunningTask) -> None:
        try:
            ended = await _to_its_end(task)
            await self._store_end(ended, task.scope, await self._done_by(ended, task.source))
        except Exception as error:  # noqa: BLE001 - the boundary of a task: its trouble is not the daemon's
            logs.log.error("task_end_lost", task_id=task.task.id, exc_info=error)
        finally:
            task.source.output.close()
            self._live.pop(task.task.id, None)
            self._over.pop(task.task.id, task.over).set()

    async def _bury(self, record: TaskRecord, scope: Scope) -> None:
        task = record.task
        try:
            if task.call_id is not None:
                await orphans.kill_left_over(record.pid or 0, record.start_time or "", task.call_id)
            await self.hear_rest(record)
            await change_in_thread(release_noted, held_note(record.output or ""))
            left, size = await read_in_thread(left_by, record.output or "")
            ended = outcome.ended(task, left.exit_code, None, size)
            await self._store_end(ended, scope, await self._git_done(ended, record.output or ""))
        except Exception as error:  # noqa: BLE001 - as above
            logs.log.error("task_end_lost", task_id=task.id, exc_info=error)
        finally:
            self._over.pop(task.id).set()

    async def _done_by(self, ended: Task, source: Source) -> GitChange | None:
        if not isinstance(source, CommandSource):
            return None
        running = source.running
        return await self._git_done(ended, running.output.path, running.folder, time.monotonic() - running.started)

    async def _git_done(self, ended: Task, path: str, folder: str = "", ran: float = 0.0) -> GitChange | None:
        """What it did to a repository. Where it ran is not known of one that an earlier daemon started."""
        try:
            place = folder or await self.log.read(lambda connection: _folder_of(connection, ended.session_id))
            return await read_in_thread(git_done, ended, path, [place], ran)
        except Exception as error:  # noqa: BLE001 - whatever it is, the end of the task is stored
            logs.log.warning("git_look_failed", task_id=ended.id, exc_info=error)
            return None

    async def _store_end(self, task: Task, scope: Scope, done: GitChange | None) -> None:
        """Tries until the disk takes it; if the daemon stops before, the next one finds the end in the file beside."""

        def work(tx: Tx) -> bool:
            if not tasks.end(tx.connection, task):
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
            self._tell(task.session_id, [end_of(task)])
            if done is not None and self.find_actor is not None:
                with contextlib.suppress(ProtocolError):  # it was deleted meanwhile, or nothing can be stored
                    await link_pull(self.find_actor, task.session_id, done)

    def _tell(self, session_id: SessionId, news: Sequence[News]) -> None:
        for each in news:
            self.news.add(session_id, each)
        self.on_news(session_id)

    async def hear_rest(self, record: TaskRecord) -> None:
        """What a monitor that is gone left to be told."""
        ear = ear_of(record, partial(self._tell, record.task.session_id))
        if ear is not None:
            await ear.hear_rest()

    # Looking.

    @property
    def running(self) -> int:
        return len(self._over)

    async def find(self, task_id: TaskId) -> TaskRecord:
        """As it is now. Raises TaskNotFound."""
        record = await self.log.read(lambda connection: tasks.find(connection, task_id))
        if record is None:
            raise TaskNotFound(task_id)
        return self._now(record)

    async def page(
        self, session_ids: Iterable[SessionId] | None, status: TaskStatus | None, after: Position | None, limit: int
    ) -> list[TaskRecord]:
        """Oldest first."""
        found = await self.log.read(lambda connection: tasks.page(connection, session_ids, status, after, limit))
        return [self._now(record) for record in found]

    def _now(self, record: TaskRecord) -> TaskRecord:
        """With what it has printed so far, and what the model knows of it."""
        known: dict[str, Any] = {"output_offset": record.read_bytes, "notified": record.told}
        live = self._live.get(record.task.id)
        if live is not None and record.task.status == "running":
            known["output_bytes"] = live.source.output.size
        return replace(record, task=record.task.changed(**known))

    async def wait(self, task_id: TaskId, seconds: float) -> TaskRecord:
        """When it is over, or as it is after a while."""
        if (over := self._over.get(task_id)) is not None:
            with anyio.move_on_after(seconds):
                await over.wait()
        return await self.find(task_id)

    async def output(self, record: TaskRecord, offset: int, most: int) -> Part:
        """What it printed from a place on."""
        if record.output is None:
            return Part(offset, "", offset)
        over = record.task.ended_at is not None
        return await read_in_thread(partial(part_of, over=over), record.output, offset, most)

    async def read_by_model(self, task_id: TaskId, read_bytes: int) -> None:
        """Where that cannot be stored it is shown once more, which is better than never."""
        with contextlib.suppress(ProtocolError):
            await self.log.write(lambda tx: tasks.mark_read(tx.connection, task_id, read_bytes))

    async def unread(self, session_id: SessionId) -> None:
        """The model will not hear of the looks that it took last: what they showed is new to it still."""
        looks = self.news.take_looks(session_id)

        def work(tx: Tx) -> None:
            for task_id, read_bytes in looks.items():
                tasks.mark_unread(tx.connection, task_id, read_bytes)

        if looks:
            await self.log.write(work)

    async def look_for_untold(self, session_id: SessionId) -> None:
        """A session is loaded: what it was about to be told when something went wrong is told after all."""
        for record in await self.log.read(lambda connection: tasks.untold(connection, session_id)):
            self.news.add(session_id, end_of(record.task))

    async def told_unheard(self, session_id: SessionId, task_ids: Sequence[TaskId]) -> None:
        """A turn comes back whose input tells of these ends; where it is taken back, they wait to be told again."""
        found = await self.log.read(lambda connection: [tasks.find(connection, one) for one in task_ids])
        self.news.drop(session_id, [end_of(record.task) for record in found if record is not None])

    # Stopping.

    async def stop(self, task_id: TaskId, why: str) -> TaskRecord:
        """End one, with all that it started; one that is over stays as it is. Raises TaskNotFound."""
        if (live := self._live.get(task_id)) is not None:
            live.stop(why)
        return await self.wait(task_id, _STOP_SECONDS)

    def stop_of_turn(self, turn_id: TurnId) -> None:
        """Tell all that a turn started, or is just about to leave behind, to end."""
        self._stopped_turns.append(turn_id)
        for each in self._live.values():
            if each.record.turn_id == turn_id:
                each.stop(WITH_ITS_TURN)

    async def end_sessions(self, session_ids: Iterable[SessionId]) -> None:
        """Sessions are about to be deleted: their tasks end, and what these printed goes."""
        wanted = set(session_ids)
        found = [each for each in self._live.values() if each.task.session_id in wanted]
        for each in found:
            each.stop("Its session was deleted.")
        with anyio.move_on_after(_STOP_SECONDS):
            for each in found:
                await each.over.wait()
        records = await self.log.read(lambda connection: tasks.of_sessions(connection, wanted))
        for session_id in wanted:
            self.news.forget(session_id)
        await change_in_thread(remove, [record.output for record in records if record.output is not None])


def _begun(scope: Scope, kind: str, call_id: CallId, tool_use_id: str, description: str) -> Task:
    assert scope.session_id is not None
    return Task(
        id=new_task_id(LETTERS[kind]),
        type=kind,
        status="running",
        description=description,
        session_id=scope.session_id,
        call_id=call_id,
        tool_use_id=tool_use_id,
        started_at=times.now(),
    )


def _folder_of(connection: sqlite3.Connection, session_id: SessionId) -> str:
    found = sessions.find(connection, session_id)
    return found.cwd if found is not None else ""


def _watching(record: TaskRecord, watch: Watch | None) -> TaskRecord:
    if watch is None:
        return record
    ends_at = times.at(datetime.now(UTC) + timedelta(seconds=watch.seconds))
    return replace(record, until=watch.until, ends_at=ends_at)


async def _to_its_end(task: RunningTask) -> Task:
    try:
        return await task.watch()
    except Exception as error:  # noqa: BLE001 - whatever it is, the command must not go on unwatched
        logs.log.error("task_failed", task_id=task.task.id, exc_info=error)
        await task.source.end()
        return outcome.failed(task.task, "The daemon could not look after it; its log says why.", 0)

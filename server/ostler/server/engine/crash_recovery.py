"""Which sessions have to be recovered, and when: after a crash of the daemon, and after a session was given up.

What becomes of the rows of one is `recovery.py`.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from ostler.protocol.config import Config
from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Call
from ostler.server.engine.agent_outcomes.takeover import list_children_ids, list_worktrees_to_end
from ostler.server.engine.background import end_left_over_processes
from ostler.server.engine.calls.result_limits import fit_message
from ostler.server.engine.recovery import RecoveryEnding, settle_session
from ostler.server.engine.session.file_history import clear_left_overs
from ostler.server.engine.session.shared import SharedServices
from ostler.server.engine.tasks.output_files import remove_output_files
from ostler.server.engine.tasks.recovery import recover_tasks
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.engine.worktrees.agent_worktrees import recover_agent_worktrees
from ostler.server.engine.worktrees.session_worktrees import recover_worktree
from ostler.server.events.event_log import EventLog
from ostler.server.observability import logs
from ostler.server.worktrees.worktree import WorktreeOutcome
from ostler.server.worktrees.worktrees import finish_worktree
from ostler.storage import Tx
from ostler.storage.repositories.processes import ProcessRecord
from ostler.tools.threads import change_in_thread

_CONCURRENCY: Final = 64
"""Sessions that are recovered at the same time."""
_RETRY_SECONDS: Final = 2.0


@dataclass(slots=True)
class CrashRecovery:
    """The sessions whose rows have to be recovered before anything is done with them."""

    log: EventLog
    shared: SharedServices
    config: Callable[[], Config]
    load: Callable[[SessionId], Awaitable[object]]
    """Recovers a session, by `settle`, and loads it: its turn goes on."""
    _unsettled: dict[SessionId, RecoveryEnding] = field(default_factory=dict)
    _scanned: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is known which sessions have to be recovered."""
    _abandoned: list[SessionId] = field(default_factory=list)
    _some_abandoned: anyio.Event = field(default_factory=anyio.Event)
    _retried: set[SessionId] = field(default_factory=set)
    """Abandoned sessions that are being recovered."""
    _with_left_overs: set[SessionId] = field(default_factory=set)
    """Sessions whose commands from before a crash may still run."""
    _left_overs_ended: anyio.Event = field(default_factory=anyio.Event)
    _settling: dict[SessionId, anyio.Lock] = field(default_factory=dict)
    """One recovery of a session at a time: that of its parent needs its outcome, too."""
    _going_on: set[SessionId] = field(default_factory=set)
    """Recovered sessions that have a turn or input to go on with."""
    _started_at: float = field(default_factory=time.time)
    """Files that an earlier daemon left half written are older."""

    # Waiting for it.

    async def wait_for_scan(self) -> None:
        """Wait until it is known which sessions and tasks an earlier daemon left unfinished."""
        if not self._scanned.is_set():
            await self._scanned.wait()

    async def wait_for_left_overs(self) -> None:
        """Wait until the processes that an earlier daemon left have ended."""
        await self._left_overs_ended.wait()

    def is_unsettled(self, session_id: SessionId) -> bool:
        return session_id in self._unsettled

    async def settle(self, session_id: SessionId) -> None:
        """Recover a session's rows, where they have to be."""
        if session_id in self._with_left_overs:
            await self._left_overs_ended.wait()
        if session_id not in self._unsettled:
            return
        async with self._settling.setdefault(session_id, anyio.Lock()):
            if (ending := self._unsettled.get(session_id)) is not None:
                await self._settle(session_id, ending)
        self._settling.pop(session_id, None)

    async def _settle(self, session_id: SessionId, ending: RecoveryEnding) -> None:
        # Its agents first: a call that waited for one takes its outcome, or goes on waiting.
        for child in await self.log.read(lambda snapshot: list_children_ids(snapshot, session_id)):
            await self.settle(child)
        await clear_left_overs(self.log, session_id, self._started_at)
        await recover_worktree(self.log, session_id, self.shared.umask)
        await recover_agent_worktrees(self.log, session_id, self.shared.umask)
        worktrees = await self._end_agent_worktrees(session_id)
        registry = await anyio.to_thread.run_sync(lambda: self.shared.registry)
        tools = {tool.name: tool for tool in registry.tools}
        settings = self.config().results

        def fit(calls: Sequence[Call]) -> list[tuple[Call, str]]:
            return fit_message(calls, lambda call: tools.get(call.tool), settings)

        def work(tx: Tx) -> bool:
            return settle_session(tx, session_id, ending, fit, worktrees)

        if await self.log.write(work, session_id):
            self._going_on.add(session_id)
        self._unsettled.pop(session_id, None)

    async def _end_agent_worktrees(self, session_id: SessionId) -> dict[SessionId, WorktreeOutcome]:
        """End the worktrees of agents that have ended while a call waited for them."""
        left = await self.log.read(lambda snapshot: list_worktrees_to_end(snapshot, session_id))
        umask = self.shared.umask
        return {agent: await change_in_thread(finish_worktree, worktree, umask) for agent, worktree in left.items()}

    # After the start.

    async def recover_all(self, tasks: TaskRegistry) -> None:
        """Recover sessions whose turns a crash interrupted, and kill the processes that it left."""
        began = time.monotonic()
        try:
            strays = await recover_tasks(tasks)
            unfinished = await self.log.read(lambda snapshot: snapshot.turns.list_unfinished_sessions())
            left = await self.log.read(lambda snapshot: snapshot.processes.list_left_over())
        except ProtocolError as error:
            logs.log.error("recovery_failed", reason=error.message)
            self._scanned.set()
            self._left_overs_ended.set()
            return
        self._unsettled |= dict.fromkeys(unfinished, RecoveryEnding())
        self._with_left_overs = {process.session_id for process in left}
        self._scanned.set()
        limiter = anyio.CapacityLimiter(_CONCURRENCY)
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_left_overs, left, strays)
            async with anyio.create_task_group() as sessions:
                for session_id in unfinished:
                    sessions.start_soon(self._recover, session_id, limiter)
            if unfinished:
                took = int((time.monotonic() - began) * 1000)
                logs.log.info("sessions_recovered", sessions=len(unfinished), milliseconds=took)

    async def _recover(self, session_id: SessionId, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            try:
                await self.settle(session_id)
                if session_id in self._going_on:
                    self._going_on.discard(session_id)
                    await self.load(session_id)
            except ProtocolError as error:
                logs.log.warning("session_not_recovered", session_id=session_id, reason=error.message)
            except Exception as error:  # noqa: BLE001 - rows that make no sense must not affect other sessions
                logs.log.error("session_not_recovered", session_id=session_id, exc_info=error)

    async def _end_left_overs(self, left: list[ProcessRecord], strays: list[str]) -> None:
        """Kill the processes first, then remove their files: a shell that ends still writes.

        Their sessions wait for both: the sandbox of a killed command leaves empty files in the place of guarded names,
        which go with its output, and of which a `.gitmodules` would pass for that of a repository with submodules.
        """
        try:
            await end_left_over_processes(self.log, left)
            await change_in_thread(remove_output_files, strays)
        finally:
            self._left_overs_ended.set()

    # Sessions that are given up while the daemon runs.

    def take_abandoned(self, session_id: SessionId, error: Exception) -> None:
        """A session was given up for this: what is stored of it decides how its turn ends, or goes on."""
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, ProtocolError):
            logs.log.warning("session_given_up", session_id=session_id, reason=error.message)
            ending = RecoveryEnding()
        else:
            logs.log.error("session_given_up", session_id=session_id, exc_info=error)
            failed = {"code": "internal_error", "message": "The daemon made a mistake; its log says which."}
            ending = RecoveryEnding("failed", failed, may_resume=False)
        self._unsettled[session_id] = ending
        self._abandoned.append(session_id)
        self._some_abandoned.set()

    async def recover_abandoned(self) -> None:
        """For as long as the daemon runs: a callback that gives a session up cannot start a task."""
        async with anyio.create_task_group() as group:
            while True:
                await self._some_abandoned.wait()
                self._some_abandoned = anyio.Event()
                abandoned, self._abandoned = self._abandoned, []
                for session_id in set(abandoned) - self._retried:
                    self._retried.add(session_id)
                    group.start_soon(self._retry, session_id)

    async def _retry(self, session_id: SessionId) -> None:
        """Try until it can be written, with a pause between: what failed once may fail again at once."""
        while session_id in self._unsettled:
            try:
                await self.load(session_id)
            except ProtocolError:
                await anyio.sleep(_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - it is in the log; whoever needs the session tries again
                break
        self._retried.discard(session_id)

"""An agent that runs: waited for by a call, or watched as a background task; it ends once, whoever waits."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio

from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.shapes import Task, Turn
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agent_outcomes.outcome import build_outcome
from ostler.server.engine.agents.stall import describe_stall, tell_people, watch_for_stalls
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import BY_PARENT
from ostler.server.engine.tasks import outcome as task_outcome
from ostler.server.engine.worktrees.session_worktrees import SessionWorktrees
from ostler.server.events.event_log import EventLog
from ostler.server.worktrees.worktree import WorktreeOutcome
from ostler.tools.services import AgentOutcome, AgentProgress
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import change_in_thread

_PROGRESS_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 15.0
"""For the calls of an agent that an interrupt lets finish."""


@dataclass(slots=True)
class RunningAgent:
    """The turn of an agent, followed to its end, also where the session is loaded again in between."""

    log: EventLog
    get_actor: Callable[[SessionId], Awaitable[SessionActor]]
    agent_id: SessionId
    turn_id: TurnId
    get_stall_seconds: Callable[[], float]
    actor: SessionActor | None = None
    """Its session in memory, once that was looked for."""
    began: float = field(default_factory=time.monotonic)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _outcome: AgentOutcome | None = None

    async def wait(self, report: Callable[[AgentProgress], None]) -> AgentOutcome:
        """Until it has ended, by itself or because somebody stopped it."""
        ended: list[AgentOutcome] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_now_and_then, report)
            group.start_soon(self.watch_for_stalls, partial(self._tell_of_stall, report))
            ended.append(await self.wait_for_end())
            group.cancel_scope.cancel()
        return ended[0]

    def waits_for_people(self) -> bool:
        run = self.actor.run if self.actor is not None else None
        return run is not None and run.turn.id == self.turn_id and run.state.turn.status == "waiting"

    async def stop(self) -> AgentOutcome | None:
        """Stop it, and wait until it has ended; None where that takes too long."""
        if self.actor is None:
            with contextlib.suppress(ProtocolError):
                self.actor = await self.get_actor(self.agent_id)
        if self.actor is not None and (run := self.actor.run) is not None and run.turn.id == self.turn_id:
            run.state.halt("interrupted", BY_PARENT)
        with anyio.move_on_after(_STOP_SECONDS):
            return await self.wait_for_end()
        return None

    async def wait_for_end(self) -> AgentOutcome:
        """Its worktree, if it has one of its own, has been ended with it."""
        turn = await self._wait_for_turn()
        # Shielded: git is not to be left in the middle of it. Once, whoever waits.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self._outcome is None:
                    self._outcome = build_outcome(turn, self._measure_ms(), await self._finish_worktree())
                return self._outcome
        raise AssertionError("nobody cancels that scope")

    async def _finish_worktree(self) -> WorktreeOutcome | None:
        try:
            live = (await self.get_actor(self.agent_id)).live
        except ProtocolError:
            return None  # it was deleted, and its worktree with it; or the daemon stops, and the next one does it
        worktrees = SessionWorktrees(live, self.turn_id)
        if worktrees.isolated:
            # What it has left running would write into a folder that goes.
            await live.tasks.stop_tasks_of(
                self.agent_id, "The agent that started it has ended, and its worktree with it."
            )
        return await worktrees.finish()

    async def _wait_for_turn(self) -> Turn:
        while True:
            run = self.actor.run if self.actor is not None else None
            if run is not None and run.turn.id == self.turn_id:
                await run.over.wait()
                if run.state.turn.status == "ended":
                    return run.state.turn
            # It was given up, because of its disk or a bug, or the daemon was started again: what is stored decides.
            try:
                self.actor = await self.get_actor(self.agent_id)
            except ProtocolError:
                await anyio.sleep(_RETRY_SECONDS)
            turn = await self.log.read(lambda snapshot: snapshot.turns.find(self.turn_id))
            if turn is not None and turn.status == "ended":
                return turn
            if self.actor is None or self.actor.run is None or self.actor.run.turn.id != self.turn_id:
                await anyio.sleep(_RETRY_SECONDS)

    async def _report_now_and_then(self, report: Callable[[AgentProgress], None]) -> None:
        while True:
            await anyio.sleep(_PROGRESS_SECONDS)
            run = self.actor.run if self.actor is not None else None
            if run is not None and run.turn.id == self.turn_id:
                calls, text, call = run.state.turn.tool_calls, run.last_text, run.describe_call()
                report(AgentProgress(self.agent_id, self._measure_ms(), calls, text, call))

    async def watch_for_stalls(self, tell: Callable[[LiveSession, str], None]) -> None:
        """Tell, in a sentence, each time that it has made no progress for too long."""

        def describe(live: LiveSession, seconds: int) -> None:
            run = self.actor.run if self.actor is not None else None
            tell(live, describe_stall(live, seconds, run.describe_call() if run is not None else None))

        find_actor = lambda: self.actor  # noqa: E731 - it is loaded again in between
        await watch_for_stalls(self.log.activity, self.agent_id, self.get_stall_seconds, find_actor, describe)

    def _tell_of_stall(self, report: Callable[[AgentProgress], None], live: LiveSession, words: str) -> None:
        tell_people(live, words, f"Its call waits for it; to end it, interrupt the turn {self.turn_id}.")
        run = self.actor.run if self.actor is not None else None
        calls = run.state.turn.tool_calls if run is not None else 0
        report(AgentProgress(self.agent_id, self._measure_ms(), calls, words, status="stalled"))

    def _measure_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000)


@dataclass(slots=True)
class AgentTaskSource:
    """An agent as the source of a background task (see engine/tasks/running_task.py); it prints its report."""

    agent: RunningAgent
    output: OutputFile
    tell_model: Callable[[str], None]
    """Of an agent that makes no progress; the model may end it."""
    _outcome: AgentOutcome | None = None

    @property
    def ended(self) -> bool:
        return self._outcome is not None

    async def wait(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.agent.watch_for_stalls, self._tell_of_stall)
            await self._keep(await self.agent.wait_for_end())
            group.cancel_scope.cancel()

    def _tell_of_stall(self, live: LiveSession, words: str) -> None:
        tell_people(live, words, "`ostler tasks` shows its task, and `ostler tasks stop` ends it.")
        self.tell_model(words)

    async def end(self) -> None:
        if self._outcome is None and (stopped := await self.agent.stop()) is not None:
            await self._keep(stopped)

    async def build_outcome(self, task: Task, size: int) -> Task:
        outcome = self._outcome
        if outcome is None:
            return task_outcome.mark_failed(task, "It could not be stopped.", size)
        if outcome.status == "completed":
            return task_outcome.mark_ended(task, 0, None, size).changed(exit_code=None)
        return task_outcome.mark_failed(task, outcome.error or "it failed.", size)

    async def _keep(self, outcome: AgentOutcome) -> None:
        self._outcome = outcome
        said = [outcome.result.strip(), outcome.worktree.why if outcome.worktree is not None else ""]
        with anyio.CancelScope(shield=True):
            for line in filter(None, said):
                await change_in_thread(self.output.append_line, line)

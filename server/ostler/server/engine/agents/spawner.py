"""Starts agents: makes the child session of a call, runs its turn, and hands back how it ended."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio

from ostler.protocol.errors import BudgetExceeded, Conflict, TurnRunning
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.shapes import Call, Usage
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agent_outcomes.takeover import INTERRUPTED_BEFORE, find_started
from ostler.server.engine.agents.child_session import ON_RESTART, ChildBuilder, list_refused_in_background
from ostler.server.engine.agents.fork import Fork
from ostler.server.engine.agents.model_choice import choose_agent_model
from ostler.server.engine.agents.queue import AgentQueue
from ostler.server.engine.agents.running_agent import AgentTaskSource, RunningAgent
from ostler.server.engine.journal.session_view import append_session_event
from ostler.server.engine.session.agent_facts import OPTION, REFUSED_TOOLS
from ostler.server.engine.session.agent_slots import AgentSlot, TreeSlots
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.tasks.output_files import open_or_create, remove_output_files
from ostler.server.engine.tasks.registry import put_task
from ostler.server.engine.tasks.running_task import RunningTask
from ostler.server.engine.turn.options import TurnRequest, TurnServices
from ostler.server.engine.worktrees.agent_worktrees import drop_note, make_worktree, renew_worktree
from ostler.server.events.event_log import EventLog
from ostler.server.prompt.agent_kinds import FORK, load_built_in_kinds, render_fork
from ostler.server.settings import resolve_agents
from ostler.storage import Scope, Tx
from ostler.storage.repositories.sessions import WORKTREE, SessionRecord
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.process.environment import build_output_prefix
from ostler.tools.services import (
    AgentKind,
    AgentLaunched,
    AgentOutcome,
    AgentProgress,
    AgentRefused,
    AgentRequest,
    WorktreeRefused,
)
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import change_in_thread, read_in_thread

_PROGRESS_SECONDS: Final = 1.0


@dataclass(slots=True)
class AgentSpawner:
    """Starts agents for all sessions of the daemon."""

    log: EventLog
    services: TurnServices
    get_actor: Callable[[SessionId], Awaitable[SessionActor]]
    is_in_charge: Callable[[LiveSession], bool]
    """Whether a session is still the one in memory: one that was given up, or whose daemon stops, decides nothing."""
    queue: AgentQueue = field(default_factory=AgentQueue)
    _trees: dict[SessionId, TreeSlots] = field(default_factory=dict)
    _resumed: set[str] = field(default_factory=set)
    """The agents that a call is about to let go on."""

    def list_kinds(self, session: LiveSession) -> tuple[AgentKind, ...]:
        """See `AgentSource`."""
        kinds = self._list_kinds_at(sum(1 for _ in session.parents))
        return (*kinds, *resolve_agents(session.settings, session.trusted)) if kinds else ()

    @contextmanager
    def resume_alone(self, agent_id: str | None) -> Iterator[None]:
        """Of two calls that let the same agent go on, the second is refused before it changes anything of it."""
        if agent_id is None:
            yield
            return
        if agent_id in self._resumed:
            raise _build_at_work_refusal(SessionId(agent_id))
        self._resumed.add(agent_id)
        try:
            yield
        finally:
            self._resumed.discard(agent_id)

    def list_root_kinds(self) -> tuple[AgentKind, ...]:
        """The kinds that a session at the top may start."""
        return self._list_kinds_at(0)

    def _list_kinds_at(self, depth: int) -> tuple[AgentKind, ...]:
        return load_built_in_kinds() if depth < self.services.config().agents.max_depth else ()

    def get_slots(self, root_id: SessionId) -> TreeSlots:
        """The places for agents in a tree."""
        for known in [key for key, slots in self._trees.items() if slots.unused and key != root_id]:
            del self._trees[known]
        return self._trees.setdefault(root_id, TreeSlots(lambda: self.services.config().agents.max_running))

    async def resume_task(self, record: TaskRecord, tell_model: Callable[[str], None]) -> AgentTaskSource | None:
        """Follow an agent on that an earlier daemon started; None where the task is none, or its agent is gone."""
        agent_id, path = record.task.agent_id, record.output
        if agent_id is None or path is None:
            return None
        turns = await self.log.read(lambda snapshot: snapshot.turns.list_by_session(agent_id))
        begun = [turn for turn in turns if turn.status != "queued"]
        if not begun:
            return None
        output = await read_in_thread(open_or_create, path)
        return AgentTaskSource(self.follow(agent_id, begun[-1].id), output, tell_model)

    def follow(self, agent_id: SessionId, turn_id: TurnId, actor: SessionActor | None = None) -> RunningAgent:
        get_seconds = lambda: self.services.config().agents.stall_seconds  # noqa: E731 - it may change
        return RunningAgent(self.log, self.get_actor, agent_id, turn_id, get_seconds, actor)

    def hold_slot(self, live: LiveSession) -> AgentSlot:
        """The place of an agent that was at work when the daemon was killed, or its session given up."""
        slot = AgentSlot(self.get_slots(live.record.root_id))
        slot.hold()
        live.slot = slot
        return slot

    def keep_slot(self, actor: SessionActor, turn_id: TurnId, slot: AgentSlot) -> None:
        """An agent has its place until its turn is over."""
        actor.live.slot = slot
        actor.group.start_soon(_end_slot_with, actor, turn_id, slot)

    def choose_model(self, session: LiveSession, wanted: str) -> str:
        """See `AgentSource`."""
        return choose_agent_model(session.record.model, wanted, self.services.config().model.small)

    def for_call(self, parent: LiveSession, call: Call, *, goes_on: bool = False) -> "CallAgents":
        return CallAgents(self, parent, call, goes_on)


@dataclass(frozen=True, slots=True)
class CallAgents:
    """What one call can do with agents: implements `ostler.tools.services.Agents`."""

    spawner: AgentSpawner
    parent: LiveSession
    call: Call
    goes_on: bool = False
    """The call ran already when the daemon was killed: it waits for the agent that it has started."""

    async def run(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentOutcome | AgentLaunched:
        if self.goes_on:
            return await self._take_over(request, report)
        if request.background:
            self._check_background()
        async with self.parent.lend_slot():
            slot = await self._take_slot(request, report)
            agent = await self._start_shielded(request, slot)
            return agent if isinstance(agent, AgentLaunched) else await self._wait_for(agent, request, report)
        raise AssertionError("the wait is left by its result, or by an exception")

    async def _take_slot(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentSlot:
        """Wait until fewer agents work in the tree than may; whoever came first is first."""
        began = time.monotonic()
        slot = AgentSlot(self.spawner.get_slots(self.parent.record.root_id))
        async with anyio.create_task_group() as group:

            async def tell() -> None:
                while True:
                    await anyio.sleep(_PROGRESS_SECONDS)
                    waited = int((time.monotonic() - began) * 1000)
                    report(
                        AgentProgress(None, waited, 0, "", "It waits: as many agents work as may at once.", "queued")
                    )

            group.start_soon(tell)
            with self.spawner.queue.show(self.parent, request, self.call):
                await slot.take()
            group.cancel_scope.cancel()
        return slot

    async def _wait_for(
        self, agent: RunningAgent, request: AgentRequest, report: Callable[[AgentProgress], None]
    ) -> AgentOutcome | AgentLaunched:
        try:
            with anyio.move_on_after(self._get_blocking_seconds()), self._show_asks(agent):
                return await agent.wait(report)
        except anyio.get_cancelled_exc_class():
            if self.spawner.is_in_charge(self.parent):
                await _stop_shielded(agent, report)
            raise
        return await self._move_to_background(request, agent)

    @contextmanager
    def _show_asks(self, agent: RunningAgent) -> Iterator[None]:
        """While the body waits for an agent, its asks are what the turn waits for."""
        parent, waits = self.parent, agent.waits_for_people
        parent.waited_agents.append(waits)
        try:
            yield
        finally:
            parent.waited_agents = [each for each in parent.waited_agents if each is not waits]
            for write in (parent.refresh_waiting(), *parent.refresh_above()):
                if write is not None:
                    parent.journal.writes.post(write)

    async def _take_over(
        self, request: AgentRequest, report: Callable[[AgentProgress], None]
    ) -> AgentOutcome | AgentLaunched:
        """Wait for the agent that the call had started before the daemon was killed."""
        parent_id, call_id = self.parent.record.id, self.call.call_id
        found = await self.spawner.log.read(lambda snapshot: find_started(snapshot, parent_id, call_id))
        if found is None or found.turn is None:
            raise AgentRefused(INTERRUPTED_BEFORE)
        agent = self.spawner.follow(found.record.id, found.turn.id)
        async with self.parent.lend_slot():
            return await self._wait_for(agent, request, report)
        raise AssertionError("the wait is left by its result, or by an exception")

    def _check_background(self) -> None:
        if not self.parent.view.background:
            raise AgentRefused("Nothing goes on in the background here. Call it without run_in_background.")
        if self.parent.parent is not None:
            raise AgentRefused("An agent has none in the background: nobody would hear of them when it has ended.")

    def _get_blocking_seconds(self) -> float | None:
        """How long the call waits before the agent goes on in the background; None: to its end."""
        may_move = self.parent.view.background and self.parent.parent is None and not self.parent.asks_nobody
        may_move = may_move and not self.parent.turn_waits
        return self.spawner.services.config().agents.background_seconds if may_move else None

    # In the background.

    @property
    def _scope(self) -> Scope:
        return Scope(self.parent.record.id, self.parent.record.root_id, self.call.turn_id)

    async def _create_output(self) -> OutputFile:
        folder = self.parent.tasks.folder
        return await change_in_thread(OutputFile.create, folder, build_output_prefix(self.call.call_id))

    async def _move_to_background(self, request: AgentRequest, agent: RunningAgent) -> AgentLaunched:
        tasks, scope = self.parent.tasks, self._scope
        # Shielded: where the call is cancelled meanwhile, nobody would watch the agent.
        with anyio.CancelScope(shield=True):
            output = await self._create_output()
            task = tasks.build_agent_task(scope, self.call, request.description, agent.agent_id, output.path)
            await self.spawner.log.write(lambda tx: put_task(tx, task, scope), scope.root_id)
            return self._watch(task, agent, output)
        raise AssertionError("nobody cancels that scope")

    def _watch(self, task: TaskRecord, agent: RunningAgent, output: OutputFile) -> AgentLaunched:
        source = AgentTaskSource(agent, output, partial(self.parent.tasks.tell_of_stall, task.task))
        self.parent.tasks.watch(RunningTask(task, source, self._scope, self.spawner.log))
        return AgentLaunched(agent.agent_id, task.task.id)

    # Its start.

    async def _start_shielded(self, request: AgentRequest, slot: AgentSlot) -> RunningAgent | AgentLaunched:
        """Shielded from cancellation: half an agent would be left behind."""
        with anyio.CancelScope(shield=True):
            return await self._start(request, slot)
        raise AssertionError("nobody cancels that scope")

    async def _start(self, request: AgentRequest, slot: AgentSlot) -> RunningAgent | AgentLaunched:
        try:
            with self.spawner.resume_alone(request.resume):
                return await self._start_in(request, slot)
        except BaseException:
            slot.end()
            raise

    async def _start_in(self, request: AgentRequest, slot: AgentSlot) -> RunningAgent | AgentLaunched:
        actor = await (self._find_own(request) if request.resume is not None else self._create(request))
        if not request.background:
            return await self._begin_turn(actor, request, slot)
        output, scope = await self._create_output(), self._scope
        task = self.parent.tasks.build_agent_task(scope, self.call, request.description, actor.record.id, output.path)
        try:
            # Together: whenever the daemon is killed, an agent that nobody waits for has a task that tells of it.
            agent = await self._begin_turn(actor, request, slot, lambda tx: put_task(tx, task, scope))
        except BaseException:
            output.close()
            await change_in_thread(remove_output_files, [output.path])
            raise
        return self._watch(task, agent, output)

    async def _begin_turn(
        self,
        actor: SessionActor,
        request: AgentRequest,
        slot: AgentSlot,
        together: Callable[[Tx], None] | None = None,
    ) -> RunningAgent:
        forked = request.kind == FORK and request.resume is None
        prompt = f"{render_fork()}\n\n{request.prompt}" if forked else request.prompt
        options = TurnOptions(input=prompt, max_requests=request.max_requests)
        wanted = TurnRequest(options, on_ask=self.parent.turn_on_ask, by_model=True, together=together)
        try:
            turn = await actor.start(wanted)
        except (BudgetExceeded, Conflict) as error:
            raise AgentRefused(error.message) from None
        except TurnRunning:
            raise _build_at_work_refusal(actor.record.id) from None
        self.spawner.keep_slot(actor, turn.id, slot)
        return self.spawner.follow(actor.record.id, turn.id, actor)

    async def _find_own(self, request: AgentRequest) -> SessionActor:
        """An agent of this session that is at rest, to go on with what it knows. Raises AgentRefused."""
        own, parent_id = SessionId(request.resume or ""), self.parent.record.id
        record = await self.spawner.log.read(lambda snapshot: snapshot.sessions.find(own))
        if record is None or record.parent_id != parent_id or record.options.get(OPTION) is None:
            raise AgentRefused(f"{own[:100]!r} is no agent of this session: only its own can be resumed, by their id.")
        actor = await self.spawner.get_actor(own)
        if actor.run is not None:
            raise _build_at_work_refusal(own)
        # First the call: what becomes of the worktree in a crash is for the recovery of the call that it is made for.
        changed = self._give_call(actor.record, request)
        await self.spawner.log.write(lambda tx: tx.sessions.put(changed), changed.root_id)
        actor.replace_record(changed)
        try:
            await renew_worktree(self.parent, self.call.turn_id, actor.live)
        except WorktreeRefused as refused:
            raise AgentRefused(str(refused)) from None
        return actor

    def _give_call(self, record: SessionRecord, request: AgentRequest) -> SessionRecord:
        """A resumed agent works for this call now; in the background it may use what needs nobody beside it."""
        options = {**record.options, OPTION: {**record.options[OPTION], "call_id": self.call.call_id}}
        if request.background:
            before = options.get(REFUSED_TOOLS, [])
            refused = sorted({*before, *list_refused_in_background(self.parent.shared.registry.tools)})
            options |= {REFUSED_TOOLS: refused, ON_RESTART: "resume"}
        elif options[OPTION]["kind"] != FORK:
            options.pop(REFUSED_TOOLS, None)
        return replace(record, options=options)

    async def _create(self, request: AgentRequest) -> SessionActor:
        record = await ChildBuilder(self.spawner.services, self.parent, self.call).build(request)
        fork = await self._find_fork(request)
        if fork is not None:
            record = fork.change_record(record, request)
        state: dict[str, Any] | None = None
        if request.isolated:
            try:
                worktree = await make_worktree(self.parent, self.call.turn_id, record.id)
            except WorktreeRefused as refused:
                raise AgentRefused(str(refused)) from None
            record = replace(record, options={**record.options, WORKTREE: worktree.as_json()})
            state = drop_note(self.parent, record.id)
        writes = self.parent.journal.writes

        def create(tx: Tx) -> None:
            tx.sessions.put(record)
            append_session_event(tx, "session.created", record, Usage(), None)
            writes.put_state(tx, state)
            if fork is not None:
                fork.copy(tx, record)

        await writes.write(create)
        return await self.spawner.get_actor(record.id)

    async def _find_fork(self, request: AgentRequest) -> Fork | None:
        """What a fork takes over; None for an agent of another kind."""
        if request.kind != FORK:
            return None
        run = (await self.spawner.get_actor(self.parent.record.id)).run
        if run is None:  # it was given up meanwhile, and its call with it
            raise AgentRefused("There is no turn to fork from.")
        return Fork(self.parent, run, self.call)


def _build_at_work_refusal(agent_id: SessionId) -> AgentRefused:
    return AgentRefused(f"The agent {agent_id} is at work: wait for its end.")


async def _end_slot_with(actor: SessionActor, turn_id: TurnId, slot: AgentSlot) -> None:
    """Give the place back when the turn is over, or was abandoned."""
    run = actor.run
    if run is not None and run.turn.id == turn_id:
        await run.over.wait()
    actor.live.slot = None
    slot.end()


async def _stop_shielded(agent: RunningAgent, report: Callable[[AgentProgress], None]) -> None:
    """Stop an agent whose call is cancelled, and report what it has so far."""
    with anyio.CancelScope(shield=True):
        ended = await agent.stop()
        if ended is not None:
            report(AgentProgress(ended.agent_id, ended.duration_ms, ended.tool_calls, ended.result))

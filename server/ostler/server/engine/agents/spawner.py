"""Starts agents: makes the child session of a call, runs its turn, and hands back how it ended."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import anyio

from ostler.protocol import times
from ostler.protocol.errors import BudgetExceeded, Conflict, TurnRunning
from ostler.protocol.ids import SessionId, TurnId, new_session_id
from ostler.protocol.shapes import Call, Usage
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agents.model_choice import choose_agent_model
from ostler.server.engine.agents.queue import AgentQueue
from ostler.server.engine.agents.running_agent import AgentTaskSource, RunningAgent
from ostler.server.engine.journal.session_view import append_session_event, resolve_provider
from ostler.server.engine.session.agent_facts import OPTION, AgentFacts, narrow_mode
from ostler.server.engine.session.agent_slots import AgentSlot, TreeSlots
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.tasks.output_files import open_or_create
from ostler.server.engine.turn.options import TurnRequest, TurnServices
from ostler.server.events.event_log import EventLog
from ostler.server.prompt.agent_kinds import load_built_in_kinds
from ostler.server.settings import resolve_agents
from ostler.storage import Scope, Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.fs import paths
from ostler.tools.process.environment import build_output_prefix
from ostler.tools.services import AgentKind, AgentLaunched, AgentOutcome, AgentProgress, AgentRefused, AgentRequest
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.tool import AnyTool

_PROGRESS_SECONDS: Final = 1.0
_INHERITED: Final = ("env", "mcp_servers", "instructions", "thinking")


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

    def list_kinds(self, session: LiveSession) -> tuple[AgentKind, ...]:
        """See `AgentSource`."""
        kinds = self._list_kinds_at(sum(1 for _ in session.parents))
        return (*kinds, *resolve_agents(session.settings, session.trusted)) if kinds else ()

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

    async def resume_task(self, record: TaskRecord) -> AgentTaskSource | None:
        """Follow an agent on that an earlier daemon started; None where the task is none, or its agent is gone."""
        agent_id, path = record.task.agent_id, record.output
        if agent_id is None or path is None:
            return None
        turns = await self.log.read(lambda snapshot: snapshot.turns.list_page(agent_id, None, 1))
        if not turns:
            return None
        output = await read_in_thread(open_or_create, path)
        return AgentTaskSource(RunningAgent(self.log, self.get_actor, agent_id, turns[0].id), output)

    def for_call(self, parent: LiveSession, call: Call) -> "CallAgents":
        return CallAgents(self, parent, call)


@dataclass(frozen=True, slots=True)
class CallAgents:
    """What one call can do with agents: implements `ostler.tools.services.Agents`."""

    spawner: AgentSpawner
    parent: LiveSession
    call: Call

    async def run(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentOutcome | AgentLaunched:
        if request.background:
            self._check_background()
        async with self.parent.lend_slot():
            slot = await self._take_slot(request, report)
            return await self._run_in(slot, request, report)
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

    async def _run_in(
        self, slot: AgentSlot, request: AgentRequest, report: Callable[[AgentProgress], None]
    ) -> AgentOutcome | AgentLaunched:
        agent = await self._start_shielded(request, slot)
        if request.background:
            return await self._move_to_background(request, agent)
        try:
            with anyio.move_on_after(self._get_blocking_seconds()):
                return await agent.wait(report)
        except anyio.get_cancelled_exc_class():
            if self.spawner.is_in_charge(self.parent):
                await _stop_shielded(agent, report)
            raise
        return await self._move_to_background(request, agent)

    async def _start_shielded(self, request: AgentRequest, slot: AgentSlot) -> RunningAgent:
        """Shielded from cancellation: half an agent would be left behind."""
        with anyio.CancelScope(shield=True):
            return await self._start(request, slot)
        raise AssertionError("nobody cancels that scope")

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

    async def _move_to_background(self, request: AgentRequest, agent: RunningAgent) -> AgentLaunched:
        tasks = self.parent.tasks
        scope = Scope(self.parent.record.id, self.parent.record.root_id, self.call.turn_id)
        # Shielded: where the call is cancelled meanwhile, nobody would watch the agent.
        with anyio.CancelScope(shield=True):
            output = await change_in_thread(OutputFile.create, tasks.folder, build_output_prefix(self.call.call_id))
            source = AgentTaskSource(agent, output)
            begun = await tasks.watch_agent(scope, source, self.call, request.description, agent.agent_id)
            return AgentLaunched(agent.agent_id, begun.task.id)
        raise AssertionError("nobody cancels that scope")

    async def _start(self, request: AgentRequest, slot: AgentSlot) -> RunningAgent:
        try:
            return await self._start_in(slot, request)
        except BaseException:
            slot.end()
            raise

    async def _start_in(self, slot: AgentSlot, request: AgentRequest) -> RunningAgent:
        if request.resume is not None:
            actor = await self._find_own(request.resume)
        else:
            actor = await self._create(request)
        record = actor.record
        options = TurnOptions(input=request.prompt, max_requests=request.max_requests)
        try:
            turn = await actor.start(TurnRequest(options, on_ask=self.parent.turn_on_ask, by_model=True))
        except (BudgetExceeded, Conflict) as error:
            raise AgentRefused(error.message) from None
        except TurnRunning:
            raise AgentRefused(f"The agent {record.id} is at work: wait for its end.") from None
        actor.live.slot = slot
        actor.group.start_soon(_end_slot_with, actor, turn.id, slot)
        return RunningAgent(self.spawner.log, self.spawner.get_actor, record.id, turn.id, actor)

    async def _find_own(self, agent_id: str) -> SessionActor:
        """An agent of this session that is at rest, to go on with what it knows. Raises AgentRefused."""
        own = SessionId(agent_id)
        record = await self.spawner.log.read(lambda snapshot: snapshot.sessions.find(own))
        if record is None or record.parent_id != self.parent.record.id or record.options.get(OPTION) is None:
            raise AgentRefused(
                f"{agent_id[:100]!r} is no agent of this session: only its own can be resumed, by their id."
            )
        return await self.spawner.get_actor(own)

    async def _create(self, request: AgentRequest) -> SessionActor:
        record = await self._build_record(request)

        def create(tx: Tx) -> None:
            tx.sessions.put(record)
            append_session_event(tx, "session.created", record, Usage(), None)

        await self.spawner.log.write(create, record.root_id)
        return await self.spawner.get_actor(record.id)

    async def _build_record(self, request: AgentRequest) -> SessionRecord:
        """The child session; everything in it is at most what its parent has. Raises AgentRefused."""
        parent, view = self.parent, self.parent.view
        kind = next((kind for kind in view.agent_kinds if kind.name == request.kind), None)
        if kind is None:
            raise AgentRefused(f"There is no kind of agent {request.kind!r} here.")
        tools = self._select_tools(kind, request)
        folder = await self._check_folder(request.folder) if request.folder is not None else parent.view.folder
        small = self.spawner.services.config().model.small
        model = choose_agent_model(parent.record.model, request.model or kind.model, small)
        mode = narrow_mode(narrow_mode(parent.mode, kind.mode), request.mode)
        narrowed = mode if kind.mode is not None or request.mode is not None else None
        facts = AgentFacts(
            kind=kind.name,
            description=request.description,
            instructions=kind.instructions,
            call_id=self.call.call_id,
            settings_folder=parent.settings_folder,
            name=request.name,
            mode=narrowed,
            # In a worktree there is no other root, for its agents neither.
            one_folder=request.folder is not None
            or parent.worktree is not None
            or (parent.agent is not None and parent.agent.one_folder),
        )
        inherited: dict[str, Any] = {
            name: parent.record.options[name] for name in _INHERITED if name in parent.record.options
        }
        on_restart = {"on_restart": "resume"} if request.background else {}
        limits = {"max_budget_usd": kind.max_budget_usd} if kind.max_budget_usd is not None else {}
        now = times.now()
        return SessionRecord(
            id=new_session_id(),
            root_id=parent.record.root_id,
            parent_id=parent.record.id,
            cwd=folder,
            model=model,
            provider=resolve_provider(model),
            mode=mode,
            on_ask=parent.on_ask,
            created_at=now,
            updated_at=now,
            title=request.name or request.description,
            trusted=parent.trusted,
            directories=parent.directories,
            options={**inherited, **limits, **on_restart, "tools": tools, OPTION: facts.as_json()},
        )

    def _select_tools(self, kind: AgentKind, request: AgentRequest) -> list[str]:
        registry, toolset = self.parent.shared.registry, self.parent.build_toolset()
        if request.tools is not None and (unknown := registry.find_unknown(request.tools)):
            raise AgentRefused(f"allowed_tools names tools that there are not: {', '.join(unknown)}.")
        given = [tool.name for tool in toolset.tools if _may_have(tool, kind, background=request.background)]
        for wanted in (kind.tools, request.tools):
            if wanted is not None:
                names = {toolset.by_name[name].name for name in wanted if name in toolset.by_name}
                given = [name for name in given if name in names]
        return given

    async def _check_folder(self, folder: str) -> str:
        """The folder of `cwd`, which must lie in those of the parent. Raises AgentRefused."""
        if not folder.startswith("/"):
            raise AgentRefused(f"cwd {folder!r} is relative. Give the absolute path of a folder.")
        view = self.parent.view

        def check() -> str | None:
            real = paths.resolve_path(folder)
            if not paths.is_inside_any(real, view.real_roots or view.roots):
                return f"cwd {folder!r} is outside of the folders of this session."
            return None if os.path.isdir(real) else f"cwd {folder!r} is no folder."

        problem = await read_in_thread(check)
        if problem is not None:
            raise AgentRefused(problem)
        return paths.normalize_path(folder)


def _may_have(tool: AnyTool, kind: AgentKind, *, background: bool) -> bool:
    """Whether an agent of this kind may be given a tool of its parent's at all."""
    match tool.given_to_agents:
        case "all":
            return True
        case "waited_for":
            return not background or tool.name.startswith("mcp__")
        case "if_named":
            return not background and tool.name in (kind.tools or ())
        case "none":
            return False
        case other:
            assert_never(other)


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

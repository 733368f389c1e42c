"""Starts agents: makes the child session of a call, runs its turn, and hands back how it ended."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio

from ostler.protocol import times
from ostler.protocol.errors import BudgetExceeded, ProtocolError
from ostler.protocol.ids import SessionId, TurnId, new_session_id
from ostler.protocol.shapes import Call, Turn, Usage
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agents.model_choice import choose_agent_model
from ostler.server.engine.agents.outcome import build_outcome
from ostler.server.engine.journal.session_view import append_session_event, resolve_provider
from ostler.server.engine.session.agent_facts import OPTION, AgentFacts, narrow_mode
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import BY_PARENT
from ostler.server.engine.turn.options import TurnRequest, TurnServices
from ostler.server.events.event_log import EventLog
from ostler.server.prompt.agent_kinds import load_built_in_kinds
from ostler.server.settings import resolve_agents
from ostler.storage import Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.fs import paths
from ostler.tools.services import AgentKind, AgentOutcome, AgentProgress, AgentRefused, AgentRequest
from ostler.tools.threads import read_in_thread

NEVER_GIVEN: Final = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
"""Tools for the session that a person talks to."""
_INHERITED: Final = ("env", "mcp_servers", "instructions", "thinking")
_PROGRESS_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 15.0
"""For the calls of an agent that an interrupt lets finish."""
_RETRY_SECONDS: Final = 0.1


@dataclass(slots=True)
class AgentSpawner:
    """Starts agents for all sessions of the daemon."""

    log: EventLog
    services: TurnServices
    get_actor: Callable[[SessionId], Awaitable[SessionActor]]
    is_in_charge: Callable[[LiveSession], bool]
    """Whether a session is still the one in memory: one that was given up, or whose daemon stops, decides nothing."""

    def list_kinds(self, session: LiveSession) -> tuple[AgentKind, ...]:
        """See `AgentSource`."""
        kinds = self._list_kinds_at(sum(1 for _ in session.parents))
        return (*kinds, *resolve_agents(session.settings, session.trusted)) if kinds else ()

    def list_root_kinds(self) -> tuple[AgentKind, ...]:
        """The kinds that a session at the top may start."""
        return self._list_kinds_at(0)

    def _list_kinds_at(self, depth: int) -> tuple[AgentKind, ...]:
        return load_built_in_kinds() if depth < self.services.config().agents.max_depth else ()

    def for_call(self, parent: LiveSession, call: Call) -> "CallAgents":
        return CallAgents(self, parent, call)


@dataclass(frozen=True, slots=True)
class CallAgents:
    """What one call can do with agents: implements `ostler.tools.services.Agents`."""

    spawner: AgentSpawner
    parent: LiveSession
    call: Call

    async def run(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentOutcome:
        began = time.monotonic()
        with anyio.CancelScope(shield=True):  # half an agent would be left behind
            actor, turn = await self._start(request)
        agent = _RunningAgent(self.spawner, actor, turn.id, began, report)
        try:
            return await agent.wait()
        except anyio.get_cancelled_exc_class():
            if self.spawner.is_in_charge(self.parent):
                with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_SECONDS):
                    await agent.stop()
            raise

    async def _start(self, request: AgentRequest) -> tuple[SessionActor, Turn]:
        record = await self._build_record(request)

        def create(tx: Tx) -> None:
            tx.sessions.put(record)
            append_session_event(tx, "session.created", record, Usage(), None)

        await self.spawner.log.write(create, record.root_id)
        actor = await self.spawner.get_actor(record.id)
        options = TurnOptions(input=request.prompt, max_requests=request.max_requests)
        try:
            turn = await actor.start(TurnRequest(options, on_ask=self.parent.turn_on_ask, by_model=True))
        except BudgetExceeded as error:
            raise AgentRefused(error.message) from None
        return actor, turn

    async def _build_record(self, request: AgentRequest) -> SessionRecord:
        """The child session; everything in it is at most what its parent has. Raises AgentRefused."""
        parent, view = self.parent, self.parent.view
        kind = next((kind for kind in view.agent_kinds if kind.name == request.kind), None)
        if kind is None:
            raise AgentRefused(f"There is no kind of agent {request.kind!r} here.")
        tools = self._select_tools(kind, request)
        folder = await self._check_folder(request.folder) if request.folder is not None else parent.record.cwd
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
            one_folder=request.folder is not None or (parent.agent is not None and parent.agent.one_folder),
        )
        inherited: dict[str, Any] = {
            name: parent.record.options[name] for name in _INHERITED if name in parent.record.options
        }
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
            directories=parent.record.directories,
            options={**inherited, **limits, "tools": tools, OPTION: facts.as_json()},
        )

    def _select_tools(self, kind: AgentKind, request: AgentRequest) -> list[str]:
        registry, toolset = self.parent.shared.registry, self.parent.build_toolset()
        if request.tools is not None and (unknown := registry.find_unknown(request.tools)):
            raise AgentRefused(f"allowed_tools names tools that there are not: {', '.join(unknown)}.")
        given = [tool.name for tool in toolset.tools if tool.name not in NEVER_GIVEN]
        for wanted in (kind.tools, request.tools):
            if wanted is not None:
                names = {toolset.by_name[name].name for name in wanted if name in toolset.by_name}
                given = [name for name in given if name in names]
        return [name for name in given if name != "Agent" or "Agent" in (kind.tools or ())]

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


@dataclass(slots=True)
class _RunningAgent:
    """An agent that a call waits for."""

    spawner: AgentSpawner
    actor: SessionActor
    turn_id: TurnId
    began: float
    report: Callable[[AgentProgress], None]

    async def wait(self) -> AgentOutcome:
        """Until it has ended, by itself or because somebody stopped it."""
        ended: list[Turn] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_now_and_then)
            ended.append(await self._wait_for_end())
            group.cancel_scope.cancel()
        return build_outcome(ended[0], self._measure_ms())

    async def stop(self) -> None:
        """Stop it, and wait until it has ended; what it has said so far is reported."""
        run = self.actor.run
        if run is not None and run.turn.id == self.turn_id:
            self.actor.halt(BY_PARENT)
        turn = await self._wait_for_end()
        self._report(turn, turn.result_text or "", None)

    async def _wait_for_end(self) -> Turn:
        while True:
            run = self.actor.run
            if run is not None and run.turn.id == self.turn_id:
                await run.over.wait()
                if run.state.turn.status == "ended":
                    return run.state.turn
            turn = await self.spawner.log.read(lambda snapshot: snapshot.turns.find(self.turn_id))
            if turn is not None and turn.status == "ended":
                return turn
            # It was given up, because of its disk or a bug: what is stored decides how it goes on, or ended.
            try:
                self.actor = await self.spawner.get_actor(self.actor.record.id)
            except ProtocolError:
                await anyio.sleep(_RETRY_SECONDS)
            if self.actor.run is None:
                await anyio.sleep(_RETRY_SECONDS)

    async def _report_now_and_then(self) -> None:
        while True:
            await anyio.sleep(_PROGRESS_SECONDS)
            run = self.actor.run
            if run is not None and run.turn.id == self.turn_id:
                self._report(run.state.turn, run.last_text, run.describe_call())

    def _report(self, turn: Turn, text: str, call: str | None) -> None:
        self.report(AgentProgress(turn.session_id, self._measure_ms(), turn.tool_calls, text, call))

    def _measure_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000)

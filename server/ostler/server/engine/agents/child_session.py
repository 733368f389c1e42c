"""The session of a new agent: whatever stands in its record is at most what its parent has."""

import os
from dataclasses import dataclass
from typing import Any, Final, assert_never

from ostler.protocol import times
from ostler.protocol.ids import new_session_id
from ostler.protocol.shapes import Call, Usage
from ostler.server.engine.agents.model_choice import choose_agent_model
from ostler.server.engine.journal.session_view import resolve_provider
from ostler.server.engine.session.agent_facts import OPTION, AgentFacts, narrow_mode
from ostler.server.engine.session.effective_settings import SKILLS_OPTION
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.options import TurnServices
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.fs import paths
from ostler.tools.services import AgentKind, AgentRefused, AgentRequest
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import AnyTool

ON_RESTART: Final = "on_restart"
_INHERITED: Final = ("env", "mcp_servers", "instructions", "thinking", ON_RESTART)


@dataclass(frozen=True, slots=True)
class ChildBuilder:
    """Builds the session of an agent that a call asks for."""

    services: TurnServices
    parent: LiveSession
    call: Call

    async def build(self, request: AgentRequest) -> SessionRecord:
        """Raises AgentRefused."""
        parent, view = self.parent, self.parent.view
        kind = next((kind for kind in view.agent_kinds if kind.name == request.kind), None)
        if kind is None:
            raise AgentRefused(f"There is no kind of agent {request.kind!r} here.")
        tools = self._select_tools(kind, request)
        folder = await self._check_folder(request.folder) if request.folder is not None else parent.view.folder
        small = self.services.config().model.small
        model = choose_agent_model(parent.record.model, request.model or kind.model, small)
        self._check_price(kind, model)
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
        on_restart = {ON_RESTART: "resume"} if request.background else {}
        skill = {SKILLS_OPTION: [request.skill]} if request.skill is not None else {}
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
            options={**inherited, **limits, **skill, **on_restart, "tools": tools, OPTION: facts.as_json()},
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

    def _check_price(self, kind: AgentKind, model: str) -> None:
        """Before there is a session that could not begin."""
        if kind.max_budget_usd is not None and self.services.cost(model, Usage()) is None:
            raise AgentRefused(
                f"The kind {kind.name} has a budget, and the price of {model} is not known, so that it cannot be held: "
                "take another kind or model, or set model.prices in config.toml."
            )

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


def list_refused_in_background(tools: tuple[AnyTool, ...]) -> list[str]:
    """The tools that an agent may not use where nobody waits for it."""
    return [tool.name for tool in tools if tool.given_to_agents != "all" and not _is_of_server(tool)]


def _may_have(tool: AnyTool, kind: AgentKind, *, background: bool) -> bool:
    """Whether an agent of this kind may be given a tool of its parent's at all."""
    match tool.given_to_agents:
        case "all":
            return True
        case "waited_for":
            return not background or _is_of_server(tool)
        case "if_named":
            return not background and tool.name in (kind.tools or ())
        case "none":
            return False
        case other:
            assert_never(other)


def _is_of_server(tool: AnyTool) -> bool:
    return tool.name.startswith("mcp__")

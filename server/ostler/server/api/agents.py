"""The handler of the agent method: list."""

from dataclasses import dataclass

from ostler.protocol.agent import AgentList, AgentPage, KindInfo, KindProblem
from ostler.protocol.methods import AGENT_LIST
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agents.listing import list_agents
from ostler.server.engine.engine import Engine
from ostler.server.rpc.paging import paginate_list
from ostler.tools.services import AgentKind


@dataclass(frozen=True, slots=True)
class AgentMethods:
    engine: Engine

    async def list(self, params: AgentList, actor: SessionActor) -> AgentPage:
        live = actor.live
        await self.engine.settings_loader.load(live)
        queue = self.engine.agents.queue
        found = await self.engine.log.read(lambda snapshot: list_agents(snapshot, params.session_id, queue))
        page, token = paginate_list(AGENT_LIST.name, params, found)
        of_skills = live.settings.skill_problems
        problems = [each for each in live.settings.problems if each.file.endswith(".md") and each not in of_skills]
        return AgentPage(
            agents=page,
            kinds=[_build_kind(kind) for kind in live.view.agent_kinds],
            errors=[KindProblem(path=each.file, line=each.line, message=each.message) for each in problems],
            next=token,
        )


def _build_kind(kind: AgentKind) -> KindInfo:
    tools = list(kind.tools) if kind.tools is not None else None
    return KindInfo(name=kind.name, description=kind.description, tools=tools, source=kind.source, path=kind.path)

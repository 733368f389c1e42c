"""The tool methods: list, cancel, background."""

from dataclasses import dataclass

from ostler.protocol.errors import CallNotFound, Conflict, NoTurnRunning
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.methods import TOOL_LIST
from ostler.protocol.shapes import Call
from ostler.protocol.tool import CallRef, ToolInfo, ToolList, ToolPage
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.rpc.paging import page_by_place
from ostler.storage.repositories import calls
from ostler.tools.context import Surroundings
from ostler.tools.registry import ToolSet
from ostler.tools.tool import AnyTool


@dataclass(frozen=True, slots=True)
class ToolMethods:
    engine: Engine

    async def list(self, params: ToolList) -> ToolPage:
        if params.session_id is not None:
            live = (await self.engine.actor(params.session_id)).live
            toolset, surroundings = live.toolset(), live.surroundings
        else:
            rooms = self.engine.rooms
            surroundings = Surroundings(
                SessionId(""),
                "/",
                "/",
                (),
                "default",
                testing=rooms.testing,
                background=rooms.background(),
                switched_off=rooms.switched_off(),
            )
            toolset = (await self.engine.registry()).for_session("full", (), surroundings)
        page, token = page_by_place(TOOL_LIST.name, params, _shown(toolset, surroundings))
        return ToolPage(tools=page, next=token)

    async def cancel(self, params: CallRef) -> Call:
        return (await self._actor_of(params.call_id)).cancel_call(params.call_id)

    async def background(self, params: CallRef) -> Call:
        actor = await self._actor_of(params.call_id)
        if not self.engine.rooms.background():
            raise Conflict("Background tasks are off. Set `[tools] background = true` in config.toml to have them.")
        if not actor.live.surroundings.background:
            raise Conflict("The session has no TaskOutput, without which nothing of it goes on in the background.")
        return actor.background_call(params.call_id)

    async def _actor_of(self, call_id: CallId) -> SessionActor:
        """Of the session in which a call runs, or waits to."""
        call = await self.engine.log.read(lambda connection: calls.find(connection, call_id))
        if call is None:
            raise CallNotFound(call_id)
        if call.status == "completed":
            raise NoTurnRunning(f"The call {call_id} is over already.", call_id=call_id)
        return await self.engine.actor(call.session_id)


def _shown(toolset: ToolSet, surroundings: Surroundings) -> list[ToolInfo]:
    available = [_info(tool, surroundings) for tool in toolset.tools]
    absent = [
        _info(one.tool, surroundings).model_copy(update={"enabled": False, "disabled_reason": one.reason})
        for one in toolset.unavailable.values()
    ]
    return [*available, *absent]


def _info(tool: AnyTool, surroundings: Surroundings) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        aliases=list(tool.aliases),
        summary=tool.title or tool.name,
        input_schema=tool.input_schema(surroundings),
        source=tool.source,
        read_only=tool.only_reads,
        deferred=tool.deferred,
    )

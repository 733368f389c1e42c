"""The handlers of the tool methods: list, cancel, background."""

from dataclasses import dataclass

from ostler.protocol.errors import Conflict
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import TOOL_LIST
from ostler.protocol.shapes import Call
from ostler.protocol.tool import CallRef, ToolInfo, ToolList, ToolPage
from ostler.server.config.configuration import Configuration
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.rpc.paging import paginate_list
from ostler.tools.context import SessionView
from ostler.tools.discovery.deferral import can_defer
from ostler.tools.registry import ToolSet
from ostler.tools.tool import AnyTool


@dataclass(frozen=True, slots=True)
class ToolMethods:
    engine: Engine
    configuration: Configuration

    async def list(self, params: ToolList) -> ToolPage:
        if params.session_id is not None:
            live = (await self.engine.get_actor(params.session_id)).live
            toolset, view, deferred = live.build_toolset(), live.view, live.deferral.deferred
        else:
            shared = self.engine.shared
            config = shared.config()
            small_model = self.engine.settings_loader.build_small_model(lambda model, usage: None)
            view = SessionView(
                SessionId(""),
                "/",
                "/",
                (),
                "default",
                config,
                background=config.tools.background,
                # As in a session in which somebody can be asked.
                plan_file=shared.home,
                api_searches=small_model.searches(self.configuration.default_model),
                agent_kinds=self.engine.agents.list_root_kinds(),
            )
            toolset = (await self.engine.load_registry()).for_session("full", (), view)
            deferred = frozenset(tool.name for tool in toolset.tools if can_defer(tool))
        page, token = paginate_list(TOOL_LIST.name, params, _list_tools(toolset, view, deferred))
        return ToolPage(tools=page, next=token)

    async def cancel(self, params: CallRef, actor: SessionActor) -> Call:
        return actor.cancel_call(params.call_id)

    async def background(self, params: CallRef, actor: SessionActor) -> Call:
        if not self.engine.shared.config().tools.background:
            raise Conflict("Background tasks are off. Set `[tools] background = true` in config.toml to have them.")
        if not actor.live.view.background:
            raise Conflict("The session has no TaskOutput, without which nothing of it goes on in the background.")
        return actor.background_call(params.call_id)


def _list_tools(toolset: ToolSet, view: SessionView, deferred: frozenset[str]) -> list[ToolInfo]:
    available = [_build_info(tool, view, deferred) for tool in toolset.tools]
    absent = [
        _build_info(one.tool, view, deferred).model_copy(update={"enabled": False, "disabled_reason": one.reason})
        for one in toolset.unavailable.values()
    ]
    return [*available, *absent]


def _build_info(tool: AnyTool, view: SessionView, deferred: frozenset[str]) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        aliases=list(tool.aliases),
        summary=tool.title or tool.name,
        input_schema=tool.input_schema(view),
        output_schema=tool.output_schema,
        source=tool.source,
        read_only=tool.only_reads,
        deferred=tool.name in deferred,
    )

"""The deferred tools of one session, as ToolSearch uses them: implements `ostler.tools.services.Discovery`."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.tools.services import DeferredTool
from ostler.tools.tool import AnyTool, Block, text_block


@dataclass(frozen=True, slots=True)
class SessionDiscovery:
    """See `ostler.tools.services.Discovery`."""

    session: LiveSession
    state: TurnState

    def list_tools(self) -> list[DeferredTool]:
        deferred, view = self.session.deferral.deferred, self.session.view
        return [
            DeferredTool(tool.name, tool.description(view), tool.search_hint, tool.aliases)
            for tool in self.session.build_toolset().tools
            if tool.name in deferred
        ]

    def load(self, names: Sequence[str]) -> list[Block]:
        before = self.session.deferral
        after = before.load(names)
        if after != before:
            self.session.remember(**after.to_state())
        followed = [name for name in names if name in self.state.followed]
        if followed:
            # The others were loaded before, and are sent with the tools. No text may stand beside a reference.
            return [build_reference(name) for name in followed]
        tools = self.session.build_toolset().by_name
        return [text_block("\n\n".join(self._render_schema(tools[name]) for name in names))]

    def _render_schema(self, tool: AnyTool) -> str:
        view = self.session.view
        schema = orjson.dumps(tool.input_schema(view)).decode()
        return f'<tool name="{tool.name}">\n{tool.description(view)}\nInput: {schema}\n</tool>'


def describe_way_to_load(session: LiveSession, tool: AnyTool) -> str:
    """What to add to an error about the input of a tool whose schema the model has not got."""
    if tool.name not in session.deferral.hidden:
        return ""
    finder = next((each.name for each in session.build_toolset().tools if each.finds_tools), None)
    return f"\n{tool.name} was not loaded: {finder} with `select:{tool.name}` shows what it takes." if finder else ""


def build_reference(name: str) -> Block:
    """The block by which the API itself loads a tool."""
    return {"type": "tool_reference", "tool_name": name}

"""The deferred tools of one session, as ToolSearch uses them: implements `ostler.tools.services.Discovery`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.protocol.events import Notice
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.prompt.reminders import wrap_note
from ostler.tools.discovery.deferral import Deferral
from ostler.tools.registry import ToolSet
from ostler.tools.services import DeferredTool
from ostler.tools.tool import AnyTool, Block, text_block

_TOLD: Final = "deferred_told"
"""The key in the session's state: the deferred tools whose names the model has; those of servers are told apart."""
_MAX_TOLD: Final = 50


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
            self._tell_of_change(after.loaded[len(before.loaded) :])
        followed = [name for name in names if name in self.state.followed]
        if followed:
            # The others were loaded before, and are sent with the tools. No text may stand beside a reference.
            return [build_reference(name) for name in followed]
        tools = self.session.build_toolset().by_name
        return [text_block("\n\n".join(self._render_schema(tools[name]) for name in names))]

    def _tell_of_change(self, loaded: Sequence[str]) -> None:
        """Say so where the provider cannot load them by reference: from the next turn on its tools are others."""
        changing = [name for name in loaded if name not in self.state.followed]
        if changing:
            text = (
                f"Loaded {', '.join(changing)}. This provider takes no tools that are loaded later, so the next turn "
                "sends other tools than this one, and its prompt is not read from the cache once."
            )
            self.session.journal.add_notice(self.state.turn.id, Notice(level="info", text=text))

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


def build_deferred_state(session: LiveSession, toolset: ToolSet, deferral: Deferral) -> dict[str, Any]:
    """The session state to store with the input of a turn, which tells what came since the prompt was built."""
    names = _list_deferred(toolset, deferral)
    return {} if session.state.get(_TOLD) == names else {_TOLD: names}


def describe_new_deferred(session: LiveSession) -> list[str]:
    """A note where there are deferred tools that the model was not told of: a rule is gone, or a plug-in came."""
    known = session.state.get(_TOLD)
    if known is None:
        return []  # the prompt names them
    toolset = session.build_toolset()
    new = [name for name in _list_deferred(toolset, session.deferral) if name not in known]
    finder = next((tool.name for tool in toolset.tools if tool.finds_tools), None)
    if not new or finder is None:
        return []
    more = f" and {len(new) - _MAX_TOLD} more" if len(new) > _MAX_TOLD else ""
    return [wrap_note(f"There are further tools, which {finder} loads: {', '.join(new[:_MAX_TOLD])}{more}")]


def _list_deferred(toolset: ToolSet, deferral: Deferral) -> list[str]:
    return [tool.name for tool in toolset.tools if tool.name in deferral.hidden and tool.on_server is None]


def build_reference(name: str) -> Block:
    """The block by which the API itself loads a tool."""
    return {"type": "tool_reference", "tool_name": name}

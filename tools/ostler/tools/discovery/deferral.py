"""Which tools of a session are deferred: left out of the prompt until ToolSearch loads them.

What was sent once stays as it was, so this is part of the session's state: whether anything is deferred at all, which
tools were sent before it was, and which were loaded since, in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from ostler.protocol.ids import SessionId
from ostler.tools.context import SessionView
from ostler.tools.registry import ToolSet
from ostler.tools.token_estimate import estimate_json
from ostler.tools.tool import AnyTool

AUTO_TOKENS: Final = 5_000
"""With `tools.defer = "auto"`: what all that can be deferred may take together before it is."""
STATE: Final = "deferral"
"""The key in the session's state."""
MCP_PREFIX: Final = "mcp__"

_EMPTY_SESSION: Final = SessionView(SessionId(""), "/", "/", (), "default")
_tokens: "WeakKeyDictionary[AnyTool, int]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Deferral:
    """What of a session's tools is deferred. All of it are names of tools."""

    on: bool = False
    deferred: frozenset[str] = frozenset()
    """Those that ToolSearch finds, loaded or not; empty where it is not on."""
    kept: tuple[str, ...] = ()
    """Those that could be deferred, and were sent at once, because they were sent before anything was deferred."""
    loaded: tuple[str, ...] = ()
    """In the order in which they were loaded."""

    @property
    def hidden(self) -> frozenset[str]:
        """Those whose schemas the model has not got."""
        return self.deferred.difference(self.loaded)

    def load(self, names: Sequence[str]) -> "Deferral":
        """With these loaded, too; those that are already stay where they are."""
        return replace(self, loaded=(*self.loaded, *(name for name in names if name not in self.loaded)))

    def to_state(self) -> dict[str, Any]:
        """As the session's state has it."""
        return {STATE: {"on": self.on, "kept": list(self.kept), "loaded": list(self.loaded)}}


NOTHING_DEFERRED: Final = Deferral()


def can_defer(tool: AnyTool) -> bool:
    return (tool.deferred or tool.name.startswith(MCP_PREFIX)) and not tool.always_load


def count_tokens(tool: AnyTool) -> int:
    """What name, description and schema of a tool take in a request: an estimate."""
    known = _tokens.get(tool)
    if known is None:
        sent = {
            "name": tool.name,
            "description": tool.description(_EMPTY_SESSION),
            "input_schema": tool.input_schema(_EMPTY_SESSION),
        }
        known = _tokens[tool] = estimate_json(sent)
    return known


def plan_deferral(
    state: Mapping[str, Any],
    tools: Sequence[AnyTool],
    wanted: Literal["auto", "always", "never"],
    *,
    can_search: bool,
) -> Deferral:
    """What is deferred, given what was before: nothing that was sent is taken back, and nothing is without ToolSearch.

    The setting counts for what the model has not got yet: it changes nothing that was sent.
    """
    stored = state.get(STATE) or {}
    kept, loaded = tuple(stored.get("kept", ())), tuple(stored.get("loaded", ()))
    candidates = [tool for tool in tools if can_defer(tool)]
    sent = {*kept, *loaded}
    new = [tool for tool in candidates if tool.name not in sent]
    on = can_search and (bool(stored.get("on")) or (bool(new) and _exceeds(candidates, wanted)))
    if not on:
        return Deferral(False, kept=tuple(tool.name for tool in candidates), loaded=loaded)
    deferred = frozenset(tool.name for tool in candidates if tool.name not in kept)
    return Deferral(True, deferred, kept, loaded)


def select_deferred(
    found: ToolSet, state: Mapping[str, Any], wanted: Literal["auto", "always", "never"]
) -> tuple[ToolSet, Deferral]:
    """What is deferred of a set of tools, and the set: with the tools that find them where something is."""
    finders = [tool for tool in found.tools if tool.finds_tools]
    deferral = plan_deferral(state, found.tools, wanted, can_search=bool(finders))
    if not deferral.on:
        for tool in finders:
            found = found.without(tool.name, "nothing is left out of the prompt here")
    return found, deferral


def _exceeds(candidates: Sequence[AnyTool], wanted: str) -> bool:
    return wanted == "always" or (wanted == "auto" and sum(map(count_tokens, candidates)) > AUTO_TOKENS)


def group_deferred(toolset: ToolSet, deferral: Deferral) -> dict[str, list[str]]:
    """The names of the deferred tools by their sources, in the order of the tools."""
    groups: dict[str, list[str]] = {}
    for tool in toolset.tools:
        if tool.name in deferral.deferred:
            groups.setdefault(tool.source, []).append(tool.name)
    return groups

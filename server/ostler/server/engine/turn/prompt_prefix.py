"""The prompt prefix: the system prompt and the tools that every request begins with, the same bytes each time."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ostler.server.models.tool_extras import Allowance, build_strict_schema
from ostler.tools.context import SessionView
from ostler.tools.discovery.deferral import NOTHING_DEFERRED, Deferral
from ostler.tools.registry import ToolSet
from ostler.tools.token_estimate import BYTES_PER_TOKEN
from ostler.tools.tool import AnyTool

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class Prefix:
    system: bytes
    tools: bytes
    """For every provider."""
    tools_with_extras: bytes
    """For one that knows `strict`, `input_examples` and `defer_loading`."""
    deferred: frozenset[str] = frozenset()
    """The tools that `tools_with_extras` has with `defer_loading`: the conversation may refer to these."""

    def count_tokens(self, *, with_extras: bool) -> int:
        """An estimate of what it takes of the window: what is sent to be loaded later takes nothing."""
        tools = self.tools_with_extras if with_extras and not self.deferred else self.tools
        return (len(self.system) + len(tools)) // BYTES_PER_TOKEN

    def as_json(self) -> dict[str, str]:
        """Its tools, for a session that is to send the same ones."""
        return {
            "plain": self.tools.decode(),
            "with_extras": self.tools_with_extras.decode(),
            "deferred": " ".join(sorted(self.deferred)),
        }


def repeat_prefix(system: str, tools: Mapping[str, str]) -> Prefix:
    """The prefix of a fork: with the tools as its parent sent them."""
    deferred = frozenset(tools.get("deferred", "").split())
    return Prefix(_encode_system(system), tools["plain"].encode(), tools["with_extras"].encode(), deferred)


def make_prefix(
    system: str,
    toolset: ToolSet,
    view: SessionView,
    deferral: Deferral = NOTHING_DEFERRED,
    referenced: Collection[str] = (),
) -> Prefix:
    """Build the prefix, with two of the four cache breakpoints: on the last built-in tool, and on the system prompt.

    `referenced` are the tools that the conversation refers to, which loads them where the provider knows it.

    Deferred tools are left out, or marked for a provider that knows it. Those that were loaded in words stand behind
    all others, in the order in which they were.
    """
    by_reference = deferral.hidden | deferral.deferred.intersection(referenced)
    late = [toolset.by_name[name] for name in deferral.loaded if name in deferral.deferred and name in toolset.by_name]
    at_once = [tool for tool in toolset.tools if tool.name not in deferral.deferred]
    # All that there are, in their order: what is marked is no part of what the provider caches.
    marked = [tool for tool in toolset.tools if tool.name in by_reference or tool.name not in deferral.deferred]
    built_in = [tool.name for tool in at_once if tool.source == "built-in" and not tool.deferred]
    writer = _ToolWriter(view, by_reference, built_in[-1] if built_in else None)
    late_with_extras = [tool for tool in late if tool.name not in by_reference]
    return Prefix(
        _encode_system(system),
        orjson.dumps([writer.describe(tool) for tool in (*at_once, *late)]),
        orjson.dumps([writer.describe_with_extras(tool) for tool in (*marked, *late_with_extras)]),
        frozenset(tool.name for tool in marked if tool.name in by_reference),
    )


def _encode_system(system: str) -> bytes:
    return orjson.dumps([{"type": "text", "text": system, **_CACHED}])


@dataclass(frozen=True, slots=True)
class _ToolWriter:
    view: SessionView
    by_reference: frozenset[str]
    breakpoint_at: str | None
    """The tool that has the cache breakpoint."""
    allowance: Allowance = field(default_factory=Allowance)

    def describe(self, tool: AnyTool) -> dict[str, Any]:
        cached = _CACHED if tool.name == self.breakpoint_at else {}
        return {
            "name": tool.name,
            "description": tool.description(self.view),
            "input_schema": tool.input_schema(self.view),
            **cached,
        }

    def describe_with_extras(self, tool: AnyTool) -> dict[str, Any]:
        plain = self.describe(tool)
        if tool.name in self.by_reference:
            return plain | {"defer_loading": True}
        return plain | _build_extras(tool, plain["input_schema"], self.allowance)


def _build_extras(tool: AnyTool, schema: dict[str, Any], allowance: Allowance) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if tool.strict and (strict := build_strict_schema(schema)) is not None and allowance.take(strict):
        extras |= {"strict": True, "input_schema": strict}
    if tool.input_examples:
        extras["input_examples"] = list(tool.input_examples)
    return extras

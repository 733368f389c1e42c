"""The prompt prefix: the system prompt and the tools that every request begins with, the same bytes each time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.server.engine.context.tokens import BYTES_PER_TOKEN
from ostler.server.models.tool_extras import Allowance, build_strict_schema
from ostler.tools.context import SessionView
from ostler.tools.registry import ToolSet
from ostler.tools.tool import AnyTool

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class Prefix:
    system: bytes
    tools: bytes
    """For every provider."""
    tools_with_extras: bytes
    """For one that knows `strict` and `input_examples`."""

    def count_tokens(self, *, with_extras: bool) -> int:
        """An estimate of what it takes of the window."""
        return (len(self.system) + len(self.tools_with_extras if with_extras else self.tools)) // BYTES_PER_TOKEN

    def as_json(self) -> dict[str, str]:
        """Its tools, for a session that is to send the same ones."""
        return {"plain": self.tools.decode(), "with_extras": self.tools_with_extras.decode()}


def repeat_prefix(system: str, tools: Mapping[str, str]) -> Prefix:
    """The prefix of a fork: with the tools as its parent sent them."""
    return Prefix(_encode_system(system), tools["plain"].encode(), tools["with_extras"].encode())


def make_prefix(system: str, toolset: ToolSet, view: SessionView) -> Prefix:
    """Build the prefix, with two of the four cache breakpoints: on the last built-in tool, and on the system prompt."""
    allowance = Allowance()
    tools: list[dict[str, Any]] = []
    with_extras: list[dict[str, Any]] = []
    last_built_in = -1
    for tool in toolset.tools:
        if tool.source == "built-in" and not tool.deferred:
            last_built_in = len(tools)
        plain: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description(view),
            "input_schema": tool.input_schema(view),
        }
        tools.append(plain)
        with_extras.append(plain | _build_extras(tool, plain["input_schema"], allowance))
    if last_built_in >= 0:
        tools[last_built_in] = tools[last_built_in] | _CACHED
        with_extras[last_built_in] = with_extras[last_built_in] | _CACHED
    return Prefix(_encode_system(system), orjson.dumps(tools), orjson.dumps(with_extras))


def _encode_system(system: str) -> bytes:
    return orjson.dumps([{"type": "text", "text": system, **_CACHED}])


def _build_extras(tool: AnyTool, schema: dict[str, Any], allowance: Allowance) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if tool.strict and (strict := build_strict_schema(schema)) is not None and allowance.take(strict):
        extras |= {"strict": True, "input_schema": strict}
    if tool.input_examples:
        extras["input_examples"] = list(tool.input_examples)
    return extras

"""What every request begins with: the system prompt and the tools, the same bytes each time."""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.tools.context import Surroundings
from ostler.tools.registry import ToolSet

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class Prefix:
    system: bytes
    tools: bytes


def make_prefix(system: str, toolset: ToolSet, surroundings: Surroundings) -> Prefix:
    """Two of the four breakpoints for the cache: on the last built-in tool, and on the system prompt."""
    tools: list[dict[str, Any]] = []
    last_built_in = -1
    for tool in toolset.tools:
        if tool.source == "built-in" and not tool.deferred:
            last_built_in = len(tools)
        tools.append(
            {
                "name": tool.name,
                "description": tool.description(surroundings),
                "input_schema": tool.input_schema(surroundings),
            }
        )
    if last_built_in >= 0:
        tools[last_built_in] |= _CACHED
    return Prefix(orjson.dumps([{"type": "text", "text": system, **_CACHED}]), orjson.dumps(tools))

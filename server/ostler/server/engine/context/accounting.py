"""What fills the window: the parts of a request, each with its share of the tokens."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from ostler.protocol.config import Config
from ostler.protocol.context import ContextPart, PartName
from ostler.protocol.patterns import compile_later
from ostler.server.engine.context.clearing import SKILL_TOOL
from ostler.tools.token_estimate import BYTES_PER_TOKEN, estimate_block

MAX_ANSWER_TOKENS: Final = 20_000
"""Room for an answer that is kept free at the most."""
_INSTRUCTIONS: Final = compile_later(r'<ostler-instructions id="(\w+)".*?</ostler-instructions id="\1">', re.DOTALL)
_MEMORY: Final = compile_later(r'<ostler-memory id="(\w+)".*?</ostler-memory id="\1">', re.DOTALL)
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def compute_threshold(window: int, max_output: int, config: Config) -> int:
    """The tokens above which the conversation is compacted."""
    # Of a small window, an answer does not take more than a quarter.
    room = min(max_output, MAX_ANSWER_TOKENS, window // 4)
    return int(config.context.compact_at * (window - room))


def measure_parts(
    system: str, tools: Iterable[Mapping[str, Any]], messages: Iterable[Mapping[str, Any]]
) -> dict[PartName, int]:
    """Our estimate of each part; blocks for a moment, where the history is long."""
    instructions = sum(len(found[0].encode()) for found in _INSTRUCTIONS.finditer(system))
    memory = sum(len(found[0].encode()) for found in _MEMORY.finditer(system))
    sizes: dict[PartName, int] = {
        "prompt": _to_tokens(len(system.encode()) - instructions - memory),
        "tools": 0,
        "instructions": _to_tokens(instructions),
        "memory": _to_tokens(memory),
        "skills": 0,
        "messages": 0,
        "results": 0,
        "thinking": 0,
    }
    for tool in tools:
        if "defer_loading" not in tool:  # what is sent to be loaded later takes nothing
            sizes["skills" if tool["name"] == SKILL_TOOL else "tools"] += _to_tokens(len(orjson.dumps(tool)))
    for message in messages:
        for block in message["content"]:
            sizes[_find_part(block)] += estimate_block(block)
    return sizes


def scale_parts(sizes: Mapping[PartName, int], used: int) -> list[ContextPart]:
    """The parts in tokens of the provider: their sum is what it counted."""
    whole = sum(sizes.values())
    parts: list[ContextPart] = []
    before = counted = 0
    for name, size in sizes.items():
        # The difference of two rounded sums, so that nothing is lost by rounding.
        counted += size
        reached = used * counted // whole if whole else 0
        parts.append(ContextPart(name=name, tokens=reached - before))
        before = reached
    return parts


def _find_part(block: Mapping[str, Any]) -> PartName:
    if block["type"] == "tool_result":
        return "results"
    return "thinking" if block["type"] in _THINKING else "messages"


def _to_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)

"""What the API demands of tools that run on its own side, and of their blocks in a conversation that goes on."""

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

_SEARCHES: Final = frozenset({"web_search_20250305"})
_FIELDS: Final = frozenset(
    {"type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location", "cache_control"}
)


def is_server_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type", "custom") != "custom"


def find_tool_problems(tool: Json, place: str) -> Iterator[str]:
    """Of one whose `type` says that the API runs it."""
    if tool["type"] not in _SEARCHES:
        yield f"{place}.type: {tool['type']!r} is no tool of ours"
        return
    if tool.get("name") != "web_search":
        yield f"{place}.name: must be 'web_search'"
    for name in tool.keys() - _FIELDS:
        yield f"{place}.{name}: this field does not exist"
    uses = tool.get("max_uses")
    if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
        yield f"{place}.max_uses: a number of at least 1 is required"
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield f"{place}: allowed_domains and blocked_domains cannot be used together"
    for name in ("allowed_domains", "blocked_domains"):
        for domain in tool.get(name) or ():
            if not isinstance(domain, str) or "://" in domain or "*" in domain.partition("/")[0] or not domain:
                yield f"{place}.{name}: {domain!r} is no domain"


def find_block_problems(block: Json, place: str) -> Iterator[str]:
    """Of a call that the API made itself, or of its result, as they are sent back."""
    if block["type"] == "server_tool_use":
        if not str(block.get("id", "")).startswith("srvtoolu_"):
            yield f"{place}.id: must begin with 'srvtoolu_'"
        if not isinstance(block.get("input"), dict):
            yield f"{place}.input: an object is required"
        return
    found = block.get("content")
    if isinstance(found, dict):
        if found.get("type") != "web_search_tool_result_error":
            yield f"{place}.content: is neither a list nor an error"
        return
    for index, page in enumerate(found if isinstance(found, list) else [None]):
        if not isinstance(page, dict) or not isinstance(page.get("encrypted_content"), str):
            yield f"{place}.content.{index}.encrypted_content: results must be given back as they came"


def find_unpaired(blocks: list[Json], place: str) -> Iterator[str]:
    """A result stands after its call, in the same message."""
    made: set[str] = set()
    for block in blocks:
        if block["type"] == "server_tool_use":
            made.add(block.get("id", ""))
        elif block["type"] == "web_search_tool_result" and block.get("tool_use_id") not in made:
            yield f"{place}: web_search_tool_result without its server_tool_use: {block.get('tool_use_id')}"

"""What the real Messages API refuses, and what we demand of ourselves beyond it."""

import base64
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from tests.support.messages_api import server_tools, tool_extras

_FIELDS: Final = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "metadata",
        "tool_choice",
        "thinking",
        "service_tier",
        "container",
        "context_management",
        "mcp_servers",
        "output_config",
        "inference_geo",
    }
)
_USER_BLOCKS: Final = frozenset({"text", "image", "document", "search_result", "tool_result"})
_ASSISTANT_BLOCKS: Final = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result"}
)
_MAX_BREAKPOINTS: Final = 4

Json = dict[str, Any]


def find_problems(body: Any) -> Iterator[str]:
    """Everything that is wrong with a request. What comes first would be the API's answer."""
    if not isinstance(body, dict):
        yield "the body must be an object"
        return
    yield from _check_fields(body)
    yield from _check_tools(body.get("tools", []))
    yield from _check_system(body.get("system", []))
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        yield "messages: a list of objects is required"
        return
    shape = list(_check_messages(messages))
    yield from shape
    if not shape:
        yield from tool_extras.check_references(body.get("tools", []), messages)
        yield from _check_roles(messages)
        yield from _check_pairs(messages)
        yield from _check_breakpoints(body, messages)


def ends_with_assistant(body: Json) -> bool:
    """The API refuses this, save where the assistant was paused and goes on."""
    last: Json = body["messages"][-1]
    return bool(last["role"] == "assistant")


def _check_fields(body: Json) -> Iterator[str]:
    for name in body.keys() - _FIELDS:
        yield f"{name}: this field does not exist"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: a name is required"
    most = body.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        yield "max_tokens: a number of at least 1 is required"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: must be true or false"


def _check_tools(tools: Any) -> Iterator[str]:
    if not isinstance(tools, list):
        yield "tools: must be a list"
        return
    names = [tool.get("name") for tool in tools if isinstance(tool, dict)]
    if len(names) != len(set(names)):
        yield "tools: names must be unique"
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
            yield f"tools.{index}.name: a name is required"
        elif server_tools.is_server_tool(tool):
            yield from server_tools.find_tool_problems(tool, f"tools.{index}")
        elif not _is_object_schema(tool.get("input_schema")):
            yield f"tools.{index}.input_schema: a schema of type object is required"
    own = [tool for tool in tools if not server_tools.is_server_tool(tool)]
    if all(isinstance(tool, dict) and isinstance(tool.get("input_schema"), dict) for tool in own):
        yield from tool_extras.find_problems(own)


def _is_object_schema(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _check_system(system: Any) -> Iterator[str]:
    if isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: must be text or a list of text blocks"
        return
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{index}: must be a text block"
        else:
            yield from _check_text(block, f"system.{index}")


def _check_messages(messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    for index, message in enumerate(messages):
        place = f"messages.{index}"
        if message.get("role") not in ("user", "assistant"):
            yield f"{place}.role: must be user or assistant"
        for name in message.keys() - {"role", "content"}:
            yield f"{place}.{name}: this field does not exist"
        yield from _check_content(message.get("content"), message.get("role"), place)


def _check_content(content: Any, role: Any, place: str) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"{place}: content must not be empty"
        return
    if not isinstance(content, list) or not content:
        yield f"{place}: content must not be empty"
        return
    for index, block in enumerate(content):
        yield from _check_block(block, role, f"{place}.content.{index}")


def _check_block(block: Any, role: Any, place: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in (_USER_BLOCKS if role == "user" else _ASSISTANT_BLOCKS):
        yield f"{place}: a {role} message cannot hold a block of type {kind!r}"
        return
    match kind:
        case "text":
            yield from _check_text(block, place)
        case "thinking" | "redacted_thinking":
            yield from _check_thinking(block, place)
        case "tool_use":
            yield from _check_call(block, place)
        case "tool_result":
            yield from _check_result(block, place)
        case "server_tool_use" | "web_search_tool_result":
            yield from server_tools.find_block_problems(block, place)
        case "image":
            yield from _check_image(block, place)


_IMAGES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF",
}  # fmt: skip


def _check_image(block: Json, place: str) -> Iterator[str]:
    source = block.get("source", {})
    if source.get("type") != "base64":
        return
    begins = _IMAGES.get(source.get("media_type"))
    if begins is None or not base64.b64decode(source["data"]).startswith(begins):
        yield f"{place}.source: the image is not a {source.get('media_type')}"


def _check_text(block: Json, place: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str) or not text.strip():
        yield f"{place}: text must not be empty or blank"


def _check_thinking(block: Json, place: str) -> Iterator[str]:
    if "cache_control" in block:
        yield f"{place}: thinking cannot be a cache breakpoint"
    key = "signature" if block["type"] == "thinking" else "data"
    if not isinstance(block.get(key), str) or not block[key]:
        yield f"{place}.{key}: thinking must be given back as it came"
    if block["type"] == "thinking" and not isinstance(block.get("thinking"), str):
        yield f"{place}.thinking: text is required"


def _check_call(block: Json, place: str) -> Iterator[str]:
    for key in ("id", "name"):
        if not isinstance(block.get(key), str) or not block[key]:
            yield f"{place}.{key}: text is required"
    if not isinstance(block.get("input"), dict):
        yield f"{place}.input: an object is required"


def _check_result(block: Json, place: str) -> Iterator[str]:
    if not isinstance(block.get("tool_use_id"), str):
        yield f"{place}.tool_use_id: text is required"
    if not isinstance(block.get("is_error", False), bool):
        yield f"{place}.is_error: must be true or false"
    content = block.get("content", "")
    if isinstance(content, list):
        for index, inner in enumerate(content):
            if isinstance(inner, dict) and inner.get("type") == "tool_reference":
                if inner.keys() != {"type", "tool_name"} or not isinstance(inner["tool_name"], str):
                    yield f"{place}.content.{index}: a tool_reference has a tool_name and nothing else"
            elif not isinstance(inner, dict) or inner.get("type") not in _USER_BLOCKS - {"tool_result"}:
                yield f"{place}.content.{index}: cannot be in a result"
            elif inner["type"] == "text":
                yield from _check_text(inner, f"{place}.content.{index}")
            elif inner["type"] == "image":
                yield from _check_image(inner, f"{place}.content.{index}")
    elif not isinstance(content, str):
        yield f"{place}.content: must be text or a list of blocks"


def _check_roles(messages: list[Json]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "messages.0: the first message must be the user's"
    for index, (one, next_one) in enumerate(pairwise(messages), start=1):
        if one["role"] == next_one["role"]:
            yield f"messages.{index}: roles must alternate, this is the second {one['role']} message in a row"


def _check_pairs(messages: list[Json]) -> Iterator[str]:
    """Each call has its one result: at the head of the next message, in the order of the calls."""
    owed: list[str] = []
    for index, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        yield from _check_results_of(owed, blocks, f"messages.{index}")
        yield from server_tools.find_unpaired(blocks, f"messages.{index}")
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(owed) != len(set(owed)):
            yield f"messages.{index}: ids of tool_use blocks must be unique"
    if owed:
        yield f"messages.{len(messages) - 1}: tool_use without tool_result: {', '.join(owed)}"


def _check_results_of(owed: list[str], blocks: list[Json], place: str) -> Iterator[str]:
    given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for lacking in [each for each in owed if each not in given]:
        yield f"{place}: tool_use without tool_result in the next message: {lacking}"
    for extra in [each for each in given if each not in owed]:
        yield f"{place}: tool_result without tool_use in the message before: {extra}"
    if len(given) != len(set(given)):
        yield f"{place}: more than one tool_result for one tool_use"
    elif sorted(given) == sorted(owed) and given != owed:
        yield f"{place}: results must be in the order of their calls"
    if any(block["type"] != "tool_result" for block in blocks[: len(given)]):
        yield f"{place}: results must come first"


def _check_breakpoints(body: Json, messages: list[Json]) -> Iterator[str]:
    found = sum("cache_control" in block for block in _list_cacheable(body, messages))
    if found > _MAX_BREAKPOINTS:
        yield f"at most {_MAX_BREAKPOINTS} blocks may have cache_control, found {found}"


def _list_cacheable(body: Json, messages: list[Json]) -> Iterator[Json]:
    for place in ("tools", "system"):
        yield from (block for block in body.get(place, []) if isinstance(block, dict))
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            yield block
            inner = block.get("content")
            yield from inner if block["type"] == "tool_result" and isinstance(inner, list) else []

"""What the API demands of tools whose inputs must fit their schemas, of examples, and of tools that load later."""

from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

Json = dict[str, Any]

_FIELDS: Final = frozenset(
    {"name", "description", "input_schema", "cache_control", "strict", "input_examples", "type", "defer_loading"}
)
_KEYWORDS: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf"),
        *("$ref", "$defs", "description", "title", "default", "format"),
    }
)
_LIMITS: Final = {"tools": 20, "optional parameters": 24, "parameters with union types": 16}


def find_problems(tools: list[Json]) -> Iterator[str]:
    """Only what is wrong; tools without extras have nothing to be wrong."""
    for index, tool in enumerate(tools):
        for name in tool.keys() - _FIELDS:
            yield f"tools.{index}.{name}: this field does not exist"
        for example in tool.get("input_examples", ()):
            if not jsonschema_rs.is_valid(tool["input_schema"], example):
                yield f"tools.{index}.input_examples: does not match input_schema"
    yield from _check_deferred(tools)
    strict = [tool["input_schema"] for tool in tools if tool.get("strict")]
    yield from (text for schema in strict for text in _check_strict_schema(schema))
    parts = [part for schema in strict for part in _walk(schema)]
    counts = {
        "tools": len(strict),
        "optional parameters": sum(
            len(part.get("properties", {}).keys() - set(part.get("required", ()))) for part in parts
        ),
        "parameters with union types": sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts),
    }
    for what, count in counts.items():
        if count > _LIMITS[what]:
            yield f"Schemas contains too many {what} ({count}), which would make grammar compilation inefficient"


def _check_deferred(tools: list[Json]) -> Iterator[str]:
    for tool in tools:
        if not isinstance(tool.get("defer_loading", False), bool):
            yield f"tools.{tool['name']}.defer_loading: must be true or false"
        if tool.get("defer_loading") and "cache_control" in tool:
            yield f"Tool '{tool['name']}' cannot have both defer_loading=true and cache_control set."
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "At least one tool must have defer_loading=false. All tools cannot be deferred."


def check_references(tools: list[Json], messages: list[Json]) -> Iterator[str]:
    """A reference can only be followed to a tool that is there, and deferred."""
    deferred = {tool["name"] for tool in tools if tool.get("defer_loading")}
    for name in _list_references(messages):
        if name not in deferred:
            yield f"Tool reference '{name}' not found in available tools"


def _list_references(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            content = block.get("content")
            if block["type"] == "tool_result" and isinstance(content, list):
                yield from (inner["tool_name"] for inner in content if inner["type"] == "tool_reference")


def _check_strict_schema(schema: Json) -> Iterator[str]:
    for part in _walk(schema):
        for keyword in part.keys() - _KEYWORDS:
            yield f"tools: for strict tools, property '{keyword}' is not supported"
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            yield "tools: for strict tools, 'additionalProperties' must be explicitly set to false"


def _walk(schema: Json) -> Iterator[Json]:
    yield schema
    below = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    for part in [*below, *([schema["items"]] if "items" in schema else [])]:
        yield from _walk(part)

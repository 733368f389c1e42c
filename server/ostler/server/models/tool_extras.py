"""Strict tool schemas, the main one of the tool extras: the provider makes sure that a call's input fits the schema.

It makes a grammar of such a schema, which not everything in JSON Schema can be: bounds are said in words instead, and a
tool with something that has no words is sent as it is. All grammars of one request share an allowance; a request that
exceeds it is refused as a whole.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = dict[str, Any]

_MAX_STRICT_TOOLS: Final = 20
_MAX_OPTIONAL: Final = 24
_MAX_UNIONS: Final = 16
_KEPT_KEYWORDS: Final = frozenset({"type", "enum", "const", "$ref", "required", "format", "description"})
_KEYWORD_PHRASES: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


class _Inexpressible(Exception):
    """The schema has something that no grammar says, and no words of ours."""


def build_strict_schema(schema: Schema) -> Schema | None:
    """The schema as a grammar can be made of it; None where that cannot be."""
    try:
        return _convert_schema(schema)
    except _Inexpressible:
        return None


def _convert_schema(schema: Schema) -> Schema:
    converted: Schema = {}
    phrases: list[str] = []
    for keyword, value in schema.items():
        if keyword in _KEPT_KEYWORDS:
            converted[keyword] = value
        elif keyword in _KEYWORD_PHRASES:
            phrases.append(_KEYWORD_PHRASES[keyword].format(value))
        else:
            converted |= _convert_keyword(keyword, value)
    if "default" in schema and schema["default"] is not None:
        phrases.append(f"{json.dumps(schema['default'])} if not given")
    if phrases:
        converted["description"] = " ".join(filter(None, (converted.get("description"), f"({', '.join(phrases)})")))
    if converted.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise _Inexpressible
    return converted


def _convert_keyword(keyword: str, value: Any) -> Schema:
    match keyword:
        case "properties":
            return {keyword: {name: _convert_schema(_drop_null_choice(each)) for name, each in value.items()}}
        case "$defs":
            return {keyword: {name: _convert_schema(each) for name, each in value.items()}}
        case "items":
            return {keyword: _convert_schema(value)}
        case "anyOf":
            return {keyword: [_convert_schema(each) for each in value]}
        case "additionalProperties" if value is False:
            return {keyword: value}
        case "default":
            return {}
        case _:
            raise _Inexpressible


def _drop_null_choice(parameter: Schema) -> Schema:
    """A parameter that may be left out need not take null as well: each choice makes the grammar larger."""
    if "default" not in parameter or parameter["default"] is not None:
        return parameter
    choices = [each for each in parameter.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return parameter
    return {**choices[0], **{keyword: value for keyword, value in parameter.items() if keyword != "anyOf"}}


@dataclass(slots=True)
class Allowance:
    """What is left for the grammars of one request."""

    tools: int = _MAX_STRICT_TOOLS
    optional: int = _MAX_OPTIONAL
    unions: int = _MAX_UNIONS

    def take(self, schema: Schema) -> bool:
        """Whether one more schema fits; if so, what it needs is subtracted."""
        optional, unions = _count_choices(schema)
        if self.tools < 1 or self.optional < optional or self.unions < unions:
            return False
        self.tools -= 1
        self.optional -= optional
        self.unions -= unions
        return True


def _count_choices(schema: Schema) -> tuple[int, int]:
    """How many parameters may be left out, and how many have a choice of types."""
    optional = len(schema.get("properties", {}).keys() - set(schema.get("required", ())))
    unions = int("anyOf" in schema)
    for part in _list_subschemas(schema):
        below = _count_choices(part)
        optional, unions = optional + below[0], unions + below[1]
    return optional, unions


def _list_subschemas(schema: Schema) -> Iterator[Schema]:
    for keyword in ("properties", "$defs"):
        yield from schema.get(keyword, {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]

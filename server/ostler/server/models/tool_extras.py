"""What a tool says beside its schema, to a provider that knows it: that its inputs must fit, and examples of them.

A schema that inputs must fit becomes a grammar, which not everything in JSON Schema can be: bounds are said in words
instead, and a tool with something that has no words is sent as it is. All grammars of one request share an allowance;
who exceeds it has the whole request refused.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = dict[str, Any]

_MOST_TOOLS: Final = 20
_MOST_OPTIONAL: Final = 24
_MOST_UNIONS: Final = 16
_AS_THEY_ARE: Final = frozenset({"type", "enum", "const", "$ref", "required", "format", "description"})
_IN_WORDS: Final[Mapping[str, str]] = {
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


def strict_schema(schema: Schema) -> Schema | None:
    """The schema as a grammar can be made of it; None where that cannot be."""
    try:
        return _strict(schema)
    except _Inexpressible:
        return None


def _strict(schema: Schema) -> Schema:
    made: Schema = {}
    words: list[str] = []
    for keyword, value in schema.items():
        if keyword in _AS_THEY_ARE:
            made[keyword] = value
        elif keyword in _IN_WORDS:
            words.append(_IN_WORDS[keyword].format(value))
        else:
            made |= _stricter(keyword, value)
    if "default" in schema and schema["default"] is not None:
        words.append(f"{json.dumps(schema['default'])} if not given")
    if words:
        made["description"] = " ".join(filter(None, (made.get("description"), f"({', '.join(words)})")))
    if made.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise _Inexpressible
    return made


def _stricter(keyword: str, value: Any) -> Schema:
    match keyword:
        case "properties":
            return {keyword: {name: _strict(_when_given(each)) for name, each in value.items()}}
        case "$defs":
            return {keyword: {name: _strict(each) for name, each in value.items()}}
        case "items":
            return {keyword: _strict(value)}
        case "anyOf":
            return {keyword: [_strict(each) for each in value]}
        case "additionalProperties" if value is False:
            return {keyword: value}
        case "default":
            return {}
        case _:
            raise _Inexpressible


def _when_given(parameter: Schema) -> Schema:
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

    tools: int = _MOST_TOOLS
    optional: int = _MOST_OPTIONAL
    unions: int = _MOST_UNIONS

    def take(self, schema: Schema) -> bool:
        """Whether there is room for one more; what it takes is gone then."""
        optional, unions = _size(schema)
        if self.tools < 1 or self.optional < optional or self.unions < unions:
            return False
        self.tools -= 1
        self.optional -= optional
        self.unions -= unions
        return True


def _size(schema: Schema) -> tuple[int, int]:
    """How many parameters may be left out, and how many have a choice of types."""
    optional = len(schema.get("properties", {}).keys() - set(schema.get("required", ())))
    unions = int("anyOf" in schema)
    for part in _parts(schema):
        below = _size(part)
        optional, unions = optional + below[0], unions + below[1]
    return optional, unions


def _parts(schema: Schema) -> Iterator[Schema]:
    for keyword in ("properties", "$defs"):
        yield from schema.get(keyword, {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]

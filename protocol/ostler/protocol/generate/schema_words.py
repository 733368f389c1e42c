"""A schema in words, as the tables of the reference page have it."""

import json
from typing import Any, Final

from pydantic import TypeAdapter

from ostler.protocol.generate.schema import Schema
from ostler.protocol.wire import Time, Usd

# Patterns that have a name; the others are shown as they are.
_FORMATS: Final[dict[str, str]] = {
    TypeAdapter(Time).json_schema()["pattern"]: "time",
    TypeAdapter(Usd).json_schema()["pattern"]: "decimal string",
}


def link_shape(name: str) -> str:
    return f"[{name}](#{make_anchor('shape', name)})"


def make_anchor(kind: str, name: str) -> str:
    """Where something stands on the page."""
    return f"{kind}-" + "".join(char if char.isalnum() else "-" for char in name.lower())


def format_code(value: Any) -> str:
    """A value as it stands in JSON; a word without its quotes."""
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def describe_type(schema: Schema) -> str:
    *others, last = _describe_options(schema)
    return f"{', '.join(others)} or {last}" if others else last


def _describe_options(schema: Schema) -> list[str]:
    match schema:
        case {"$ref": name}:
            return [link_shape(name)]
        case {"const": value}:
            return [format_code(value)]
        case {"enum": values}:
            return [format_code(value) for value in values]
        case {"anyOf": options}:
            return list(dict.fromkeys(word for option in options for word in _describe_options(option)))
        case {"type": "array"}:
            return [f"list{_describe_bounds(schema)} of {describe_type(schema.get('items', {}))}"]
        case {"type": "object", "patternProperties": properties}:
            return [f"object of {describe_type(inner)}" for inner in properties.values()]
        case {"pattern": str(pattern)} if pattern in _FORMATS:
            return [_FORMATS[pattern]]
        case {"type": str(kind)}:
            return [kind + _describe_bounds(schema)]
        case _:
            return ["any JSON"]


def _describe_bounds(schema: Schema) -> str:
    parts = [
        f"over {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else "",
        _describe_range(schema.get("minimum"), schema.get("maximum"), ""),
        _describe_range(schema.get("minLength"), schema.get("maxLength"), " characters"),
        _describe_range(schema.get("minItems"), schema.get("maxItems"), ""),
        f"like `{schema['pattern']}`" if "pattern" in schema else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""


def _describe_range(least: float | None, most: float | None, unit: str) -> str:
    if least is not None and most is not None:
        return f"{_format_number(least)} to {_format_number(most)}{unit}"
    if most is not None:
        return f"at most {_format_number(most)}{unit}"
    return f"at least {_format_number(least)}{unit}" if least is not None else ""


def _format_number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.10g}"


def describe_default(schema: Schema, *, required: bool) -> str:
    """What it means to leave the field out."""
    if required:
        return "required"
    if "default" not in schema:
        return "stays"
    # An object of ours is written in full under its own name, and `{}` is what all its defaults come to.
    return "`{}`" if "$ref" in schema else format_code(schema["default"])

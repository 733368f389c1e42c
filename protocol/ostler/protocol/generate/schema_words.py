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


def shape_link(name: str) -> str:
    return f"[{name}](#{anchor('shape', name)})"


def anchor(kind: str, name: str) -> str:
    """Where something stands on the page."""
    return f"{kind}-" + "".join(char if char.isalnum() else "-" for char in name.lower())


def code(value: Any) -> str:
    """A value as it stands in JSON; a word without its quotes."""
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def type_in_words(schema: Schema) -> str:
    *others, last = _options(schema)
    return f"{', '.join(others)} or {last}" if others else last


def _options(schema: Schema) -> list[str]:
    match schema:
        case {"$ref": name}:
            return [shape_link(name)]
        case {"const": value}:
            return [code(value)]
        case {"enum": values}:
            return [code(value) for value in values]
        case {"anyOf": options}:
            return list(dict.fromkeys(word for option in options for word in _options(option)))
        case {"type": "array"}:
            return [f"list{_bounds(schema)} of {type_in_words(schema.get('items', {}))}"]
        case {"type": "object", "patternProperties": properties}:
            return [f"object of {type_in_words(inner)}" for inner in properties.values()]
        case {"pattern": str(pattern)} if pattern in _FORMATS:
            return [_FORMATS[pattern]]
        case {"type": str(kind)}:
            return [kind + _bounds(schema)]
        case _:
            return ["any JSON"]


def _bounds(schema: Schema) -> str:
    parts = [
        f"over {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else "",
        _range(schema.get("minimum"), schema.get("maximum"), ""),
        _range(schema.get("minLength"), schema.get("maxLength"), " characters"),
        _range(schema.get("minItems"), schema.get("maxItems"), ""),
        f"like `{schema['pattern']}`" if "pattern" in schema else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""


def _range(least: float | None, most: float | None, unit: str) -> str:
    if least is not None and most is not None:
        return f"{_number(least)} to {_number(most)}{unit}"
    if most is not None:
        return f"at most {_number(most)}{unit}"
    return f"at least {_number(least)}{unit}" if least is not None else ""


def _number(value: float) -> str:
    return f"{value:,.10g}"


def default_in_words(schema: Schema, *, required: bool) -> str:
    """What it means to leave the field out."""
    if required:
        return "required"
    if "default" not in schema:
        return "stays"
    # An object of ours is written in full under its own name, and `{}` is what all its defaults come to.
    return "`{}`" if "$ref" in schema else code(schema["default"])

"""Schemas that inputs must fit: what becomes words, what cannot be said, and how much of it a request may have."""

from typing import Any

from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from ostler.server.models.pricing import knows_extras
from ostler.server.models.tool_extras import Allowance, build_strict_schema
from tests.support.tables import try_each


def make_schema(optional: int = 0, **properties: Any) -> dict[str, Any]:
    for number in range(optional):
        properties[f"extra{number}"] = {"type": "string"}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def build_parameter(schema: dict[str, Any]) -> Any:
    made = build_strict_schema(make_schema(x=schema))
    return made["properties"]["x"] if made else None


def test_bounds_and_defaults_are_said_in_words() -> None:
    bounded = {"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "description": "How many."}
    assert build_parameter(bounded) == {
        "type": "integer",
        "description": "How many. (at least 1, at most 9, 3 if not given)",
    }
    assert build_parameter({"type": "string", "maxLength": 4}) == {
        "type": "string",
        "description": "(at most 4 characters)",
    }
    assert build_parameter({"type": "number", "exclusiveMinimum": 0})["description"] == "(more than 0)"
    listed = {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 4}
    assert build_parameter(listed)["items"] == {"type": "string", "description": "(at least 1 characters)"}


def test_what_may_be_left_out_need_not_be_null() -> None:
    optional = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None, "description": "N."}
    assert build_parameter(optional) == {"type": "integer", "description": "N. (at least 0)"}
    two = {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "default": None}
    assert build_parameter(two) == {"anyOf": two["anyOf"]}
    # Null is an answer of its own where it has to be given.
    required = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert build_parameter(required) == required


@try_each(
    "schema",
    [
        {"type": "string", "pattern": "^a"},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"oneOf": [{"type": "string"}]},
        {"type": "array", "uniqueItems": True},
        {"anyOf": [{"type": "array", "items": {"not": {}}}]},
    ],
)
def test_what_no_grammar_says_keeps_a_tool_plain(schema: dict[str, Any]) -> None:
    assert build_strict_schema(make_schema(x=schema)) is None


def test_parts_that_others_refer_to_are_made_strict_too() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": False}
    made = build_strict_schema({**make_schema(x={"$ref": "#/$defs/Item"}), "$defs": {"Item": item}})
    assert made is not None
    assert made["$defs"]["Item"]["properties"]["n"] == {"type": "integer", "description": "(at least 1)"}


def test_a_parameter_may_be_called_like_a_keyword() -> None:
    made = build_strict_schema(make_schema(pattern={"type": "string"}, default={"type": "boolean", "default": False}))
    assert made is not None
    assert list(made["properties"]) == ["pattern", "default"]


def test_what_is_left_over_is_for_the_next_tool() -> None:
    allowance = Allowance()
    assert allowance.take(make_schema(20))
    assert not allowance.take(make_schema(5))
    assert allowance.take(make_schema(4))
    assert not allowance.take(make_schema(1))
    assert allowance.take(make_schema())


def test_unions_and_tools_are_counted_too() -> None:
    union = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    many: dict[str, Any] = {f"u{n}": union for n in range(16)}
    required = {**make_schema(**many), "required": list(many)}
    allowance = Allowance()
    assert allowance.take(required)
    assert not allowance.take({**make_schema(u=union), "required": ["u"]})
    assert [allowance.take(make_schema()) for _ in range(20)] == [True] * 19 + [False]


@try_each(
    ("model", "knows"),
    [
        ("claude-sonnet-5", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-opus-4-6", True),
        ("anthropic/claude-haiku-4-5", True),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-3-7-sonnet-latest", False),
        ("qwen3", False),
    ],
)
def test_models_that_know_them(model: str, knows: bool) -> None:
    assert knows_extras(model) is knows


def test_only_the_maker_is_taken_to_know_them_unless_the_person_says_so() -> None:
    def takes(base_url: str | None, model: str = "claude-sonnet-5", **settings: Any) -> bool:
        return AnthropicProvider(AnthropicSettings(base_url, "key", **settings)).takes_extras(model)

    assert takes(None)
    assert takes("https://api.anthropic.com")
    assert not takes("https://api.anthropic.com.example.org")
    assert not takes("http://127.0.0.1:11434")
    assert not takes(None, "claude-3-haiku-20240307")
    assert not takes(None, tool_extras="never")
    assert takes("http://127.0.0.1:11434", "qwen3", tool_extras="always")

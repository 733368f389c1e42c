"""The models as JSON Schema: what OpenRPC, the TypeScript types and the reference page are made from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from ostler.protocol.config import Config
from ostler.protocol.content import Block
from ostler.protocol.errors import OSTLER_ERRORS
from ostler.protocol.events import EVENT_TYPES, Event
from ostler.protocol.generate.docstrings import read_field_docstrings
from ostler.protocol.limits import PROTOCOL_VERSION
from ostler.protocol.methods import METHODS
from ostler.protocol.session import SessionUpdate

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ERROR_WORD: Final = "ErrorWord"

# Params in which leaving a field out is not the same as giving its default: what is left out stays as it is.
_PARTIAL: Final = (SessionUpdate,)


class WireSchema(GenerateJsonSchema):
    """JSON Schema that says what is really sent."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        # A title would only be the field's name again, in capitals.
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        # A default is for whoever leaves a field out, and the daemon does not.
        if self.mode == "serialization":
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        # Any, not one: a block of a kind that we know also looks like one of a kind that we don't.
        union = super().tagged_union_schema(schema)
        return {"anyOf": union["oneOf"]}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        built = super().model_schema(schema)
        if self.mode == "serialization":
            built["required"] = _list_required(schema["cls"], built)
        else:
            _require_kinds(built)
        if issubclass(schema["cls"], _PARTIAL):
            for field in built["properties"].values():
                field.pop("default", None)
        for name, text in read_field_docstrings(schema["cls"]).items():
            built["properties"][name].setdefault("description", text)
        return built


def _require_kinds(schema: Schema) -> None:
    """Require the field that says of which kind a thing is: the models have a default for it, the wire has not."""
    kinds = [name for name, field in schema.get("properties", {}).items() if "const" in field]
    for name in kinds:
        schema["properties"][name].pop("default", None)
    if kinds:
        schema["required"] = [*kinds, *(name for name in schema.get("required", ()) if name not in kinds)]


def _list_required(model: type[BaseModel], schema: Schema) -> list[str]:
    declared: list[str] = schema.get("required", [])
    if issubclass(model, Event):
        # Only what is not stored says what it comes after.
        return [name for name in schema["properties"] if name != "after"]
    if issubclass(model, Block):
        # A block is passed on as it came, and of all it may leave out its kind is never missing.
        return ["type", *(name for name in declared if name != "type")]
    return list(schema.get("properties", {}))


def build_wire_definitions(prefix: str) -> dict[str, Schema]:
    """Every model of the wire by name; references to them are `prefix` and the name."""
    _, whole = models_json_schema(_list_models(), ref_template=prefix + "{model}", schema_generator=WireSchema)
    found: dict[str, Schema] = {**whole["$defs"], ERROR_WORD: _build_error_words()}
    return dict(sorted(found.items()))


def build_config_definitions(prefix: str) -> dict[str, Schema]:
    """`config.toml` and its sections, whose names begin with `Config` so that they are nobody else's."""
    whole = Config.model_json_schema(ref_template=f"{prefix}Config{{model}}", schema_generator=WireSchema)
    sections = {f"Config{name}": section for name, section in whole.pop("$defs").items()}
    return {"Config": whole, **{name: {**section, "title": name} for name, section in sections.items()}}


def _list_models() -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    received: list[type[BaseModel]] = [method.params for method in METHODS.values()]
    sent: list[type[BaseModel]] = [Event, *(method.result for method in METHODS.values())]
    sent += [event.data for event in EVENT_TYPES.values()]
    return [*((model, "validation") for model in received), *((model, "serialization") for model in sent)]


def _build_error_words() -> Schema:
    return {
        "description": "The word in `data.code` of an error of the daemon's own.",
        "enum": sorted(OSTLER_ERRORS),
        "title": ERROR_WORD,
        "type": "string",
    }


def build_json_schema() -> Schema:
    """One JSON Schema with a definition for everything that is sent, and for `config.toml`."""
    found = {**build_wire_definitions("#/$defs/"), **build_config_definitions("#/$defs/")}
    return {
        "$schema": DIALECT,
        "title": "ostler",
        "description": f"What is sent between ostler and its clients, protocol version {PROTOCOL_VERSION}.",
        "$defs": dict(sorted(found.items())),
    }


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of `config.toml`."""

    key: str
    """Its dotted name."""
    schema: Schema
    section: str
    """What the settings beside it are about."""

    @property
    def meaning(self) -> str:
        return str(self.schema.get("description", ""))

    @property
    def environment(self) -> str:
        """The variable that sets it for one start."""
        return "OSTLER_" + self.key.upper().replace(".", "__")


def list_settings() -> Iterator[Setting]:
    """Every setting, in the order of the file."""
    return _walk_settings(build_config_definitions(""), "Config", "")


def _walk_settings(found: dict[str, Schema], name: str, path: str) -> Iterator[Setting]:
    for field, schema in found[name]["properties"].items():
        if "$ref" in schema:
            yield from _walk_settings(found, schema["$ref"], f"{path}{field}.")
        else:
            yield Setting(path + field, schema, found[name].get("description", ""))

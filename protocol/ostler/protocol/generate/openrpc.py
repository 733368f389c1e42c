"""The protocol as an OpenRPC document: the answer to `rpc.discover`."""

from typing import Any, Final

from ostler.protocol.errors import (
    OSTLER_ERRORS,
    RPC_ERRORS,
    InternalError,
    InvalidParams,
    OstlerError,
    ProtocolError,
)
from ostler.protocol.events import EVENT_TYPES, EventType
from ostler.protocol.generate.examples import load_example_results, load_examples
from ostler.protocol.generate.schema import ERROR_WORD, Schema, build_wire_definitions
from ostler.protocol.limits import DEFAULT_PORT, PROTOCOL_VERSION
from ostler.protocol.methods import METHODS, Method

OPENRPC_VERSION: Final = "1.3.2"

_SCHEMAS: Final = "#/components/schemas/"
_ERRORS: Final = "#/components/errors/"
_COMMON_ERRORS: Final = (InvalidParams, InternalError, OstlerError)


def build_openrpc(url: str = f"http://127.0.0.1:{DEFAULT_PORT}") -> dict[str, Any]:
    """Every method with its params, result and errors, and every event, of the daemon at this address."""
    schemas = build_wire_definitions(_SCHEMAS)
    return {
        "openrpc": OPENRPC_VERSION,
        "info": _build_info(),
        "servers": [{"name": "default", "url": f"{url}/rpc"}],
        "methods": [_build_method(method, schemas) for method in METHODS.values()],
        "components": {"schemas": schemas, "errors": _build_errors()},
        "x-events": [_build_event(event) for event in EVENT_TYPES.values()],
    }


def _build_info() -> dict[str, Any]:
    return {
        "title": "ostler",
        "version": PROTOCOL_VERSION,
        "description": "A daemon that owns coding-agent sessions and lets clients drive and watch them.",
        "license": {"name": "Apache-2.0"},
    }


def _build_method(method: Method[Any, Any], schemas: dict[str, Schema]) -> dict[str, Any]:
    params = schemas[method.params.__name__]
    required = params.get("required", [])
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        # The specification wants what is required first.
        "params": sorted(
            (_build_param(name, schema, name in required) for name, schema in params.get("properties", {}).items()),
            key=lambda param: not param["required"],
        ),
        "result": {"name": method.result.__name__, "schema": {"$ref": _SCHEMAS + method.result.__name__}},
        "errors": [{"$ref": _ERRORS + error.__name__} for error in _COMMON_ERRORS],
        "examples": [_build_example(method)],
        "x-locks": method.locks,
        "x-waits": method.waits,
        "x-socket-only": method.socket_only,
    }


def _build_example(method: Method[Any, Any]) -> dict[str, Any]:
    params = [{"name": name, "value": value} for name, value in load_examples()[method.name].items()]
    result = load_example_results().get(method.name)
    if result is None:
        return {"name": method.name, "params": params}
    # Through the model, so that it has fields that were added since it was written down.
    value = method.result.model_validate(result).model_dump(mode="json", by_alias=True)
    return {"name": method.name, "params": params, "result": {"name": method.name, "value": value}}


def _build_param(name: str, schema: Schema, required: bool) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    plain = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, **described, "required": required, "schema": plain}


def _build_event(event: EventType) -> dict[str, Any]:
    return {
        "type": event.name,
        "when": event.when,
        "stored": event.stored,
        "data": {"$ref": _SCHEMAS + event.data.__name__},
    }


def _build_errors() -> dict[str, Any]:
    # A method's errors must differ in their codes, and all of ours share one: methods refer to `OstlerError`,
    # and the words stand beside it for whoever looks one up.
    found = {error.__name__: _build_error(error) for error in (*RPC_ERRORS, OstlerError)}
    found[OstlerError.__name__]["data"] = {"code": {"$ref": _SCHEMAS + ERROR_WORD}}
    words = sorted(OSTLER_ERRORS.items())
    return {**found, **{word: {**_build_error(error), "data": {"code": word}} for word, error in words}}


def _build_error(error: type[ProtocolError]) -> dict[str, Any]:
    return {"code": error.code, "message": error.meaning}

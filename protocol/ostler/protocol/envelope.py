"""The JSON-RPC 2.0 envelope, apart from any transport: parsed JSON in, bytes out."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from ostler.protocol.errors import InvalidParams, InvalidRequest, ProtocolError

_TOO_LARGE: Final = 2.0**63
"""Of longer integers the parser makes floats: an answer under another id would find nobody who waits for it."""

RequestId = str | int | float | None


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    params: dict[str, Any]
    id: RequestId
    notification: bool
    """Without an `id`: it is never answered, not even with an error. `"id": null` is a request."""


def request_id(value: Any) -> RequestId:
    """The id to answer under, as far as one can be made out."""
    given = value.get("id") if isinstance(value, dict) else None
    if isinstance(given, float) and abs(given) >= _TOO_LARGE:
        return None
    return given if isinstance(given, str | int | float) and not isinstance(given, bool) else None


def is_notification(value: Any) -> bool:
    """Whether this is a well-formed call that wants no answer."""
    return isinstance(value, dict) and "id" not in value and isinstance(value.get("method"), str)


def read_request(value: Any) -> Request:
    """The request in a parsed JSON value, or the error that it deserves."""
    if not isinstance(value, dict):
        raise InvalidRequest("A request is a JSON object.")
    if value.get("jsonrpc") != "2.0":
        raise InvalidRequest('"jsonrpc" must be "2.0".')
    method = value.get("method")
    if not isinstance(method, str):
        raise InvalidRequest('"method" must be a string.')
    if "id" in value and value["id"] is not None and request_id(value) is None:
        raise InvalidRequest('"id" must be a string, a number of at most 64 bits or null.')
    return Request(method, _parse_params(value.get("params", {})), request_id(value), "id" not in value)


def _parse_params(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        raise InvalidRequest('"params" must be an object.')
    if given:
        raise InvalidParams.of("", "params are given by name, as an object, not by position")
    return {}


def success(answer_to: RequestId, result: bytes) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","id":', to_json(answer_to), b',"result":', result, b"}"))


def failure(answer_to: RequestId, error: ProtocolError) -> bytes:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data:
        body["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + to_json(answer_to) + b',"error":' + to_json(body) + b"}"

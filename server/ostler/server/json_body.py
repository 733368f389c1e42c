"""JSON from outside: bounded before it is parsed, because the parser holds everything up while it works."""

from typing import Any, Final

import orjson

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.protocol.limits import MAX_DEPTH, MAX_VALUES


def read_json(raw: bytes) -> Any:
    # Too few brackets and commas to be over a limit: almost every body.
    brackets = raw.count(b"[") + raw.count(b"{")
    if brackets > MAX_DEPTH or raw.count(b",") > MAX_VALUES:
        _check(_structure(raw))
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: {error}") from None


def _check(structure: bytes) -> None:
    # Plainly too deep is told first: taking so many brackets out pair by pair would take its time.
    if b"[" * (MAX_DEPTH + 1) in structure:
        raise ParseError(f"The JSON is nested deeper than {MAX_DEPTH}.")
    if structure.count(b",") + structure.count(b"[") > MAX_VALUES:
        raise InvalidRequest(f"The JSON holds more than {MAX_VALUES} values.")
    if _deeper_than(structure.translate(None, b","), MAX_DEPTH):
        raise ParseError(f"The JSON is nested deeper than {MAX_DEPTH}.")


_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_REST: Final = bytes(set(range(256)) - set(b'[]{},"'))


def _structure(raw: bytes) -> bytes:
    """Brackets and commas alone, all brackets square; those within strings are data and left out."""
    if b"\\" in raw:
        # Escaped quotes go first, so that every quote that is left begins or ends a string.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(raw.translate(_BRACKETS, _REST).split(b'"')[::2])


def _deeper_than(brackets: bytes, limit: int) -> bool:
    """Told without recursion and at the speed of C: each pass takes out the innermost pairs."""
    for _ in range(limit):
        if not brackets:
            return False
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            return brackets.count(b"[") > limit  # unbalanced, so not JSON anyway, unless it is too deep to tell
        brackets = shorter
    return bool(brackets)

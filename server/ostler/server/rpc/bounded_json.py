"""JSON from outside: its size limits are checked before it is parsed, because the parser blocks the event loop."""

from typing import Any, Final

import orjson

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.protocol.limits import MAX_DEPTH, MAX_VALUES


def read_json(raw: bytes) -> Any:
    check_limits(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: {error}") from None


def check_limits(raw: bytes, max_values: int = MAX_VALUES) -> None:
    """Raises ParseError where it is nested too deep, and InvalidRequest where it holds too many values."""
    # Too few brackets and commas to be over a limit: almost every body.
    brackets = raw.count(b"[") + raw.count(b"{")
    if brackets <= MAX_DEPTH and raw.count(b",") <= max_values:
        return
    raw = _strip_escapes(raw)
    # A value has at most four quotes, two of them around its name: splitting at so many would be slow.
    if raw.count(b'"') > 4 * max_values:
        raise _build_too_many_error(max_values)
    _check_structure(_extract_structure(raw), max_values)


def _check_structure(structure: bytes, max_values: int) -> None:
    # Obvious nesting is checked first: removing so many brackets pair by pair would be slow.
    if b"[" * (MAX_DEPTH + 1) in structure:
        raise ParseError(f"The JSON is nested deeper than {MAX_DEPTH}.")
    if structure.count(b",") + structure.count(b"[") > max_values:
        raise _build_too_many_error(max_values)
    if _is_deeper_than(structure.translate(None, b","), MAX_DEPTH):
        raise ParseError(f"The JSON is nested deeper than {MAX_DEPTH}.")


def _build_too_many_error(max_values: int) -> InvalidRequest:
    return InvalidRequest(f"The JSON holds more than {max_values} values.")


_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_OTHER_BYTES: Final = bytes(set(range(256)) - set(b'[]{},"'))


def _strip_escapes(raw: bytes) -> bytes:
    """Remove escaped backslashes and quotes: every quote that is left begins or ends a string."""
    return raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw


def _extract_structure(raw: bytes) -> bytes:
    """Only the brackets and commas outside of strings, with all brackets square."""
    return b"".join(raw.translate(_BRACKETS, _OTHER_BYTES).split(b'"')[::2])


def _is_deeper_than(brackets: bytes, limit: int) -> bool:
    """Checked without recursion, at the speed of C: each pass removes the innermost pairs."""
    for _ in range(limit):
        if not brackets:
            return False
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            return brackets.count(b"[") > limit  # unbalanced, so not JSON anyway, unless it is too deep to tell
        brackets = shorter
    return bool(brackets)

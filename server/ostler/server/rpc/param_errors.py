"""Error messages for invalid params: what is wrong with a field, in a short plain sentence.

pydantic's own messages speak of inputs, validation and regular expressions, and tell people less than what is expected.
"""

from typing import Any, Final

from pydantic_core import ErrorDetails

_EXPECTED: Final = {
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "string_type": "must be a string",
    "string_unicode": "must be a string of whole characters",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
}
_BOUNDED: Final = {
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "union_tag_invalid": "has the unknown {discriminator} {tag!r}; there are {expected_tags}",
    "union_tag_not_found": "must have a {discriminator}",
}
PATTERNS: Final = {
    r"^\d{1,9}(\.\d{1,9})?$": 'must be an amount as "5.00", with at most nine digits before and after the point',
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$": "must be a time as 2026-01-31T12:00:00.000Z",
    r"^[A-Za-z_][A-Za-z0-9_]{0,199}$": "must be letters, digits and `_`, at most 200, and not begin with a digit",
    r"^[\x21-\x7e]+$": "must be printable ASCII without spaces",
    r"\S": "must hold more than blanks",
    r"^https?://": "must begin with http:// or https://",
    r"^[A-Za-z0-9.:\[\]_-]+$": "must be the name or the address of a host",
    r"^(\*\.)?[A-Za-z0-9.:\[\]_-]+$": "must be the name or the address of a host, or `*.` and the end of a name",
}


def describe_error(problem: ErrorDetails) -> str:
    """Why a field cannot be used, without its path."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(context["pattern"], "has not the form that is expected")
    if _is_empty(kind, context):
        return "must not be empty"
    if kind in _BOUNDED:
        return _BOUNDED[kind].format(**context)
    words = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return _EXPECTED.get(kind, words.replace("Input should be", "must be"))


def _is_empty(kind: str, context: dict[str, Any]) -> bool:
    return kind in {"too_short", "string_too_short"} and context.get("min_length") == 1

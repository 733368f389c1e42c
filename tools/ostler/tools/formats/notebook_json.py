"""Parses and serialises the JSON of notebooks in short steps: one long call of `json` holds the interpreter's lock."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_VALUES: Final = 500_000
"""Keys count too, and lists and objects twice, since they take twice the time.

JSON without numbers and objects is parsed in one call: so many values take less than a tenth of a second.
"""
MAX_DEPTH: Final = 100
"""Each value passes through a generator per level: at the parser's own limit a megabyte takes half a minute."""
MAX_STRING: Final = 24_000_000
"""Characters of one string, which is parsed and written in one call; an escaped one takes the time of four."""
_CHUNK_CHARS: Final = 64 * 1024
"""Characters that are scanned in one call."""


def find_excess(text: str) -> str | None:
    """Which limit the text exceeds, found before it is parsed: parsing is what takes the time and the memory."""
    left, place, within, string = MAX_VALUES, 0, False, 0
    while place < len(text):
        piece = text[place : place + _CHUNK_CHARS]
        place += len(piece)
        if _ends_in_an_escape(piece) and place < len(text):
            piece, place = piece[:-1], place - 1
        parts = _remove_escapes(piece).split('"')
        # Only what is outside of strings is structure.
        left -= _count_values("".join(parts[1 if within else 0 :: 2]))
        within ^= len(parts) % 2 == 0
        # Only a string that spans the whole piece can become a long one.
        string = string + len(piece) + 3 * piece.count("\\") if within and len(parts) == 1 else 0
        if left < 0:
            return f"its JSON holds more than {MAX_VALUES} values"
        if string > MAX_STRING:
            return f"it holds a text of about {MAX_STRING} characters or more"
    return None


def _ends_in_an_escape(piece: str) -> bool:
    return (len(piece) - len(piece.rstrip("\\"))) % 2 == 1


def _remove_escapes(piece: str) -> str:
    """Removes escapes: every quote that is left begins or ends a string."""
    return piece.replace("\\\\", "").replace('\\"', "") if "\\" in piece else piece


def _count_values(structure: str) -> int:
    return sum(map(structure.count, ",:[[{{"))


def parse(text: str) -> Any:
    """Raises ValueError and RecursionError."""
    # With Python callbacks, however little they do, the interpreter's lock is released now and then.
    return json.loads(text, object_hook=_keep_object, parse_int=_parse_int, parse_float=_parse_number)


def _keep_object(found: dict[str, Any]) -> dict[str, Any]:
    return found


def _parse_int(digits: str) -> int:
    return int(digits)


class Number(float):
    """A number that is serialised as it was written: `1.10` and `1E3` stay as they are."""

    __slots__ = ("digits",)
    digits: str


def _parse_number(digits: str) -> Number:
    number = Number(digits)
    number.digits = digits
    return number


def is_deep(value: object) -> bool:
    """Whether the value is nested too deep; walks level by level, which needs no recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _list_children(each)]
    return bool(level)


def _list_children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def serialize(
    value: object,
    *,
    indent: str | None = None,
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool = False,
) -> str:
    """Serialises as json.dumps does, but value by value, and with the numbers as they were."""
    between, colon = separators or ("," if indent is not None else ", ", ": ")
    style = _Style(indent, between, colon, json.JSONEncoder(ensure_ascii=ensure_ascii))
    return "".join(_write_value(value, style, "\n"))


@dataclass(frozen=True, slots=True)
class _Style:
    indent: str | None
    between: str
    colon: str
    plain: json.JSONEncoder
    """For scalars and empty containers."""


def _write_value(value: object, style: _Style, line: str) -> Iterator[str]:
    match value:
        case dict() if value:
            yield from _write_group(
                "{}", ((style.plain.encode(name) + style.colon, value[name]) for name in value), style, line
            )
        case list() if value:
            yield from _write_group("[]", (("", each) for each in value), style, line)
        case Number():
            yield value.digits
        case int() if not isinstance(value, bool):
            yield str(value)
        case _:
            yield style.plain.encode(value)


def _write_group(braces: str, values: Iterable[tuple[str, object]], style: _Style, line: str) -> Iterator[str]:
    """`line`: line break and indentation at the level of the braces."""
    inner = "" if style.indent is None else line + style.indent
    start = braces[0] + inner
    for name, value in values:
        yield start + name
        yield from _write_value(value, style, inner)
        start = style.between + inner
    yield braces[1] if style.indent is None else line + braces[1]

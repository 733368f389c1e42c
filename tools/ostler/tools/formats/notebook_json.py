"""The JSON of notebooks, in many short steps: one long call into the json module keeps every other thread waiting."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_VALUES: Final = 500_000
"""Names count too, and lists and objects twice, since they take twice the time.

What has no number and no object in it is parsed in one go: so many values take less than a tenth of a second.
"""
MAX_DEPTH: Final = 100
"""Each value is written through all that it is in: at the parser's own limit a megabyte takes half a minute."""
MAX_STRING: Final = 24_000_000
"""Characters of one string, which is parsed and written in one go; one that is escaped takes the time of four."""
_AT_ONCE: Final = 64 * 1024
"""Characters that are looked at in one call."""


def too_much(text: str) -> str | None:
    """What it holds too much of, told before anything is made of it: that is what takes the time and the memory."""
    left, place, within, string = MAX_VALUES, 0, False, 0
    while place < len(text):
        piece = text[place : place + _AT_ONCE]
        place += len(piece)
        if _ends_in_an_escape(piece) and place < len(text):
            piece, place = piece[:-1], place - 1
        parts = _unescaped(piece).split('"')
        # What is within strings is data.
        left -= _values("".join(parts[1 if within else 0 :: 2]))
        within ^= len(parts) % 2 == 0
        # Only a string that goes through all of the piece can become a long one.
        string = string + len(piece) + 3 * piece.count("\\") if within and len(parts) == 1 else 0
        if left < 0:
            return f"its JSON holds more than {MAX_VALUES} values"
        if string > MAX_STRING:
            return f"it holds a text of about {MAX_STRING} characters or more"
    return None


def _ends_in_an_escape(piece: str) -> bool:
    return (len(piece) - len(piece.rstrip("\\"))) % 2 == 1


def _unescaped(piece: str) -> str:
    """Every quote that is left begins or ends a string."""
    return piece.replace("\\\\", "").replace('\\"', "") if "\\" in piece else piece


def _values(structure: str) -> int:
    return sum(map(structure.count, ",:[[{{"))


def parsed(text: str) -> Any:
    """Raises ValueError and RecursionError."""
    # With functions to call, however little they do, the interpreter's lock is let go now and then.
    return json.loads(text, object_hook=_as_it_is, parse_int=_integer, parse_float=_number)


def _as_it_is(found: dict[str, Any]) -> dict[str, Any]:
    return found


def _integer(digits: str) -> int:
    return int(digits)


class Number(float):
    """A number that is written again as it was: `1.10` and `1E3` are what somebody chose."""

    __slots__ = ("digits",)
    digits: str


def _number(digits: str) -> Number:
    number = Number(digits)
    number.digits = digits
    return number


def is_deep(value: object) -> bool:
    """Looked through level by level, which needs no recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _within(each)]
    return bool(level)


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def written(
    value: object,
    *,
    indent: str | None = None,
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool = False,
) -> str:
    """What json.dumps says, but a value at a time, and with the numbers as they were."""
    between, colon = separators or ("," if indent is not None else ", ", ": ")
    style = _Style(indent, between, colon, json.JSONEncoder(ensure_ascii=ensure_ascii))
    return "".join(_written(value, style, "\n"))


@dataclass(frozen=True, slots=True)
class _Style:
    indent: str | None
    between: str
    colon: str
    plain: json.JSONEncoder
    """For what has nothing in it."""


def _written(value: object, style: _Style, line: str) -> Iterator[str]:
    match value:
        case dict() if value:
            yield from _group(
                "{}", ((style.plain.encode(name) + style.colon, value[name]) for name in value), style, line
            )
        case list() if value:
            yield from _group("[]", (("", each) for each in value), style, line)
        case Number():
            yield value.digits
        case int() if not isinstance(value, bool):
            yield str(value)
        case _:
            yield style.plain.encode(value)


def _group(braces: str, values: Iterable[tuple[str, object]], style: _Style, line: str) -> Iterator[str]:
    """`line`: how a new one begins out here."""
    inner = "" if style.indent is None else line + style.indent
    start = braces[0] + inner
    for name, value in values:
        yield start + name
        yield from _written(value, style, inner)
        start = style.between + inner
    yield braces[1] if style.indent is None else line + braces[1]

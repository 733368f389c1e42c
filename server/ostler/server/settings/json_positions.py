"""Parses JSON files that people write by hand: strictly, and every error has its line and column."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from ostler.protocol.patterns import compile_later

JsonPath = tuple[str | int, ...]
"""The path to a value: names and numbers."""

_SPACE: Final = compile_later(r"[ \t\n\r]*")
_SCALAR: Final = compile_later(r"[^ \t\n\r,\]}]+")
_LONE_SURROGATE: Final = compile_later(r"[\ud800-\udfff]")
_MAX_DEPTH: Final = 64
_DECODER: Final = json.JSONDecoder()


class BadJson(ValueError):
    """The text cannot be used as a whole; where, and why."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclass(frozen=True, slots=True)
class _Member:
    path: JsonPath
    key: int
    """Where its name stands; of an element of a list, where its value does."""
    value: int


def parse(data: bytes) -> tuple[str, Any]:
    """The text and its value; `BadJson` also for what other readers would let pass, each in its own path."""
    text = _decode(data)
    repeated: list[str] = []
    try:
        value = json.loads(text, object_pairs_hook=partial(_note_repeats, repeated), parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise BadJson(_explain_error(text, error), error.lineno, error.colno) from None
    except RecursionError:
        raise BadJson("It is nested too deep.", 1, 1) from None
    except ValueError as error:
        raise BadJson(f"It is no JSON: {error}.", *_find_constant(text)) from None
    if _is_deeper_than(value, _MAX_DEPTH):
        raise BadJson("It is nested too deep.", 1, 1)
    if repeated:
        # Which of them counts depends on who reads; a rule must not depend on that.
        raise BadJson(f"The key {repeated[0]!r} is there twice.", *_find_repeated_key(text))
    if "\\u" in text and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise BadJson(
            "It holds half of a character (\\ud800 to \\udfff), which cannot be stored.", *_find_lone_surrogate(text)
        )
    return text, value


class Positions:
    """The positions of all values in a text that is known to be valid JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._members = {member.path: member for member in _list_members(text)}

    def find_value(self, *path: str | int, within: int = 0) -> tuple[int, int]:
        """Line and column of a value, or of a character within a text; of what is around it where it is not there."""
        while path and path not in self._members:
            path, within = path[:-1], 0
        offset = self._members[path].value if path else _SPACE.match(self._text, 0).end()  # type: ignore[union-attr]
        return compute_position(self._text, _find_character(self._text, offset, within))

    def find_key(self, *path: str | int) -> tuple[int, int]:
        member = self._members.get(path)
        return compute_position(self._text, member.key) if member else self.find_value(*path)


def compute_position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1 on."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - text.rfind("\n", 0, offset)


def _note_repeats(repeated: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated += [name for name in found if names.count(name) > 1]
    return found


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _find_constant(text: str) -> tuple[int, int]:
    """The position of a number that is none, or that has thousands of digits."""
    found = re.search(r"(?<![\w\"])(?:-?Infinity|NaN|-?\d{1000})", text)
    return compute_position(text, found.start() if found else 0)


def _find_repeated_key(text: str) -> tuple[int, int]:
    """The position of the second of two equal keys."""
    seen: set[JsonPath] = set()
    for member in _list_members(text):
        if member.path in seen:
            return compute_position(text, member.key)
        seen.add(member.path)
    return 1, 1


def _is_deeper_than(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper_than(each, depth - 1) for each in inner)


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadJson("It is not UTF-8 but UTF-16: save it as UTF-8.", 1, 1)
    if data.startswith(b"\xef\xbb\xbf"):
        raise BadJson("It begins with a byte order mark: save it as UTF-8 without one.", 1, 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise BadJson("It is not UTF-8.", *compute_position(before, len(before))) from None


def _explain_error(text: str, error: json.JSONDecodeError) -> str:
    rest, before = text[error.pos :], text[: error.pos].rstrip()
    if not text.strip():
        return "The file is empty: write {} for no settings."
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments."
    if rest.startswith("'"):
        return "Texts stand in double quotes."
    if not rest.strip():
        return "It ends too early: something is never closed."
    if (before.endswith(",") and rest.lstrip()[:1] in {"]", "}"}) or "trailing comma" in error.msg.lower():
        return "There is a comma too many."
    return f"It is no JSON: {error.msg[:1].lower()}{error.msg[1:]}."


def _list_members(text: str) -> Iterator[_Member]:
    yield from _walk(text, _SPACE.match(text, 0).end(), ())[0]  # type: ignore[union-attr]


def _walk(text: str, start: int, path: JsonPath) -> tuple[list[_Member], int]:
    """The members below a value, and where it ends."""
    if text[start] == '"':
        return [], _read_string(text, start)[1]
    if text[start] not in "{[":
        return [], _SCALAR.match(text, start).end()  # type: ignore[union-attr]
    found: list[_Member] = []
    index, count = _skip_space(text, start + 1), 0
    while text[index] not in "}]":
        key, name = index, count
        step: str | int = name
        if text[start] == "{":
            step, index = _read_string(text, index)
            index = _skip_space(text, _skip_space(text, index) + 1)
        found.append(_Member((*path, step), key, index))
        below, index = _walk(text, index, (*path, step))
        found += below
        index, count = _skip_space(text, index), count + 1
        if text[index] == ",":
            index = _skip_space(text, index + 1)
    return found, index + 1


def _read_string(text: str, start: int) -> tuple[str, int]:
    found, end = _DECODER.raw_decode(text, start)
    return str(found), end


def _skip_space(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return found.end() if found else index


def _find_character(text: str, start: int, characters: int) -> int:
    """Where the so-many-th character of a JSON text stands in the file, its escapes counted as they are written."""
    if not characters or text[start] != '"':
        return start
    index = start + 1
    for _ in range(characters):
        if text[index] == '"':
            break
        index += _measure_character(text, index)
    return index


def _measure_character(text: str, index: int) -> int:
    if text[index] != "\\":
        return 1
    if text[index + 1] != "u":
        return 2
    pair = re.match(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]", text[index : index + 12])
    return 12 if pair else 6


def _find_lone_surrogate(text: str) -> tuple[int, int]:
    found = re.search(r"\\u[dD][89a-fA-F]", text)
    return compute_position(text, found.start() if found else 0)

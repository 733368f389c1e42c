"""Repairs common mistakes in a tool's input: a value that is written as a string, anywhere in the input."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic_core import ErrorDetails

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.server.models.long_events import MAX_INPUT_VALUES
from ostler.server.rpc.bounded_json import check_limits

_EXPECTED_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
    "model": (dict,),
    "tuple": (list,),
}
"""By the beginning of pydantic's error type, the JSON types that are valid there."""
Path = tuple[Any, ...]
"""The place of a value: names and indexes, from the outside in."""


@dataclass(slots=True)
class InputRepair:
    """The repair of one input. The values in all its strings together are limited like those of an input."""

    values_left: int = MAX_INPUT_VALUES

    def repair(self, raw_input: dict[str, Any], problems: Sequence[ErrorDetails]) -> dict[str, Any] | None:
        """A repaired copy of the input; null where none of the problems can be repaired."""
        copy_on_write = _CopyOnWrite(raw_input)
        for problem in problems:
            path = _resolve_path(raw_input, problem["loc"])
            if path and (value := self._repair_value(_get_value(raw_input, path), problem["type"])) is not None:
                copy_on_write.put(path, value)
        return copy_on_write.root if copy_on_write.changed else None

    def _repair_value(self, value: Any, problem: str) -> Any:
        """The value that was meant, or None where it cannot be told."""
        if isinstance(value, float) and value.is_integer() and problem.startswith("int"):
            return int(value)  # in JSON they are the same number
        return self._parse_string(value, problem) if isinstance(value, str) else None

    def _parse_string(self, text: str, problem: str) -> Any:
        types = _EXPECTED_TYPES.get(problem.partition("_")[0])
        if types is None:
            return None
        try:
            check_limits(text.encode("utf-8", "surrogatepass"), self.values_left)
            value = orjson.loads(text.strip().lower() if problem.startswith("bool") else text)
        except (ParseError, InvalidRequest, orjson.JSONDecodeError):
            return None
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return None
        self.values_left = max(0, self.values_left - text.count(",") - 1)
        return value


@dataclass(slots=True)
class _CopyOnWrite:
    """An input of which only what changes is copied, each container once."""

    root: dict[str, Any]
    changed: bool = False
    _own: dict[Path, Any] = field(default_factory=dict)

    def put(self, path: Path, value: Any) -> None:
        self._copy_container(path[:-1])[path[-1]] = value
        self.changed = True

    def _copy_container(self, path: Path) -> Any:
        if path not in self._own:
            if not path:
                self._own[path] = self.root = dict(self.root)
            else:
                parent = self._copy_container(path[:-1])
                self._own[path] = parent[path[-1]] = copy.copy(parent[path[-1]])
        return self._own[path]


def _resolve_path(value: Any, location: Path) -> Path:
    """The place of a problem in the input: pydantic's location without the parts that are names of its schema."""
    path: list[Any] = []
    for part in location:
        if _has_part(value, part):
            path.append(part)
            value = value[part]
    return tuple(path)


def _has_part(value: Any, part: Any) -> bool:
    match value:
        case dict():
            return part in value
        case list():
            return isinstance(part, int) and 0 <= part < len(value)
        case _:
            return False


def _get_value(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value

"""Common slips in what a model writes: a string that holds what belongs there, wherever in the input it stands."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic_core import ErrorDetails

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.server.models.long_events import MAX_INPUT_VALUES
from ostler.server.rpc.bounded_json import check_limits

_WANTED: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
    "model": (dict,),
    "tuple": (list,),
}
"""What may stand where the schema complains so."""
Path = tuple[Any, ...]
"""Where a value stands: names and numbers, from the outside in."""


@dataclass(slots=True)
class Slips:
    """Those of one input. What all its strings hold together is bounded like an input."""

    values_left: int = MAX_INPUT_VALUES

    def mended(self, given: dict[str, Any], problems: Sequence[ErrorDetails]) -> dict[str, Any] | None:
        """The input without them, the given one as it was; null where the schema complains of none."""
        copied = _Copied(given)
        for problem in problems:
            path = _path(given, problem["loc"])
            if path and (better := self._better(_at(given, path), problem["type"])) is not None:
                copied.put(path, better)
        return copied.root if copied.changed else None

    def _better(self, value: Any, problem: str) -> Any:
        """What a value means where something else belongs, or None."""
        if isinstance(value, float) and value.is_integer() and problem.startswith("int"):
            return int(value)  # to JSON they are the same number
        return self._reading(value, problem) if isinstance(value, str) else None

    def _reading(self, text: str, problem: str) -> Any:
        kinds = _WANTED.get(problem.partition("_")[0])
        if kinds is None:
            return None
        try:
            check_limits(text.encode("utf-8", "surrogatepass"), self.values_left)
            value = orjson.loads(text.strip().lower() if problem.startswith("bool") else text)
        except (ParseError, InvalidRequest, orjson.JSONDecodeError):
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            return None
        self.values_left = max(0, self.values_left - text.count(",") - 1)
        return value


@dataclass(slots=True)
class _Copied:
    """An input of which only what changes is copied, each container once."""

    root: dict[str, Any]
    changed: bool = False
    _own: dict[Path, Any] = field(default_factory=dict)

    def put(self, path: Path, value: Any) -> None:
        self._container(path[:-1])[path[-1]] = value
        self.changed = True

    def _container(self, path: Path) -> Any:
        if path not in self._own:
            if not path:
                self._own[path] = self.root = dict(self.root)
            else:
                around = self._container(path[:-1])
                self._own[path] = around[path[-1]] = copy.copy(around[path[-1]])
        return self._own[path]


def _path(given: Any, told: Path) -> Path:
    """Where a problem is, by the names and numbers that lead there: between them pydantic names parts of its schema."""
    path: list[Any] = []
    for part in told:
        if _leads_on(given, part):
            path.append(part)
            given = given[part]
    return tuple(path)


def _leads_on(given: Any, part: Any) -> bool:
    match given:
        case dict():
            return part in given
        case list():
            return isinstance(part, int) and 0 <= part < len(given)
        case _:
            return False


def _at(given: Any, path: Path) -> Any:
    for part in path:
        given = given[part]
    return given

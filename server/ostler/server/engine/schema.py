"""From what the model wrote to a tool's input: common slips are mended, the rest is explained to the model."""

from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ostler.tools.tool import AnyTool, ToolInput

_SHOWN_PROBLEMS = 10
_SHOWN_CHARS = 80


class BadInput(Exception):
    """The input cannot be used; the message is for the model."""


def parse_input(tool: AnyTool, given: dict[str, Any], name: str | None = None) -> tuple[ToolInput, dict[str, Any]]:
    """The input as the tool takes it, and as JSON after repair; the name is the one that it was called by."""
    if name is not None and name != tool.name:
        given = tool.called_as(name, given)
    try:
        return tool.parse(given), given
    except ValidationError as error:
        repaired = _repaired(given, error.errors(include_url=False))
        if repaired is not None:
            try:
                return tool.parse(repaired), repaired
            except ValidationError as still:
                error = still
        raise BadInput(_explained(tool, error)) from None


def _repaired(given: dict[str, Any], problems: list[ErrorDetails]) -> dict[str, Any] | None:
    """The input with strings that hold what belongs there turned into it; null where the schema complains of none."""
    mended: dict[str, Any] = {}
    for problem in problems:
        if len(problem["loc"]) < 1:
            continue
        name = str(problem["loc"][0])
        value = given.get(name)
        if isinstance(value, float) and value.is_integer() and problem["type"].startswith("int"):
            mended[name] = int(value)  # to JSON they are the same number
        if isinstance(value, str) and (better := _reading(value, problem["type"])) is not None:
            mended[name] = better
    return {**given, **mended} if mended else None


def _reading(text: str, problem: str) -> Any:
    """What a string means where something else belongs, or None."""
    try:
        value = orjson.loads(text.strip().lower() if problem.startswith("bool") else text)
    except orjson.JSONDecodeError:
        return None
    wanted: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "bool": (bool,),
        "list": (list,),
        "dict": (dict,),
        "model": (dict,),
        "tuple": (list,),
    }
    kinds = wanted.get(problem.partition("_")[0])
    if kinds is None or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return None
    return value


def _explained(tool: AnyTool, error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    lines = [_line(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"… and {len(problems) - _SHOWN_PROBLEMS} more")
    return f"The input of {tool.name} is not valid:\n" + "\n".join(lines)


def _line(problem: ErrorDetails) -> str:
    where = _cut(".".join(str(part) for part in problem["loc"])) or "input"
    match problem["type"]:
        case "missing":
            return f"- `{where}` is missing, and it is required"
        case "extra_forbidden":
            return f"- `{where}` is not a parameter of this tool"
        case _:
            wanted = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            return f"- `{where}`: given {_shown(problem['input'])}, expected {wanted}"


def _shown(value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = repr(value)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"

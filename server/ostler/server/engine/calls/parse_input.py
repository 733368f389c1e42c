"""From what the model wrote to a tool's input: common slips are mended, the rest is explained to the model."""

from itertools import islice
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ostler.server.engine.calls.repair_input import Slips
from ostler.tools.tool import AnyTool, ToolInput

_SHOWN_PROBLEMS = 10
_MOST_PROBLEMS = 1000
"""Beyond it they are only counted: pydantic tells all or none, and 100,000 take it a third of a second."""
_SHOWN_CHARS = 80
_ROUNDS = 4
"""How often it is looked at: what a string held may have slips of its own."""


class BadInput(Exception):
    """The input cannot be used; the message is for the model."""


def parse_input(tool: AnyTool, given: dict[str, Any], name: str | None = None) -> tuple[ToolInput, dict[str, Any]]:
    """The input as the tool takes it, and as JSON after repair; the name is the one that it was called by."""
    if name is not None and name != tool.name:
        given = tool.called_as(name, given)
    slips, problems = Slips(), list[ErrorDetails]()
    for _ in range(_ROUNDS):
        try:
            return tool.parse(given), given
        except ValidationError as error:
            problems = _problems(tool, given, error)
        mended = slips.mended(given, problems)
        if mended is None:
            break
        given = mended
    raise BadInput(_explained(tool, problems))


def _problems(tool: AnyTool, given: dict[str, Any], error: ValidationError) -> list[ErrorDetails]:
    """What is wrong, one by one; raises BadInput where that would be a long list."""
    count = error.error_count()
    if count <= _MOST_PROBLEMS:
        return error.errors(include_url=False)
    known = {field.alias or name for name, field in tool.Input.model_fields.items()}
    unknown = islice((name for name in given if name not in known), _SHOWN_PROBLEMS)
    lines = "".join(f"\n{_not_a_parameter(_cut(name))}" for name in unknown)
    raise BadInput(f"The input of {tool.name} is not valid in {count} places{':' if lines else '.'}{lines}") from None


def _explained(tool: AnyTool, problems: list[ErrorDetails]) -> str:
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
            return _not_a_parameter(where)
        case _:
            wanted = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            return f"- `{where}`: given {_shown(problem['input'])}, expected {wanted}"


def _not_a_parameter(where: str) -> str:
    return f"- `{where}` is not a parameter of this tool"


def _shown(value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = repr(value)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"

"""Parses calls from what the model wrote: common mistakes of the input are repaired, others explained to the model."""

from itertools import islice
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ostler.protocol.shapes import Call, McpTarget
from ostler.server.engine.calls.repair_input import InputRepair
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.stages import Parsed, Unusable, set_input
from ostler.server.engine.discovery.tool_adapter import describe_way_to_load
from ostler.server.engine.session.live import LiveSession
from ostler.server.models.assembler import ToolUse
from ostler.server.observability import logs
from ostler.tools.registry import ToolSet
from ostler.tools.text import cut_text_with_count
from ostler.tools.tool import AnyTool, ToolInput

_SHOWN_PROBLEMS = 10
_MAX_PROBLEMS = 1000
"""More are only counted: pydantic lists all or none, and 100,000 take it a third of a second."""
_SHOWN_CHARS = 80
_MAX_ROUNDS = 4
"""How often it is parsed: a string that was replaced by its content may contain mistakes of its own."""


class BadInput(Exception):
    """The input cannot be used; the message is for the model."""


def parse_call(session: LiveSession, toolset: ToolSet, use: ToolUse, call: Call, spans: Spans) -> Unusable | Parsed:
    """Steps 1 and 2 of a call: find its tool, and parse its input."""
    spans.begin("look_up")
    tool = toolset.find(use.name)
    if isinstance(tool, str):
        return Unusable(call, tool)
    target = McpTarget(server=tool.on_server[0], tool=tool.on_server[1]) if tool.on_server is not None else None
    call = call.changed(tool=tool.name, interrupt=tool.interrupt, mcp=target)
    if use.input_error is not None:
        return Unusable(call, use.input_error, tool)
    spans.begin("schema")
    try:
        parsed_input, repaired = parse_input(tool, call.input, use.name)
        return set_input(tool, parsed_input, call, repaired)
    except BadInput as error:
        return Unusable(call, f"{error}{describe_way_to_load(session, tool)}", tool)
    except Exception as error:  # noqa: BLE001 - a boundary: tools come from anywhere, and so do their errors
        return Unusable(call, report_tool_error(call, error), tool)


def report_tool_error(call: Call, error: Exception) -> str:
    """Log what a tool raised; returns the message for the model."""
    logs.log.error("tool_failed", tool=call.tool, exc_info=error)
    return f"The tool {call.tool} failed: {type(error).__name__}: {error}"


def parse_input(tool: AnyTool, raw_input: dict[str, Any], name: str | None = None) -> tuple[ToolInput, dict[str, Any]]:
    """The input as the tool takes it, and as JSON after repair; `name` is the one that the tool was called by."""
    if name is not None and name != tool.name:
        raw_input = tool.called_as(name, raw_input)
    input_repair, problems = InputRepair(), list[ErrorDetails]()
    for _ in range(_MAX_ROUNDS):
        try:
            return tool.parse(raw_input), raw_input
        except ValidationError as error:
            problems = _list_problems(tool, raw_input, error)
        repaired = input_repair.repair(raw_input, problems)
        if repaired is None:
            break
        raw_input = repaired
    raise BadInput(_format_problems(tool, problems))


def _list_problems(tool: AnyTool, raw_input: dict[str, Any], error: ValidationError) -> list[ErrorDetails]:
    """The validation errors; raises BadInput where there are too many to list."""
    count = error.error_count()
    if count <= _MAX_PROBLEMS:
        return error.errors(include_url=False)
    known = {field.alias or name for name, field in tool.Input.model_fields.items()}
    unknown = islice((name for name in raw_input if name not in known), _SHOWN_PROBLEMS)
    lines = "".join(f"\n{_format_unknown(cut_text_with_count(name, _SHOWN_CHARS))}" for name in unknown)
    raise BadInput(f"The input of {tool.name} is not valid in {count} places{':' if lines else '.'}{lines}") from None


def _format_problems(tool: AnyTool, problems: list[ErrorDetails]) -> str:
    lines = [_format_problem(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"… and {len(problems) - _SHOWN_PROBLEMS} more")
    return f"The input of {tool.name} is not valid:\n" + "\n".join(lines)


def _format_problem(problem: ErrorDetails) -> str:
    where = cut_text_with_count(".".join(str(part) for part in problem["loc"]), _SHOWN_CHARS) or "input"
    match problem["type"]:
        case "missing":
            return f"- `{where}` is missing, and it is required"
        case "extra_forbidden":
            return _format_unknown(where)
        case _:
            wanted = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            return f"- `{where}`: given {_format_value(problem['input'])}, expected {wanted}"


def _format_unknown(where: str) -> str:
    return f"- `{where}` is not a parameter of this tool"


def _format_value(value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = repr(value)
    return cut_text_with_count(text, _SHOWN_CHARS)

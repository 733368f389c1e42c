"""StructuredOutput: the answer of a turn as JSON that fits the schema of its caller."""

import json
from typing import Any, ClassVar, Final

from pydantic import ConfigDict

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.text import cut_text
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block

_SHOWN_PROBLEMS: Final = 10
_SHOWN_PLACE: Final = 200
_SHOWN_VALUE: Final = 200
_SHOWN_MESSAGE: Final = 1000
_VALUE_MASK: Final = "\x00value\x00"
"""What the validator writes in its messages in place of the value."""
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_BRANCHES: Final = ("allOf", *_ALTERNATIVES)
_BYTES_PER_VALUE: Final = 1000
"""About the bytes that one reported problem takes, beside the value that it is about."""
_ALL_PROBLEMS_BYTES: Final = 40_000_000
"""The validator collects all problems before it reports the first, each with a copy of its value, and it holds the
interpreter's lock meanwhile. Where that may take more bytes than this, not all problems are looked for."""


class BadSchema(ValueError):
    """The caller's schema cannot be used."""


class StructuredOutputInput(ToolInput):
    """Whatever the caller's schema says."""

    model_config = ConfigDict(extra="allow")


class StructuredOutputOutput(ToolOutput):
    answer: dict[str, Any]


class StructuredOutput(Tool[StructuredOutputInput, StructuredOutputOutput]):
    """Made for one turn, with the schema that its caller gave; a later turn of the session may have asked for none.

    What the model is told of it is the same for every schema, and it stays in the session's list once it was there: the
    provider's cache begins with the tools. The schema itself stands in the user message.
    """

    name = "StructuredOutput"
    source = "turn"
    title = "Give the answer of the turn in the form that was asked for"
    given_to_agents = "all"
    Input: ClassVar[type[ToolInput]] = StructuredOutputInput
    Output: ClassVar[type[ToolOutput]] = StructuredOutputOutput

    def __init__(self, schema: dict[str, Any] | None) -> None:
        self._answer_schema = schema
        if schema is None:
            return
        # Imported here: few turns ask for a form.
        import jsonschema_rs  # noqa: PLC0415

        if schema.get("type") != "object":
            raise BadSchema('must be a schema of an object: {"type": "object", …}')
        try:
            # Offline: an untrusted schema must not make the daemon fetch anything.
            self._validator = jsonschema_rs.validator_for(schema, offline=True, mask=_VALUE_MASK)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BadSchema(f"is no JSON Schema: {error}") from None

    def input_schema(self, session: SessionView) -> dict[str, Any]:
        return {"type": "object"}

    async def validate(self, given: StructuredOutputInput, context: ToolContext) -> Failure | None:
        if self._answer_schema is None:
            return Failure("No answer in a form was asked for in this turn. Answer in words.")
        # In a thread: an answer may be long, and a schema may check it in many branches.
        problems = await read_in_thread(self._find_problems, given)
        return Failure("The answer does not fit the schema:\n" + "\n".join(problems)) if problems else None

    def _find_problems(self, given: StructuredOutputInput) -> list[str]:
        answer = given.model_dump()
        if self._validator.is_valid(answer):  # it stops at the first problem, and copies nothing
            return []
        if _estimate_bytes(answer) * _count_branches(self._answer_schema) <= _ALL_PROBLEMS_BYTES:
            return self._list_problems(answer)
        if not _has_alternatives(self._answer_schema):
            return [
                self._describe_first_problem(answer),
                "… and perhaps more: the answer is too long to look for all of them",
            ]
        # Why each alternative does not fit would be collected even for the first problem.
        return ["- The answer is too long to say where. Give a shorter one."]

    def _list_problems(self, answer: dict[str, Any]) -> list[str]:
        problems: list[str] = []
        more = 0
        for error in self._validator.iter_errors(answer):
            if len(problems) < _SHOWN_PROBLEMS:
                problems.append(_describe_problem(error.instance_path, error.message, answer))
            else:
                more += 1
        return [*problems, f"… and {more} more"] if more else problems

    def _describe_first_problem(self, answer: dict[str, Any]) -> str:
        import jsonschema_rs  # noqa: PLC0415

        try:
            self._validator.validate(answer)
        except jsonschema_rs.ValidationError as error:
            return _describe_problem(error.instance_path, error.message, answer)
        raise AssertionError("it did not fit a moment ago")

    async def check_permission(self, given: StructuredOutputInput, context: ToolContext) -> Check:
        return Allow()

    async def run(
        self, given: StructuredOutputInput, context: ToolContext
    ) -> ToolResult[StructuredOutputOutput] | Failure:
        return ToolResult(StructuredOutputOutput(answer=given.model_dump()))

    def render(self, output: StructuredOutputOutput) -> list[Block]:
        return [text_block("The answer was taken. The turn ends here.")]

    def is_read_only(self, given: StructuredOutputInput) -> bool:
        return True

    def summary(self, given: StructuredOutputInput) -> str:
        return "Answer in the form asked for"


def _describe_problem(path: list[str | int], message: str, answer: dict[str, Any]) -> str:
    """One line: the path of the value, what is wrong with it, and the value, cut short."""
    place = cut_text(".".join(str(part) for part in path) or "input", _SHOWN_PLACE)
    text = message.replace(_VALUE_MASK, _format_value(_get_value(path, answer))) if _VALUE_MASK in message else message
    return f"- `{place}`: {cut_text(text, _SHOWN_MESSAGE)}"


def _get_value(path: list[str | int], answer: Any) -> Any:
    for part in path:
        answer = answer[part]
    return answer


def _format_value(value: Any) -> str:
    """The value as JSON, cut short; no more of it is serialised than is shown."""
    if isinstance(value, str):
        return cut_text(json.dumps(value[: _SHOWN_VALUE + 1], ensure_ascii=False), _SHOWN_VALUE)
    if isinstance(value, dict | list) and _estimate_bytes(value) > _BYTES_PER_VALUE * _SHOWN_VALUE:
        return f"an {'object' if isinstance(value, dict) else 'array'} of {len(value)}"
    return cut_text(json.dumps(value, ensure_ascii=False), _SHOWN_VALUE)


def _estimate_bytes(answer: Any) -> int:
    """Estimates the bytes that a reported problem with each of its values would take."""
    size = 0
    unseen = [answer]
    while unseen:
        value = unseen.pop()
        size += _BYTES_PER_VALUE
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            size += sum(map(len, value))
            unseen += value.values()
        elif isinstance(value, list):
            unseen += value
    return size


def _count_branches(schema: Any) -> int:
    """How many branches of the schema may check one and the same value; references are not followed."""
    if isinstance(schema, list):
        return max(map(_count_branches, schema), default=1)
    if not isinstance(schema, dict):
        return 1
    own = sum(len(schema[word]) for word in _BRANCHES if isinstance(schema.get(word), list))
    return max(own, 1) * max(map(_count_branches, schema.values()), default=1)


def _has_alternatives(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_alternatives, schema))
    if not isinstance(schema, dict):
        return False
    return any(word in schema for word in _ALTERNATIVES) or any(map(_has_alternatives, schema.values()))

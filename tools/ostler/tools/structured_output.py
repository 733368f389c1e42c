"""StructuredOutput: the answer of a turn in the form that its caller asked for."""

from typing import Any, ClassVar

from pydantic import ConfigDict

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.tool import Allow, Block, Check, Failure, Ran, Tool, ToolInput, ToolOutput, text_block

_SHOWN_PROBLEMS = 10


class BadSchema(ValueError):
    """The caller's schema cannot be used."""


class StructuredOutputInput(ToolInput):
    """Whatever the caller's schema says."""

    model_config = ConfigDict(extra="allow")


class StructuredOutputOutput(ToolOutput):
    answer: dict[str, Any]


class StructuredOutput(Tool[StructuredOutputInput, StructuredOutputOutput]):
    """Made for one turn, with the schema that its caller gave."""

    name = "StructuredOutput"
    title = "Give the answer of the turn in the form that was asked for"
    Input: ClassVar[type[ToolInput]] = StructuredOutputInput
    Output: ClassVar[type[ToolOutput]] = StructuredOutputOutput

    def __init__(self, schema: dict[str, Any]) -> None:
        # Imported here: few turns ask for a form.
        import jsonschema_rs  # noqa: PLC0415

        if schema.get("type") != "object":
            raise BadSchema('must be a schema of an object: {"type": "object", …}')
        try:
            # Offline: a schema of a stranger's must not make the daemon fetch anything.
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BadSchema(f"is no JSON Schema: {error}") from None
        self._given = schema

    def input_schema(self, surroundings: Surroundings) -> dict[str, Any]:
        return self._given

    async def validate(self, given: StructuredOutputInput, context: ToolContext) -> Failure | None:
        problems = [
            f"- `{'.'.join(str(part) for part in error.instance_path) or 'input'}`: {error.message}"
            for error in self._validator.iter_errors(given.model_dump())
        ]
        if not problems:
            return None
        more = [f"… and {len(problems) - _SHOWN_PROBLEMS} more"] if len(problems) > _SHOWN_PROBLEMS else []
        return Failure("The answer does not fit the schema:\n" + "\n".join(problems[:_SHOWN_PROBLEMS] + more))

    async def check_permission(self, given: StructuredOutputInput, context: ToolContext) -> Check:
        return Allow()

    async def run(self, given: StructuredOutputInput, context: ToolContext) -> Ran[StructuredOutputOutput] | Failure:
        return Ran(StructuredOutputOutput(answer=given.model_dump()))

    def render(self, output: StructuredOutputOutput) -> list[Block]:
        return [text_block("The answer was taken. The turn ends here.")]

    def is_read_only(self, given: StructuredOutputInput) -> bool:
        return True

    def summary(self, given: StructuredOutputInput) -> str:
        return "Answer in the form asked for"

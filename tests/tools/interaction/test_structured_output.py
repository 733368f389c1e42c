"""The problems reported about an answer that does not fit its schema: few, short, and found in bounded memory."""

import subprocess
import sys
from typing import Any

import pytest

from ostler.tools.interaction.structured_output import StructuredOutput
from ostler.tools.tool import ToolResult
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio

LONG = "a" * 9_000_000
MANY = 95_000


async def list_problems(session: Session, answer: dict[str, Any], **schema: Any) -> list[str]:
    reported = (await session.expect_failure(StructuredOutput({"type": "object", **schema}), **answer)).message
    first, *rest = reported.splitlines()
    assert first == "The answer does not fit the schema:"
    return rest


def build_schemas(times: int) -> list[dict[str, Any]]:
    return [{"properties": {"x": {"minLength": len(LONG) + each}}} for each in range(1, times + 1)]


async def test_a_problem_says_the_place_the_value_and_what_is_expected(session: Session) -> None:
    sizes = {"enum": ["small", "large"]}
    town_schema = {"properties": {"name": {}, "size": sizes}, "required": ["name"], "additionalProperties": False}
    answer = {"towns": [{"name": "Oslo"}, {"size": "ënorm", "colour": "red"}]}
    assert await list_problems(session, answer, properties={"towns": {"items": {"type": "object", **town_schema}}}) == [
        '- `towns.1.size`: "ënorm" is not one of "small" or "large"',
        "- `towns.1`: Additional properties are not allowed ('colour' was unexpected)",
        '- `towns.1`: "name" is a required property',
    ]


async def test_more_than_ten_problems_are_counted(session: Session) -> None:
    reported = await list_problems(session, {"x": list(range(12))}, properties={"x": {"items": {"type": "string"}}})
    assert reported[:2] == ['- `x.0`: 0 is not of type "string"', '- `x.1`: 1 is not of type "string"']
    assert (len(reported), reported[-1]) == (11, "… and 2 more")


async def test_a_long_value_is_shown_by_its_beginning(session: Session) -> None:
    (reported,) = await list_problems(session, {"x": LONG}, properties={"x": {"maxLength": 5}})
    assert reported.startswith('- `x`: "aaaa')
    assert reported.endswith("… is longer than 5 characters")
    assert len(reported) < 300


@pytest.mark.parametrize(
    ("answer", "schema"),
    [
        ({LONG: 1}, {"additionalProperties": False}),
        ({LONG: 1}, {"additionalProperties": {"type": "string"}}),
        ({LONG: 1}, {"propertyNames": {"maxLength": 5}}),
        ({"x": {LONG: 1}}, {"properties": {"x": {"maxProperties": 0}}}),
        ({"x": list(range(5000))}, {"properties": {"x": {"maxItems": 1}}}),
        ({f"{each:100}": 1 for each in range(500)}, {"additionalProperties": False}),
        ({"x": [[LONG]]}, {"properties": {"x": {"contains": {"type": "string"}}}}),
    ],
    ids=["unexpected", "place", "name", "object", "array", "many names", "nested"],
)
async def test_a_long_problem_is_cut_too(session: Session, answer: dict[str, Any], schema: dict[str, Any]) -> None:
    (reported,) = await list_problems(session, answer, **schema)
    assert len(reported) < 1500


async def test_where_very_many_values_are_wrong_the_first_is_told(session: Session) -> None:
    reported = await list_problems(session, {"x": list(range(MANY))}, properties={"x": {"items": {"type": "string"}}})
    assert reported[0] == '- `x.0`: 0 is not of type "string"'
    assert "perhaps more" in reported[1]


async def test_a_long_answer_that_fits_is_taken(session: Session) -> None:
    form = {"type": "object", "anyOf": build_schemas(200), "properties": {"x": {"type": "string"}}}
    fits = await session.call(StructuredOutput(form), {"x": LONG + "b" * 300})
    assert isinstance(fits, ToolResult)


def test_a_long_answer_that_is_build_schemas_often_is_not_copied_as_often() -> None:
    """In a process of its own, with a tenth of the memory that the copies would take, and beside the event loop."""
    script = """
import resource, threading
import anyio
from ostler.tools.interaction.structured_output import StructuredOutput

from tests.tools.interaction.test_structured_output import LONG, build_schemas

async def check():
    words = ("allOf", "anyOf", "oneOf")
    tools = {word: StructuredOutput({"type": "object", word: build_schemas(400)}) for word in words}
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    for word, tool in tools.items():
        failure = await tool.validate(tool.parse({"x": LONG}), None)
        assert "does not fit the schema" in failure.message, word
        assert len(failure.message) < 1900, word
    print([thread.name for thread in threading.enumerate()])

anyio.run(check)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "ostler-files" in ran.stdout

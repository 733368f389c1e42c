"""Parsing of a call's input: what is repaired, and what is an error for the model."""

import copy
import json
import time
from typing import Any

import pytest
from pydantic import Field

from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.tools.context import ToolContext
from ostler.tools.tool import Tool, ToolInput, ToolOutput, ToolResult
from tests.support.tables import try_each


class Inner(ToolInput):
    """A part."""

    name: str


class Part(ToolInput):
    """A part with parts."""

    count: int = 0
    done: bool = False
    sizes: list[int] = Field(default_factory=list)
    more: "list[Part]" = Field(default_factory=list)


class ManyInput(ToolInput):
    """All kinds of fields."""

    text: str = "x"
    number: int = 0
    ratio: float = 0.0
    flag: bool = False
    names: list[str] = Field(default_factory=list)
    inner: Inner | None = None
    table: dict[str, int] = Field(default_factory=dict)
    small: int | None = Field(None, le=10)
    parts: list[Part] = Field(default_factory=list)
    either: int | list[int] = 0


class NothingOutput(ToolOutput):
    """Nothing."""


class Many(Tool[ManyInput, NothingOutput]):
    """A tool with many parameters."""

    name = "Many"
    Input = ManyInput
    Output = NothingOutput

    async def run(self, given: ManyInput, context: ToolContext) -> ToolResult[NothingOutput]:
        return ToolResult(NothingOutput())


def repair_input(**given: Any) -> dict[str, Any]:
    return parse_input(Many(), given)[1]


def get_problem(**given: Any) -> str:
    with pytest.raises(BadInput) as raised:
        parse_input(Many(), given)
    return str(raised.value)


def test_good_input_is_left_alone() -> None:
    given = {"text": "5", "number": 5, "names": ["a"], "inner": {"name": "b"}}
    assert repair_input(**given) == given


@try_each(
    ("field", "written", "meant"),
    [
        ("number", "5", 5),
        ("number", " 5 ", 5),
        ("number", "-5", -5),
        ("number", 5.0, 5),
        ("small", 7.0, 7),
        ("small", "7", 7),
        ("ratio", "0.5", 0.5),
        ("ratio", "2", 2),
        ("flag", "true", True),
        ("flag", "True", True),
        ("flag", "false", False),
        ("names", '["a", "b"]', ["a", "b"]),
        ("inner", '{"name": "b"}', {"name": "b"}),
        ("table", '{"a": 1}', {"a": 1}),
    ],
)
def test_common_slips_are_mended(field: str, written: Any, meant: Any) -> None:
    repaired = repair_input(**{field: written})
    assert repaired == {field: meant}
    assert type(repaired[field]) is type(meant)


@try_each(
    ("field", "written", "meant"),
    [
        ("parts", [{"count": "5"}], [{"count": 5}]),
        ("parts", [{}, {"count": 5.0, "done": "true"}], [{}, {"count": 5, "done": True}]),
        ("parts", [{"sizes": [1, "2", "3"]}], [{"sizes": [1, 2, 3]}]),
        ("parts", ['{"count": 5}'], [{"count": 5}]),
        ("parts", [{"more": [{"more": '[{"done": "false"}]'}]}], [{"more": [{"more": [{"done": False}]}]}]),
        ("parts", '[{"count": "5", "sizes": "[1]"}]', [{"count": 5, "sizes": [1]}]),
        ("table", {"a": "1", "b": 2}, {"a": 1, "b": 2}),
        ("either", "5", 5),
        ("either", "[5]", [5]),
        ("either", ["5"], [5]),
    ],
)
def test_slips_within_lists_and_objects_are_mended(field: str, written: Any, meant: Any) -> None:
    before = copy.deepcopy(written)
    assert repair_input(**{field: written}) == {field: meant}
    assert written == before


def test_slips_within_slips_are_mended_only_so_deep() -> None:
    text: Any = [{"count": "1"}]
    for _ in range(6):
        text = [{"more": json.dumps(text)}]
    assert "more" in get_problem(parts=text)


def test_what_many_strings_hold_is_bounded_together() -> None:
    text = "[" + "1," * 59_999 + "1]"
    assert repair_input(parts=[{"sizes": text}]) == {"parts": [{"sizes": [1] * 60_000}]}
    assert "`parts.1.sizes`" in get_problem(parts=[{"sizes": text}, {"sizes": text}])


def test_many_slips_are_mended_in_little_time() -> None:
    began = time.process_time()
    assert repair_input(table={str(number): "1" for number in range(1000)})["table"]["999"] == 1
    sizes: list[Any] = [1] * 90_000
    sizes[::100] = ["1"] * 900
    assert repair_input(parts=[{"sizes": sizes}]) == {"parts": [{"sizes": [1] * 90_000}]}
    assert time.process_time() - began < 2


@try_each(
    ("field", "written"),
    [
        ("number", "five"),
        ("number", "5.5"),
        ("number", 5.5),
        ("number", float("inf")),
        ("number", "true"),
        ("number", ""),
        ("flag", "yes"),
        ("flag", "1"),
        ("names", '{"a": 1}'),
        ("names", "a, b"),
        ("names", "[1, 2]"),
        ("inner", "[]"),
        ("inner", '{"nick": "b"}'),
        ("table", '{"a": "b"}'),
        ("small", "11"),
        ("text", None),
        ("number", None),
        ("text", 5),
        ("flag", 1),
        ("names", [1]),
        ("parts", [{"count": "five"}]),
        ("parts", [{"text": "5"}]),
        ("table", {"a": "b"}),
    ],
)
def test_what_is_no_slip_is_explained(field: str, written: Any) -> None:
    words = get_problem(**{field: written})
    assert words.startswith("The input of Many is not valid:")
    assert f"`{field}" in words


def test_each_problem_has_a_line() -> None:
    words = get_problem(number="x", names=5, colour="red", inner={})
    lines = words.splitlines()[1:]
    assert len(lines) == 4
    assert all(line.startswith("- `") for line in lines)
    assert "`colour` is not a parameter of this tool" in words
    assert "`inner.name` is missing" in words
    assert '`number`: given "x"' in words


def test_what_is_mended_is_not_complained_about() -> None:
    assert "number" not in get_problem(number="5", flag="perhaps")


def test_many_problems_are_cut_short() -> None:
    words = get_problem(**{f"unknown_{n}": n for n in range(30)})
    assert "… and 20 more" in words
    assert len(words.splitlines()) == 12


def test_more_problems_than_anybody_reads_are_counted_and_unknown_names_shown() -> None:
    words = get_problem(**{f"unknown_{n}": n for n in range(2000)}, text="x")
    assert words.startswith("The input of Many is not valid in 2000 places:")
    assert words.splitlines()[1:] == [f"- `unknown_{n}` is not a parameter of this tool" for n in range(10)]
    assert get_problem(names=[1] * 2000) == "The input of Many is not valid in 2000 places."


def test_a_text_that_holds_too_many_values_is_not_read_as_a_list() -> None:
    assert repair_input(names="[" + '"a",' * 99_000 + '"a"]') == {"names": ["a"] * 99_001}
    words = get_problem(names="[" + '"a",' * 100_001 + '"a"]')
    assert "`names`: given" in words
    assert "expected a valid list" in words


def test_long_values_are_cut_short() -> None:
    assert len(get_problem(number="x" * 100_000)) < 500
    assert len(get_problem(**{"x" * 100_000: 1})) < 500


def test_a_text_that_looks_like_something_else_stays_a_text() -> None:
    assert repair_input(text="[1, 2]", number="1") == {"text": "[1, 2]", "number": 1}

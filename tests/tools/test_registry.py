"""Which tools there are, and which of them a session has."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.builtin import BUILT_IN
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.registry import collect, from_entry_points
from ostler.tools.shell.running import program
from ostler.tools.tool import AnyTool, Failure, Ran, Tool, ToolInput, ToolOutput

HERE = Surroundings(SessionId("s_1"), "/", "/", ("/",), "default")


class Nothing(ToolInput):
    pass


class Said(ToolOutput):
    words: str = ""


class Plain(Tool[Nothing, Said]):
    Input: ClassVar[type[ToolInput]] = Nothing
    Output: ClassVar[type[ToolOutput]] = Said

    async def run(self, given: Nothing, context: ToolContext) -> Ran[Said] | Failure:
        return Ran(Said())


def plug_in(name: str, *aliases: str, package: str = "theirs") -> AnyTool:
    kind = type(name, (Plain,), {"name": name, "aliases": aliases})
    tool: AnyTool = kind()
    tool.source = package
    return tool


def names(tools: tuple[AnyTool, ...]) -> list[str]:
    return [tool.name for tool in tools]


def test_built_in_ones_come_first_and_each_part_is_sorted_by_code_point() -> None:
    registry = collect([plug_in("b"), plug_in("B"), plug_in("a")], [plug_in("Z"), plug_in("A")])
    assert names(registry.tools) == ["B", "a", "b", "A", "Z"]
    assert registry.problems == ()


@pytest.mark.parametrize("late", [plug_in("Read"), plug_in("Other", "Read"), plug_in("Read", "Fine")])
def test_of_two_with_one_name_the_built_in_stays_and_the_loser_is_reported(late: AnyTool) -> None:
    registry = collect(BUILT_IN, [late])
    assert late not in registry.tools
    assert registry.problems == (f"The tool {late.name} of theirs is left out: the name Read is taken.",)


def test_presets_and_lists_choose_and_say_why_the_rest_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "pwsh_path", lambda: None)
    registry = collect(BUILT_IN, [plug_in("Extra", "More")])
    assert names(registry.for_session("minimal", (), HERE).tools) == ["Bash", "Edit", "Read"]
    readers = ["Glob", "Grep", "Read", "Sleep", "TaskOutput"]
    assert names(registry.for_session("read-only", (), HERE).tools) == readers
    assert names(registry.for_session(["More", "Bash"], (), HERE).tools) == ["Bash", "Extra"]
    full = registry.for_session("full", (), HERE)
    others = ["Bash", "Edit", "Monitor", "NotebookEdit", "TaskStop", "Write"]
    assert names(full.tools) == [*sorted([*others, *readers]), "Extra"]
    assert set(full.unavailable) == {"PowerShell", "TestingPermission"}
    listed = registry.for_session(["Bash"], (), HERE)
    assert listed.find("Read") == "The tool Read cannot be used here: it is not on the session's list of tools."


def test_a_tool_that_is_denied_as_a_whole_is_not_there() -> None:
    registry = collect(BUILT_IN, [plug_in("Extra", "More")])
    toolset = registry.for_session("full", {"Bash", "More"}, HERE)
    assert "Bash" not in names(toolset.tools)
    assert "Extra" not in names(toolset.tools)
    assert toolset.find("Bash") == "The tool Bash cannot be used here: a rule denies it as a whole."


def test_a_tool_is_found_by_its_alias_and_a_wrong_name_gets_the_closest() -> None:
    extra = plug_in("Extra", "More")
    toolset = collect(BUILT_IN, [extra]).for_session("full", (), HERE)
    assert toolset.find("More") is extra
    assert toolset.find("Raed") == "There is no tool 'Raed'. Did you mean Read?"
    assert str(toolset.find("x" * 1_000_000)).startswith("There is no tool 'xxx")
    assert toolset.find("READ") == "There is no tool 'READ'. Did you mean Read?"
    everything = ", ".join(tool.name for tool in toolset.tools)
    assert toolset.find("qqq") == f"There is no tool 'qqq'. The tools are: {everything}."


def test_a_name_that_is_like_none_of_very_many_tools_is_told_some_of_them() -> None:
    many = collect([plug_in(f"Abc{number}") for number in range(60)], []).for_session("full", (), HERE)
    told = str(many.find("qqq"))
    assert told.endswith(" and 10 more.")
    assert told.count(",") == 49


def test_plug_ins_come_by_entry_point_and_a_broken_one_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "from tests.tools.test_registry import Plain\n"
        "class Knock(Plain):\n    name = 'Knock'\n    def description(self, surroundings):\n        return 'Knocks.'\n"
        "class Wordless(Plain):\n    name = 'Wordless'\n"
        "class Misnamed(Knock):\n    name = 'Two words'\n"
        "class Unfit(Knock):\n    input_examples = ({}, {'door': 1})\n"
        "def broken():\n    raise RuntimeError('no door')\n"
    )
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ostler.tools]\nknock = theirs:Knock\nbroken = theirs:broken\nwordless = theirs:Wordless\n"
        "misnamed = theirs:Misnamed\nnone = builtins:dict\nunfit = theirs:Unfit\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        found = from_entry_points()
    finally:
        sys.modules.pop("theirs", None)
    (knock,) = [one for one in found if not isinstance(one, str)]
    assert (knock.name, knock.source) == ("Knock", "theirs")
    problems = {one.split()[2]: one.partition("could not be loaded: ")[2] for one in found if isinstance(one, str)}
    assert problems.pop("wordless")  # there is no file beside it
    assert problems == {
        "broken": "RuntimeError('no door').",
        "misnamed": "ValueError(\"'Two words' is no name that models take\").",
        "none": "TypeError('{} is no ostler.tools.tool.Tool').",
        "unfit": "ValueError('input_examples[1] does not fit its Input: door: Extra inputs are not permitted').",
    }

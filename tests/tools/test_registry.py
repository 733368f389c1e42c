"""Which tools there are, and which of them a session has."""

import sys
from pathlib import Path
from typing import ClassVar, get_args, get_origin, get_type_hints

import pytest

from ostler import tools
from ostler.protocol.ids import SessionId
from ostler.tools.builtin import BUILT_IN
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.registry import collect, from_entry_points
from ostler.tools.shell.running import program
from ostler.tools.tool import AnyTool, AskPeople, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult

HERE = SessionView(SessionId("s_1"), "/", "/", ("/",), "default")


def test_all_that_a_plug_in_may_say_about_permission_is_at_the_front_door() -> None:
    answers = [get_origin(each) or each for each in get_args(Check)]
    for each in (*answers, *get_args(get_type_hints(AskPeople)["about"])):
        assert getattr(tools, each.__name__) is each


class EmptyInput(ToolInput):
    pass


class WordsOutput(ToolOutput):
    words: str = ""


class MinimalTool(Tool[EmptyInput, WordsOutput]):
    Input: ClassVar[type[ToolInput]] = EmptyInput
    Output: ClassVar[type[ToolOutput]] = WordsOutput

    async def run(self, given: EmptyInput, context: ToolContext) -> ToolResult[WordsOutput] | Failure:
        return ToolResult(WordsOutput())


def build_plug_in(name: str, *aliases: str, package: str = "theirs") -> AnyTool:
    kind = type(name, (MinimalTool,), {"name": name, "aliases": aliases})
    tool: AnyTool = kind()
    tool.source = package
    return tool


def list_names(tools: tuple[AnyTool, ...]) -> list[str]:
    return [tool.name for tool in tools]


def test_built_in_ones_come_first_and_each_part_is_sorted_by_code_point() -> None:
    registry = collect(
        [build_plug_in("b"), build_plug_in("B"), build_plug_in("a")], [build_plug_in("Z"), build_plug_in("A")]
    )
    assert list_names(registry.tools) == ["B", "a", "b", "A", "Z"]
    assert registry.problems == ()


@pytest.mark.parametrize("late", [build_plug_in("Read"), build_plug_in("Other", "Read"), build_plug_in("Read", "Fine")])
def test_of_two_with_one_name_the_built_in_stays_and_the_loser_is_reported(late: AnyTool) -> None:
    registry = collect(BUILT_IN, [late])
    assert late not in registry.tools
    assert registry.problems == (f"The tool {late.name} of theirs is left out: the name Read is taken.",)


def test_presets_and_lists_choose_and_say_why_the_rest_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "find_pwsh", lambda: None)
    registry = collect(BUILT_IN, [build_plug_in("Extra", "More")])
    assert list_names(registry.for_session("minimal", (), HERE).tools) == ["Bash", "Edit", "Read"]
    readers = ["AskUserQuestion", "Glob", "Grep", "Read", "Sleep", "TaskGet", "TaskList", "TaskOutput"]
    readers += ["ToolSearch", "WebFetch"]
    assert list_names(registry.for_session("read-only", (), HERE).tools) == readers
    assert list_names(registry.for_session(["More", "Bash"], (), HERE).tools) == ["Bash", "Extra"]
    full = registry.for_session("full", (), HERE)
    others = ["Bash", "Edit", "EnterWorktree", "ExitWorktree", "Monitor", "NotebookEdit", "TaskCreate", "TaskStop"]
    others += ["Skill", "TaskUpdate", "Write"]
    assert list_names(full.tools) == [*sorted([*others, *readers]), "Extra"]
    assert set(full.unavailable) == {
        "Agent",
        "EnterPlanMode",
        "ExitPlanMode",
        "ListMcpResources",
        "PowerShell",
        "ReadMcpResource",
        "SendUserMessage",
        "WebSearch",
        "TestingPermission",
        "TodoWrite",
    }
    listed = registry.for_session(["Bash"], (), HERE)
    assert listed.find("Read") == "The tool Read cannot be used here: it is not on the session's list of tools."


def test_a_tool_that_is_denied_as_a_whole_is_not_there() -> None:
    registry = collect(BUILT_IN, [build_plug_in("Extra", "More")])
    toolset = registry.for_session("full", {"Bash", "More"}, HERE)
    assert "Bash" not in list_names(toolset.tools)
    assert "Extra" not in list_names(toolset.tools)
    assert toolset.find("Bash") == "The tool Bash cannot be used here: a rule denies it as a whole."


def test_a_tool_is_found_by_its_alias_and_a_wrong_name_gets_the_closest() -> None:
    extra = build_plug_in("Extra", "More")
    toolset = collect(BUILT_IN, [extra]).for_session("full", (), HERE)
    assert toolset.find("More") is extra
    assert toolset.find("Raed") == "There is no tool 'Raed'. Did you mean Read?"
    assert str(toolset.find("x" * 1_000_000)).startswith("There is no tool 'xxx")
    assert toolset.find("READ") == "There is no tool 'READ'. Did you mean Read?"
    everything = ", ".join(tool.name for tool in toolset.tools)
    assert toolset.find("qqq") == f"There is no tool 'qqq'. The tools are: {everything}."


def test_a_name_that_is_like_none_of_very_many_tools_is_told_some_of_them() -> None:
    many = collect([build_plug_in(f"Abc{number}") for number in range(60)], []).for_session("full", (), HERE)
    message = str(many.find("qqq"))
    assert message.endswith(" and 10 more.")
    assert message.count(",") == 49


def test_plug_ins_come_by_entry_point_and_a_broken_one_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "from tests.tools.test_registry import MinimalTool\n"
        "class Knock(MinimalTool):\n    name = 'Knock'\n"
        "    def description(self, session):\n        return 'Knocks.'\n"
        "class Wordless(MinimalTool):\n    name = 'Wordless'\n"
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

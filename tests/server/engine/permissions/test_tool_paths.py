"""Every tool that is given a path is bound by the rules about files, unless it says otherwise."""

import re
from pathlib import Path

import anyio
import pytest
from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.server.engine.permissions.file_match import ForbiddingBehavior
from ostler.server.engine.permissions.rule_match import (
    find_allow_rule,
    find_forbidding_rule,
    needs_subject,
)
from ostler.server.engine.permissions.suggest import list_candidates
from ostler.server.settings import Origin, RuleSet, parse_rules
from ostler.tools.builtin import load_registry
from ostler.tools.call_subject import PATH_PARAMETERS, find_subject, list_rule_families
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import AnyTool, Tool, ToolInput, ToolOutput, ToolResult
from ostler.tools.traits import PermissionTraits

NAMES_A_FILE = re.compile(r"path|file|folder|director|notebook")


class TallyInput(ToolInput):
    path: str | None = None
    file_path: str | None = None
    other: str | None = Field(default=None, alias="notebook_path")


class TallyOutput(ToolOutput):
    """Nothing."""


class Tally(Tool[TallyInput, TallyOutput]):
    """A plug-in's tool that says nothing of itself."""

    name = "Tally"
    Input = TallyInput
    Output = TallyOutput

    async def run(self, given: TallyInput, context: ToolContext) -> ToolResult[TallyOutput]:
        return ToolResult(TallyOutput())


class ReadingTally(Tally):
    only_reads = True


class NamedTally(Tally):
    permissions = PermissionTraits(path="path")


class FreeTally(Tally):
    permissions = PermissionTraits(rule_family=())


def make_rules(folder: Path, **lists: list[str]) -> RuleSet:
    return RuleSet.of(parse_rules(lists, Origin("session", None, str(folder), str(folder), "/home/me")), {})


def find_rule(
    tool: AnyTool, given: dict[str, object], rule: str, folder: Path, behavior: ForbiddingBehavior = "deny"
) -> str | None:
    view = SessionView(SessionId("s_1"), str(folder), str(folder), (str(folder),), "default")
    rules = make_rules(folder, **{behavior: [rule]})
    subject = anyio.run(find_subject, tool, tool.parse(given), view)
    found = find_forbidding_rule(rules, behavior, tool, subject)
    assert found is None or needs_subject(rules, tool)
    return found.rule.rule.text if found is not None else None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").touch()
    (tmp_path / "link").symlink_to("secrets/key")
    return tmp_path


@pytest.mark.parametrize("parameter", PATH_PARAMETERS)
@pytest.mark.parametrize("written", ["secrets/key", "{folder}/secrets/key", "link", "file://{folder}/secrets/key"])
@pytest.mark.parametrize("tool", [Tally(), ReadingTally()])
def test_a_tool_that_says_nothing_is_bound_by_the_rules_about_reading(
    folder: Path, tool: AnyTool, parameter: str, written: str
) -> None:
    given: dict[str, object] = {parameter: written.replace("{folder}", str(folder))}
    assert find_rule(tool, given, "Read(secrets/**)", folder) == "Read(secrets/**)"
    assert find_rule(tool, given, "Read(other/**)", folder) is None
    assert find_rule(tool, given, "Read(secrets/**)", folder, "ask") == "Read(secrets/**)"


def test_a_tool_that_may_write_is_bound_by_the_rules_about_writing(folder: Path) -> None:
    given: dict[str, object] = {"path": "secrets/new"}
    assert find_rule(Tally(), given, "Edit(secrets/**)", folder) == "Edit(secrets/**)"
    assert find_rule(NamedTally(), given, "Edit(secrets/**)", folder) == "Edit(secrets/**)"
    assert find_rule(ReadingTally(), given, "Edit(secrets/**)", folder) is None


def test_a_tool_may_say_that_no_rules_about_files_bind_it(folder: Path) -> None:
    view = SessionView(SessionId("s_1"), str(folder), str(folder), (str(folder),), "default")
    tool, rules = FreeTally(), make_rules(folder, deny=["Read(secrets/**)"])
    subject = anyio.run(find_subject, tool, tool.parse({"path": "secrets/key"}), view)
    assert find_forbidding_rule(rules, "deny", tool, subject) is None


@pytest.mark.parametrize("tool", [Tally(), NamedTally()])
def test_a_rule_about_the_tool_itself_is_matched_by_the_path(folder: Path, tool: AnyTool) -> None:
    assert find_rule(tool, {"path": "secrets/key"}, "Tally(secrets/**)", folder) == "Tally(secrets/**)"
    assert find_rule(tool, {"path": "other/key"}, "Tally(secrets/**)", folder) is None


@pytest.mark.parametrize("tool", [Tally(), NamedTally(), FreeTally()])
def test_an_allow_rule_about_the_tool_itself_allows_its_own_paths_alone(folder: Path, tool: AnyTool) -> None:
    view = SessionView(SessionId("s_1"), str(folder), str(folder), (str(folder),), "default")
    rules = make_rules(folder, allow=["Tally(open/**)"])
    (folder / "open").mkdir()
    (folder / "open" / "link").symlink_to("../secrets/key")
    for path, allowed in (
        ("open/x", True),
        ("secrets/key", False),
        ("open/../secrets/key", False),
        ("open/link", False),
    ):
        subject = anyio.run(find_subject, tool, tool.parse({"path": path}), view)
        assert (find_allow_rule(rules, tool, subject, view, lambda _: False) is not None) == allowed, path
    both = anyio.run(find_subject, Tally(), Tally().parse({"path": "open/x", "file_path": "secrets/key"}), view)
    assert find_allow_rule(rules, Tally(), both, view, lambda _: False) is None


@pytest.mark.parametrize("tool", [Tally(), NamedTally()])
def test_a_folder_all_of_which_is_forbidden_is_forbidden_itself(folder: Path, tool: AnyTool) -> None:
    for rule in ("Tally(secrets/**)", "Read(secrets/**)"):
        assert find_rule(tool, {"path": "secrets"}, rule, folder) == rule
        assert find_rule(tool, {"path": "."}, rule, folder) is None


def test_the_rule_that_an_ask_suggests_is_about_the_one_path_that_the_tool_is_given(folder: Path) -> None:
    view = SessionView(SessionId("s_1"), str(folder), str(folder), (str(folder),), "default")

    def suggest(**given: str) -> list[str]:
        return list_candidates(Tally(), Tally().parse(dict(given)), view)

    assert suggest(path="a b/../x") == [f"Tally(/{folder}/x)"]
    assert suggest(path="x", file_path="y") == suggest() == ["Tally"]


NOT_LOOKED_AT = {("ExitPlanMode", "plan_file_path")}
"""Parameters that a model may give, and that the tool does nothing with."""


def list_path_parameters() -> list[tuple[AnyTool, str]]:
    tools = [tool for tool in load_registry().tools if not tool.shell.runs_commands or tool.name == "Monitor"]
    found = [(tool, name) for tool in tools for name in tool.Input.model_fields if NAMES_A_FILE.search(name)]
    return [(tool, name) for tool, name in found if (tool.name, name) not in NOT_LOOKED_AT]


@pytest.mark.parametrize(("tool", "parameter"), list_path_parameters(), ids=lambda each: getattr(each, "name", each))
def test_each_tool_that_takes_a_path_belongs_to_a_family(folder: Path, tool: AnyTool, parameter: str) -> None:
    wanted = {name: info.annotation for name, info in tool.Input.model_fields.items() if info.is_required()}
    required = {name: 1_000 if kind is int else "x" for name, kind in wanted.items()}
    given: dict[str, object] = {**required, parameter: str(folder / "secrets" / "key")}
    family = "Edit" if "Read" not in list_rule_families(tool) else "Read"
    assert list_rule_families(tool)
    assert find_rule(tool, given, f"{family}(secrets/**)", folder) == f"{family}(secrets/**)"

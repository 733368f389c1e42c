"""The list of tools, and what each of them says about itself."""

from typing import Any

import orjson
import pytest

from ostler.tools.builtin import BUILT_IN, load_registry
from ostler.tools.call_subject import list_rule_families
from ostler.tools.permissions import COVERED_BY, find_content_kind
from ostler.tools.testing.testing_permission import TestingPermission
from ostler.tools.tool import AnyTool, AskFirst
from tests.support.tool_calls import Session

EXAMPLES: dict[str, dict[str, Any]] = {
    "AskUserQuestion": {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]},
    "ExitWorktree": {"action": "keep"},
    "Monitor": {"command": "make", "description": "a", "timeout": 1000},
    "NotebookEdit": {"notebook_path": "/a.ipynb", "cell_id": "a", "new_source": "b"},
    "TaskCreate": {"subject": "a", "description": "b"},
    "TaskGet": {"taskId": "1"},
    "TaskUpdate": {"taskId": "1"},
    "TodoWrite": {"todos": []},
}
"""Inputs of tools that more is needed for than what is required."""


def make_example(tool: AnyTool) -> dict[str, Any]:
    """An input with what a tool requires, so that a new tool needs no line here."""
    if tool.name in EXAMPLES:
        return EXAMPLES[tool.name]
    required = {name: info.annotation for name, info in tool.Input.model_fields.items() if info.is_required()}
    return {name: 1 if kind in {int, float} else f"/{name}" for name, kind in required.items()}


def test_the_registry_holds_them_in_the_order_of_their_names() -> None:
    registry = load_registry()
    names = [tool.name for tool in registry.tools if tool.source == "built-in"]
    assert names == sorted(tool.name for tool in BUILT_IN)
    assert {tool.name for tool in registry.tools if tool.in_minimal} == {"Bash", "Edit", "Read"}


@pytest.mark.parametrize("tool", BUILT_IN, ids=lambda tool: tool.name)
def test_each_says_what_it_is(tool: AnyTool, session: Session) -> None:
    given = tool.parse(make_example(tool))
    assert tool.title
    assert "\n" not in tool.title
    assert tool.description(session.view)
    assert tool.summary(given)
    assert tool.is_read_only(given) is tool.only_reads
    assert tool.is_concurrency_safe(given) or not tool.only_reads
    assert not set(tool.search_hint.lower().split()) & {tool.name.lower()}


@pytest.mark.parametrize("tool", BUILT_IN, ids=lambda tool: tool.name)
def test_the_words_of_the_rules_say_the_same_as_the_tool(tool: AnyTool) -> None:
    kind = find_content_kind(tool.name)
    assert (kind == "command") is tool.shell.is_shell
    # A tool that the words do not name is like a plug-in's: its rules are about paths where it is given one.
    assert kind is None or (kind == "path") is (tool.permissions.path is not None)
    if (family := COVERED_BY.get(tool.name)) is not None:
        assert family in list_rule_families(tool)


# Clients and older models add fields of their own to a plan, and none of them may cost its approval.
WITH_FURTHER_FIELDS = {"ExitPlanMode"}


@pytest.mark.parametrize("tool", BUILT_IN, ids=lambda tool: tool.name)
def test_each_schema_is_closed_and_small(tool: AnyTool, session: Session) -> None:
    schema = tool.input_schema(session.view)
    assert schema["additionalProperties"] is (tool.name in WITH_FURTHER_FIELDS)
    assert len(orjson.dumps(schema)) < 3000
    given = {**make_example(tool), "unknown": 1}
    if tool.name in WITH_FURTHER_FIELDS:
        tool.parse(given)
    else:
        with pytest.raises(ValueError, match="extra_forbidden"):
            tool.parse(given)


@pytest.mark.anyio
async def test_the_one_for_tests_always_asks_and_is_there_only_for_them(session: Session) -> None:
    tool = TestingPermission()
    assert not tool.is_enabled(session.view)
    assert tool.is_enabled(session.change_config(testing=True).view)
    for mode in ("default", "bypassPermissions"):
        session.change_view(mode=mode)
        check = await session.check(tool)
        assert check == AskFirst("Run test?")
    assert await session.expect_text(tool) == "The test ran."

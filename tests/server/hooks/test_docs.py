"""The examples on the documentation page about hooks are correct."""

import json
import re
from typing import Any

import pytest

from ostler.server.hooks import EVENTS, Hook, HookCall, format_hook_rows, parse_hooks
from ostler.server.hooks.answers import HookOutput, read_answer
from ostler.server.hooks.events import BLOCKING_EVENTS, DECIDING_EVENTS, FEEDBACK_EVENTS, takes_matcher
from ostler.server.hooks.plugins import DeclaredHook
from tests.server.hooks.hooking import Project, command, parse_declared
from tests.support.repository import DOCS

pytestmark = pytest.mark.anyio

PAGE = (DOCS / "hooks.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ([^\n]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ANSWERS = [(*info.split()[1:], text) for _, info, text in BLOCKS if info.startswith("answer")]


def find_block(language: str, info: str) -> str:
    (text,) = [text for found, about, text in BLOCKS if (found, about) == (language, info)]
    return str(text)


def make_hook_call() -> HookCall:
    payload = json.loads(find_block("json", "input"))
    return HookCall(payload["hook_event_name"], payload)


def test_the_settings_are_read_without_a_problem() -> None:
    hooks, problems = parse_hooks([(json.loads(find_block("json", "settings"))["hooks"], "project", "settings.json")])
    assert problems == ()
    assert {hook.kind for hook in hooks} == {"command", "http", "prompt"}
    assert len(format_hook_rows(hooks)) == 5


@pytest.mark.parametrize(("about", "decision", "text"), ANSWERS)
def test_every_answer_is_understood(about: str, decision: str, text: str) -> None:
    answer = read_answer(about, HookOutput(text))
    assert answer.failure is None
    assert (answer.decision or "none") == decision
    assert any((answer.decision, answer.block, answer.stop))


async def test_the_script_does_what_the_page_says(project: Project) -> None:
    (project.folder / "hook.sh").write_text(find_block("bash", "hook"))
    runner = project.make_runner(*parse_declared("PreToolUse", command("bash hook.sh")))
    call = make_hook_call()
    outcome = await runner.run(call)
    assert (outcome.decision, outcome.reason) == ("deny", "Never force a push here: make a new commit.")
    harmless = HookCall(call.event, {**call.payload, "tool_input": {"command": "git status"}})
    assert (await runner.run(harmless)).decision is None


async def test_the_function_does_what_the_page_says(project: Project) -> None:
    names: dict[str, Any] = {}
    exec(find_block("python", "hook"), names)  # noqa: S102 - our own page
    no_force = names["no_force"]
    assert isinstance(no_force, DeclaredHook)
    hook = Hook(no_force.event, "python", "plugin", "page", matcher=no_force.matcher, call=no_force.call)
    assert (await project.make_runner(hook).run(make_hook_call())).reason == "Never force a push here."


def test_every_event_is_in_the_table_with_what_a_no_does() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert [name for name in rows if name in EVENTS] == list(EVENTS)
    for name in EVENTS:
        field, _, no = rows[name].partition("|")
        assert bool(field.strip()) == takes_matcher(name)
        shown, told = "is shown to people" in no, "is told to the model" in no
        assert (shown, told) == (
            name not in DECIDING_EVENTS | BLOCKING_EVENTS | FEEDBACK_EVENTS,
            name in FEEDBACK_EVENTS,
        )
        assert ("is denied" in no) == (name in DECIDING_EVENTS)

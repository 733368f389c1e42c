"""Hooks that plug-ins declare in Python."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.server.hooks import Hook, HookCall, Outcome, format_hook_rows, hook, load_plugin_hooks
from tests.server.hooks.hooking import BASH_CALL, Project
from tests.support.tool_calls import poll_until

pytestmark = pytest.mark.anyio

MODULE = """
from ostler.server.hooks import hook

@hook("PreToolUse", matcher="Bash", condition="Bash", timeout_seconds=5)
def careful(payload):
    if payload["tool_input"]["command"] == "ls":
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no ls"}}

@hook("UserPromptSubmit")
async def greeting(payload):
    return "say hello"

def undeclared(payload):
    return None
"""
ENTRY_POINTS = """
[ostler.hooks]
careful = theirs:careful
greeting = theirs:greeting
undeclared = theirs:undeclared
missing = theirs:missing
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "theirs.py").write_text(MODULE)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("theirs", None)


def python(call: Any, timeout: float = 10) -> Hook:
    return Hook("PreToolUse", "python", "plugin", "theirs:it", timeout_seconds=timeout, call=call)


async def run(project: Project, *hooks: Hook) -> Outcome:
    return await project.make_runner(*hooks).run(HookCall("PreToolUse", BASH_CALL))


async def test_plug_ins_come_by_entry_point_and_a_broken_one_is_reported(theirs: None, project: Project) -> None:
    hooks, problems = load_plugin_hooks()
    assert [(each.name, each.event, each.matcher, each.condition, each.source) for each in hooks] == [
        ("theirs:careful", "PreToolUse", "Bash", "Bash", "plugin"),
        ("theirs:greeting", "UserPromptSubmit", None, None, "plugin"),
    ]
    missing, undeclared = problems
    assert missing.message.startswith("The hook missing of theirs could not be loaded: AttributeError")
    assert undeclared.message.startswith("The hook undeclared of theirs does not say when it runs")
    runner = project.make_runner(*hooks)
    outcome = await runner.run(HookCall("PreToolUse", BASH_CALL))
    assert (outcome.decision, outcome.reason, outcome.by) == ("deny", "no ls", "plugin hook theirs:careful")
    outcome = await runner.run(HookCall("UserPromptSubmit", {"prompt": "hi"}))
    assert outcome.context == ("say hello",)
    assert format_hook_rows(hooks)[0]["shown"] == "theirs:careful"


@pytest.mark.parametrize(
    "wrong", [{"event": "Wrong"}, {"event": "Stop", "condition": "Bash"}, {"event": "Stop", "timeout_seconds": 0}]
)
def test_a_wrong_declaration_fails_where_it_stands(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"event|condition|limit"):
        hook(**wrong)
    with pytest.raises(ValueError, match="regular expression"):
        hook("PreToolUse", matcher="(")


async def test_a_sync_one_runs_on_a_thread_and_an_async_one_on_the_loop(project: Project) -> None:
    seen: dict[str, threading.Thread] = {}

    def sync(payload: Any) -> None:
        seen["sync"] = threading.current_thread()

    async def not_sync(payload: Any) -> None:
        seen["async"] = threading.current_thread()

    class Both:
        async def __call__(self, payload: Any) -> None:
            seen["object"] = threading.current_thread()

    outcome = await run(project, python(sync), python(not_sync), python(Both()))
    assert outcome.warnings == ()
    assert seen["sync"] is not threading.current_thread()
    assert seen["sync"].daemon
    assert seen["async"] is seen["object"] is threading.current_thread()


async def test_what_one_does_to_its_payload_touches_nobody(project: Project) -> None:
    seen: list[Any] = []

    def spoil(payload: Any) -> None:
        payload["tool_input"].clear()
        payload["tool_name"] = "Other"

    await run(project, python(spoil), python(lambda payload: seen.append(payload["tool_input"])))
    assert seen == [BASH_CALL["tool_input"]]
    assert BASH_CALL["tool_name"] == "Bash"


def make_raising_hooks(error: BaseException) -> Any:
    def work(payload: Any) -> None:
        raise error

    async def async_work(payload: Any) -> None:
        raise error

    return work, async_work


@pytest.mark.parametrize("error", [ValueError("oh"), SystemExit("oh"), KeyboardInterrupt("oh"), TimeoutError("oh")])
async def test_whatever_one_raises_is_a_warning(project: Project, error: BaseException) -> None:
    for call in make_raising_hooks(error):
        outcome = await run(project, python(call))
        assert outcome.decision is None
        assert f"{type(error).__name__}: oh" in outcome.warnings[0]


@pytest.mark.parametrize("result", [True, 1, ["allow"], b"allow", {"decision": object()}, {1: 2}])
async def test_whatever_else_one_returns_is_a_warning(project: Project, result: Any) -> None:
    outcome = await run(project, python(lambda payload: result))
    assert outcome.decision is None
    assert outcome.runs[0].outcome == "failed"


async def test_a_coroutine_from_a_sync_one_is_a_warning(project: Project) -> None:
    async def later() -> str:
        return "never"

    outcome = await run(project, python(lambda payload: later()))
    assert "it returned coroutine" in outcome.warnings[0]


async def test_a_thread_that_hangs_is_left_and_not_run_again_while_it_does(project: Project) -> None:
    go, calls = threading.Event(), []

    def hangs(payload: Any) -> str:
        calls.append(1)
        go.wait(60)
        return "{}"

    hanging = python(hangs, timeout=0.1)
    first = await run(project, hanging)
    assert (first.decision, first.runs[0].outcome) == (None, "timed_out")
    assert "still hangs" in first.warnings[0]
    # Another session has the same plug-in.
    second = await run(project, hanging)
    assert "an earlier run of it still hangs" in second.warnings[0]
    assert len(calls) == 1
    go.set()
    await poll_until(lambda: not any(thread.name == "ostler-hook-theirs:it" for thread in threading.enumerate()))
    third = await run(project, hanging)
    assert (third.warnings, len(calls)) == ((), 2)


async def test_an_async_one_is_cancelled_at_its_time_limit(project: Project) -> None:
    ended = anyio.Event()

    async def waits(payload: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    outcome = await run(project, python(waits, timeout=0.1))
    assert outcome.runs[0].outcome == "timed_out"
    assert ended.is_set()


async def test_an_async_one_that_does_not_want_to_end_is_left(project: Project) -> None:
    go = asyncio.Event()

    async def stubborn(payload: Any) -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    hanging = python(stubborn, timeout=0.1)
    outcome = await run(project, hanging)
    assert "still hangs" in outcome.warnings[0]
    assert "an earlier run" in (await run(project, hanging)).warnings[0]
    go.set()
    await asyncio.sleep(0)
    assert (await run(project, hanging)).warnings == ()


async def test_a_cancelled_call_does_not_wait_for_a_thread(project: Project) -> None:
    go, began = threading.Event(), threading.Event()

    def hangs(payload: Any) -> None:
        began.set()
        go.wait(60)

    async with anyio.create_task_group() as group:
        group.start_soon(run, project, python(hangs, timeout=60))
        await poll_until(began.is_set)
        group.cancel_scope.cancel()
    assert not go.is_set()
    go.set()

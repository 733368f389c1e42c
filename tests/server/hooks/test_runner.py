"""Which hooks are run for an event, and how they run together."""

from typing import Any

import anyio
import pytest

from ostler.server.hooks import NO_OUTCOME, HookCall, parse_hooks
from ostler.server.hooks.runner import MAX_CONCURRENT
from tests.server.hooks.hooking import BASH_CALL, Project, command, parse_declared

pytestmark = pytest.mark.anyio


def says(decision: str, **further: Any) -> str:
    fields = "".join(f', "{name}": {value}' for name, value in further.items())
    return f"""echo '{{"hookSpecificOutput": {{"permissionDecision": "{decision}"{fields}}}}}'"""


async def test_a_session_without_hooks_does_nothing_at_all(project: Project) -> None:
    runner = project.make_runner()
    assert not runner.has_hooks_for("PreToolUse")
    assert not runner.has_hooks_for("PreToolUse", "Bash")
    assert await runner.run(HookCall("PreToolUse", BASH_CALL)) is NO_OUTCOME
    assert project.processes.started == []


async def test_only_hooks_of_the_event_and_the_tool_are_run(project: Project) -> None:
    hooks = (
        *parse_declared("PreToolUse", command("touch edit"), matcher="Edit|Write"),
        *parse_declared("PreToolUse", command("touch bash"), matcher="Ba.h"),
        *parse_declared("PostToolUse", command("touch post"), matcher="Bash"),
    )
    runner = project.make_runner(*hooks)
    assert runner.has_hooks_for("PreToolUse", "Bash")
    assert not runner.has_hooks_for("PreToolUse", "Read")
    assert not runner.has_hooks_for("Stop")
    outcome = await runner.run(HookCall("PreToolUse", BASH_CALL))
    assert [path.name for path in project.folder.iterdir()] == ["bash"]
    assert len(outcome.runs) == 1


async def test_a_matcher_of_a_session_is_about_how_it_began(project: Project) -> None:
    runner = project.make_runner(*parse_declared("SessionStart", command("echo hello"), matcher="startup|resume"))
    assert (await runner.run(HookCall("SessionStart", {"source": "resume"}))).context == ("hello",)
    assert await runner.run(HookCall("SessionStart", {"source": "clear"})) is NO_OUTCOME


async def test_if_takes_a_permission_rule(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("exit 2", **{"if": "Bash"}), command("touch x", **{"if": "Read"}))
    assert outcome.decision == "deny"
    assert len(outcome.runs) == 1
    assert project.rules == [(rule, "Bash", BASH_CALL["tool_input"]) for rule in ("Bash", "Read")]


@pytest.mark.parametrize(("source", "decision"), [("user", None), ("policy", "deny")])
async def test_a_condition_that_cannot_be_told_is_a_hook_that_fails(
    project: Project, source: Any, decision: str | None
) -> None:
    outcome = await project.run("PreToolUse", command("touch ran", **{"if": "("}), source=source)
    assert outcome.decision == decision
    assert "cannot be told: no rule" in outcome.warnings[0]
    assert not (project.folder / "ran").exists()


async def test_a_policys_hook_that_cannot_be_read_denies_what_it_would_see(project: Project) -> None:
    settings = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "agent", "prompt": "x"}]}]}
    hooks, _ = parse_hooks([(settings, "policy", "/etc/ostler/policy.json")])
    runner = project.make_runner(*hooks)
    outcome = await runner.run(HookCall("PreToolUse", BASH_CALL))
    assert outcome.decision == "deny"
    assert outcome.by == "policy hook PreToolUse[0].hooks[0] in /etc/ostler/policy.json"
    assert await runner.run(HookCall("PreToolUse", {**BASH_CALL, "tool_name": "Read"})) is NO_OUTCOME


async def test_hooks_run_in_parallel_and_are_merged_in_order(project: Project) -> None:
    # Each waits for the other: one after the other they would run into their time limits.
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; "
    first = meet.format("a", "b") + meet.format("a", "c") + says("deny", permissionDecisionReason='"first"')
    second = meet.format("b", "a") + says("deny", permissionDecisionReason='"second"') + "; touch c"
    outcome = await project.run("PreToolUse", command(first, timeout=20), command(second, timeout=20))
    assert (outcome.decision, outcome.reason) == ("deny", "first")
    assert [run.hook for run in outcome.runs] == ["PreToolUse[0].hooks[0]", "PreToolUse[0].hooks[1]"]


async def test_deny_beats_ask_beats_allow(project: Project) -> None:
    allow, ask, deny = (command(says(each)) for each in ("allow", "ask", "deny"))
    assert (await project.run("PreToolUse", allow)).decision == "allow"
    assert (await project.run("PreToolUse", allow, ask)).decision == "ask"
    assert (await project.run("PreToolUse", deny, ask, allow)).decision == "deny"
    assert (await project.run("PreToolUse", allow, command("exit 2"))).decision == "deny"
    assert (await project.run("PreToolUse", allow, command("exit 1"))).decision == "allow"


async def test_a_changed_input_reaches_the_caller(project: Project) -> None:
    outcome = await project.run("PreToolUse", command(says("allow", updatedInput='{"command": "ls -l", "timeout": 5}')))
    assert (outcome.decision, outcome.changed_input) == ("allow", {"command": "ls -l", "timeout": 5})


async def test_the_same_command_of_several_files_is_run_once(project: Project) -> None:
    count = command("echo x >> ran; exit 1")
    hooks = (
        *parse_declared("PreToolUse", count, source="user"),
        *parse_declared("PreToolUse", count, matcher="Bash", source="policy"),
        *parse_declared("PreToolUse", count, matcher="B.*", source="project"),
    )
    outcome = await project.make_runner(*hooks).run(HookCall("PreToolUse", BASH_CALL))
    assert (project.folder / "ran").read_text() == "x\n"
    # It counts as the policy's, which is the strictest about it.
    assert (outcome.decision, outcome.runs[0].source) == ("deny", "policy")


async def test_no_more_than_so_many_run_at_once(project: Project) -> None:
    text = "echo >> began; until [ -e go ]; do sleep 0.02; done"
    hooks = [command(f"{text} # {number}") for number in range(MAX_CONCURRENT + 5)]
    began = project.folder / "began"

    def count() -> int:
        return len(began.read_text()) if began.exists() else 0

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: project.run("PreToolUse", *hooks))
        with anyio.fail_after(30):
            while count() < MAX_CONCURRENT:  # noqa: ASYNC110 - other processes set no events
                await anyio.sleep(0.01)
        # The others are not even started: their processes are told before they begin.
        assert len(project.processes.started) == MAX_CONCURRENT
        (project.folder / "go").touch()
    assert count() == MAX_CONCURRENT + 5


async def test_one_hook_that_hangs_costs_only_its_own_time(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("sleep 1000", timeout=0.3), command("exit 2"))
    assert outcome.decision == "deny"
    assert [run.outcome for run in outcome.runs] == ["timed_out", "denied"]


async def test_the_payload_says_which_event_it_is(project: Project) -> None:
    await project.run("Stop", command("cat > got"), stop_hook_active=True, hook_event_name="PreToolUse")
    assert '"hook_event_name":"Stop"' in (project.folder / "got").read_text()

"""What the machine's policy says, nobody overrides."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import ostler.server.daemon.wiring
from ostler.server.settings import BadPolicy
from tests.support.driver import Harness, Json
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_SETTINGS,
    build_rules,
    get_last_decision,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
)

StartWithPolicy = Callable[[Json], Harness]
_SETTINGS: Final = {"permissions.allow_bypass": True, "model": "claude-sonnet-5"}


@pytest.fixture
def start_with_policy(api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartWithPolicy]:
    """A daemon on a machine with a policy; the real place of the file belongs to the machine."""
    harnesses: list[Harness] = []
    file = tmp_path / "policy.json"
    monkeypatch.setattr(ostler.server.daemon.wiring, "POLICY", str(file))
    for name, value in api.environment.items():
        monkeypatch.setenv(name, value)

    def make(policy: Json) -> Harness:
        file.write_text(json.dumps(policy))
        daemon = InProcessDaemon(tmp_path / "home", settings=_SETTINGS)
        daemon.start()
        harnesses.append(Harness(daemon, api, tmp_path))
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()


def test_a_deny_rule_of_the_policy_beats_everybody(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy(build_rules(deny=["Bash(ls:*)"]))
    driver = run_calls(harness, bash("ls"), mode="bypassPermissions", rules={"allow": ["Bash"]})
    found = get_last_decision(driver)
    assert (found["behavior"], found["by"], found["source"]) == ("deny", "rule", "policy")


def test_no_rule_is_offered_where_only_the_policys_own_allow(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({"permissions": {"forbid_other_allow_rules": True}})
    driver = open_session_with_calls(harness, bash("touch it"))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["choices"], ask["suggestions"]) == (["allow", "deny"], [])
    driver.answer(ask, "deny", message="no")
    assert driver.wait_for_turn_end(turn_id)["denials"][0]["allow_with"] is None


def test_policy_can_forbid_the_allow_rules_of_others(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({"permissions": {"forbid_other_allow_rules": True, "allow": ["Bash(touch policys)"]}})
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(allow=["Bash(touch projects)"])})
    names = ("policys", "projects", "sessions")
    driver = run_calls(
        harness,
        *(bash(f"touch {name}") for name in names),
        folder=folder,
        trust=True,
        rules={"allow": ["Bash(touch sessions)"]},
    )
    assert list_decisions(driver) == [("allow", "rule"), ("deny", "on_ask"), ("deny", "on_ask")]


def test_policy_can_freeze_the_mode(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({"permissions": {"frozen_mode": "plan"}})
    driver = run_calls(harness, bash("touch it"), rules={"allow": ["Bash"]})
    assert driver.session["mode"] == "plan"
    assert list_decisions(driver) == [("deny", "mode")]
    error = harness.daemon.expect_error("session/create", cwd=str(driver.folder), mode="acceptEdits")
    assert error["data"]["code"] == "mode_forbidden"


@pytest.mark.parametrize(
    "policy",
    [{"permissions": {"deny": ["Bash("]}}, {"permissions": {"frozen_mode": "everything"}}, {"permisions": {}}],
    ids=str,
)
def test_a_broken_policy_stops_the_start(start_with_policy: StartWithPolicy, policy: Json) -> None:
    with pytest.raises(BadPolicy):
        start_with_policy(policy)


def test_a_policy_hook_that_fails_denies_the_call(start_with_policy: StartWithPolicy) -> None:
    entry = {"hooks": [{"type": "command", "command": "exit 1"}]}
    harness = start_with_policy({"hooks": {"PreToolUse": [entry]}})
    assert list_decisions(run_calls(harness, bash("ls"))) == [("deny", "hook")]

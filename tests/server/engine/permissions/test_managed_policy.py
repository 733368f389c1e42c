"""What the machine's policy says, nobody overrides."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import ostler.server.daemon.opened
import ostler.server.daemon.wiring
from ostler.clients.cli.checks import settings as settings_check
from ostler.protocol.config import Listen
from ostler.protocol.places import find_places
from ostler.server.config.configuration import BadConfig
from ostler.server.http.sockets import open_sockets
from ostler.server.settings import BadPolicy
from ostler.tools.tool_config import Support
from tests.support.driver import Harness, Json
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE, bash
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
    monkeypatch.setattr(ostler.server.daemon.opened, "POLICY", str(file))
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


def test_a_mode_that_the_policy_forbids_is_no_mode_by_any_way_in(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({"forbid_modes": ["bypassPermissions", "acceptEdits"]})
    daemon, folder = harness.daemon, make_project(harness)
    driver = harness.open_session(DONE, folder=folder)
    session, start = {"session_id": driver.id}, {"session_id": driver.id, "input": "x"}
    for mode in ("bypassPermissions", "acceptEdits"):
        for method, params in (
            ("session/create", {"cwd": str(folder)}),
            ("session/update", session),
            ("turn/start", start),
            ("run", {"cwd": str(folder), "input": "x"}),
        ):
            error = daemon.expect_error(method, **params, mode=mode)
            assert error["data"]["code"] == "mode_forbidden", method
            assert f"forbids the mode {mode}" in error["message"], method
    assert daemon.call("session/update", **session, mode="plan")["mode"] == "plan"


def test_a_session_in_a_mode_that_is_forbidden_later_goes_on_in_one_that_is_not(
    start_with_policy: StartWithPolicy, tmp_path: Path
) -> None:
    harness = start_with_policy({})
    driver = open_session_with_calls(harness, bash("touch it"), mode="bypassPermissions", on_ask="deny")
    (tmp_path / "policy.json").write_text(json.dumps({"forbid_modes": ["bypassPermissions", "default"]}))
    driver.run_turn()
    assert list_decisions(driver) == [("deny", "mode")]
    assert "dontAsk" in driver.fetch_result_texts()[0]


def test_a_tool_that_the_policy_forbids_is_not_sent_and_does_not_run(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({"forbid_tools": ["Bash", "Grep"]})
    driver = run_calls(harness, bash("ls"), mode="bypassPermissions", rules={"allow": ["Bash"]})
    sent = {tool["name"] for tool in driver.requests[0].body["tools"]}
    assert "Read" in sent
    assert not sent & {"Bash", "Grep"}
    assert driver.list_event_data("tool.completed")[0]["call"]["is_error"]
    assert driver.list_event_data("tool.started") == []


def test_the_sandbox_is_required_by_policy_whatever_the_configuration_says(
    start_with_policy: StartWithPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Support(works=False, reason="there is no bubblewrap")
    monkeypatch.setattr(ostler.server.daemon.wiring, "_probe_support", lambda: missing)
    harness = start_with_policy({"sandbox": "required"})
    harness.daemon.call("config/set", key="sandbox.mode", value="off")
    driver = open_session_with_calls(harness, bash("touch it"), rules={"allow": ["Bash"]})
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["code"]) == ("failed", "sandbox_missing")
    assert not (driver.folder / "it").exists()


@pytest.mark.without_daemon
def test_nothing_listens_for_others_where_the_policy_forbids_it(tmp_path: Path) -> None:
    listen = Listen(host="0.0.0.0", port=0, behind_proxy=True)
    with pytest.raises(BadConfig, match="which the policy of this machine forbids"):
        open_sockets(listen, tmp_path / "socket", only_loopback=True)
    open_sockets(Listen(port=0), tmp_path / "socket", only_loopback=True).close()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"sandbox": "on"}, 'sandbox is "required"'),
        ({"forbid_modes": "plan"}, "forbid_modes is a list"),
        ({"forbid_modes": ["bypass"]}, "There is no mode 'bypass'"),
        ({"forbid_modes": ["default", "dontAsk", "plan"]}, "has to be left"),
        ({"forbid_modes": ["plan"], "permissions": {"frozen_mode": "plan"}}, "wanted by the same file"),
        ({"forbid_tools": ["Bash(rm:*)"]}, "write Bash(rm:*) into permissions.deny"),
        ({"forbid_tools": [1]}, "forbid_tools is a list"),
        ({"forbid_remote": "yes"}, "forbid_remote is true or false"),
        ({"forbid_mode": []}, "There is no setting 'forbid_mode'"),
    ],
)
def test_a_policy_that_cannot_be_meant_stops_the_start(
    start_with_policy: StartWithPolicy, policy: Json, said: str
) -> None:
    with pytest.raises(BadPolicy, match=re.escape(said)):
        start_with_policy(policy)


def test_only_a_policy_may_say_what_is_forbidden_to_the_daemon(start_with_policy: StartWithPolicy) -> None:
    harness = start_with_policy({})
    folder = make_project(harness, {OSTLER_SETTINGS: {"forbid_modes": ["plan"]}})
    assert harness.open_session(DONE, folder=folder, mode="plan").fetch_state()["mode"] == "plan"


@pytest.mark.without_daemon
def test_the_doctor_says_what_the_policy_forbids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.json"
    monkeypatch.setattr(settings_check, "POLICY_FILE", str(file))
    monkeypatch.chdir(tmp_path)

    def look() -> list[tuple[str, str]]:
        found = settings_check.check_settings(find_places(str(tmp_path / "home")))
        return [(each.state, each.found) for each in found if each.what == "policy"]

    assert look() == []
    file.write_text(json.dumps({"sandbox": "required", "forbid_modes": ["auto"], "forbid_remote": True}))
    words = "commands run only in the sandbox; no mode auto; nothing listens but on loopback"
    assert look() == [("ok", f"{file}: {words}")]
    file.write_text("{")
    assert [state for state, _ in look()] == ["fail"]

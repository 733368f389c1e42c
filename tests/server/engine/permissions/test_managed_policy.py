"""What the machine's policy says, nobody overrides."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import ostler.server.daemon.wiring
from ostler.server.settings import BadPolicy
from tests.support.driver import Json, Stage
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import bash
from tests.support.projects import OURS, decision, decisions, project, rules, runs, talk_of

Governed = Callable[[Json], Stage]
_SETTINGS: Final = {"permissions.allow_bypass": True, "model": "claude-sonnet-5"}


@pytest.fixture
def governed(api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Governed]:
    """A daemon on a machine with a policy; the real place of the file belongs to the machine."""
    stages: list[Stage] = []
    file = tmp_path / "policy.json"
    monkeypatch.setattr(ostler.server.daemon.wiring, "POLICY", str(file))
    for name, value in api.environment.items():
        monkeypatch.setenv(name, value)

    def make(policy: Json) -> Stage:
        file.write_text(json.dumps(policy))
        daemon = InProcessDaemon(tmp_path / "home", settings=_SETTINGS)
        daemon.start()
        stages.append(Stage(daemon, api, tmp_path))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


def test_a_deny_rule_of_the_policy_beats_everybody(governed: Governed) -> None:
    stage = governed(rules(deny=["Bash(ls:*)"]))
    talk = runs(stage, bash("ls"), mode="bypassPermissions", rules={"allow": ["Bash"]})
    found = decision(talk)
    assert (found["behavior"], found["by"], found["source"]) == ("deny", "rule", "policy")


def test_no_rule_is_offered_where_only_the_policys_own_allow(governed: Governed) -> None:
    stage = governed({"permissions": {"forbid_other_allow_rules": True}})
    talk = talk_of(stage, bash("touch it"))
    turn_id = talk.start()
    ask = talk.ask()
    assert (ask["choices"], ask["suggestions"]) == (["allow", "deny"], [])
    talk.answer(ask, "deny", message="no")
    assert talk.ended(turn_id)["denials"][0]["allow_with"] is None


def test_policy_can_forbid_the_allow_rules_of_others(governed: Governed) -> None:
    stage = governed({"permissions": {"forbid_other_allow_rules": True, "allow": ["Bash(touch policys)"]}})
    folder = project(stage, {OURS: rules(allow=["Bash(touch projects)"])})
    names = ("policys", "projects", "sessions")
    talk = runs(
        stage,
        *(bash(f"touch {name}") for name in names),
        folder=folder,
        trust=True,
        rules={"allow": ["Bash(touch sessions)"]},
    )
    assert decisions(talk) == [("allow", "rule"), ("deny", "on_ask"), ("deny", "on_ask")]


def test_policy_can_freeze_the_mode(governed: Governed) -> None:
    stage = governed({"permissions": {"frozen_mode": "plan"}})
    talk = runs(stage, bash("touch it"), rules={"allow": ["Bash"]})
    assert talk.session["mode"] == "plan"
    assert decisions(talk) == [("deny", "mode")]
    error = stage.daemon.error("session/create", cwd=str(talk.folder), mode="acceptEdits")
    assert error["data"]["code"] == "mode_forbidden"


@pytest.mark.parametrize(
    "policy",
    [{"permissions": {"deny": ["Bash("]}}, {"permissions": {"frozen_mode": "everything"}}, {"permisions": {}}],
    ids=str,
)
def test_a_broken_policy_stops_the_start(governed: Governed, policy: Json) -> None:
    with pytest.raises(BadPolicy):
        governed(policy)


def test_a_policy_hook_that_fails_denies_the_call(governed: Governed) -> None:
    entry = {"hooks": [{"type": "command", "command": "exit 1"}]}
    stage = governed({"hooks": {"PreToolUse": [entry]}})
    assert decisions(runs(stage, bash("ls"))) == [("deny", "hook")]

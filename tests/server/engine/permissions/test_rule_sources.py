"""Rules come from many files; deny beats ask beats allow, wherever they stand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.driver import Stage
from tests.support.model_replies import bash
from tests.support.projects import (
    CLAUDES,
    CLAUDES_LOCAL,
    OUR_LOCAL,
    OURS,
    decision,
    decisions,
    explained_command,
    project,
    rules,
    runs,
    talk_of,
    write,
)

IN_PROJECTS = {OURS: "project", CLAUDES: "project", OUR_LOCAL: "local", CLAUDES_LOCAL: "local"}


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_trusted_folders_allow_rule_lets_a_command_run_unasked(stage: Stage, name: str) -> None:
    folder = project(stage, {name: rules(allow=["Bash(touch it)"])})
    talk = runs(stage, bash("touch it"), folder=folder, trust=True)
    assert (folder / "it").exists()
    found = decision(talk)
    assert (found["behavior"], found["by"], found["rule"]) == ("allow", "rule", "Bash(touch it)")
    assert found["source"] == IN_PROJECTS[name]


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_folders_deny_rule_counts_without_trust(stage: Stage, name: str) -> None:
    folder = project(stage, {name: rules(deny=["Bash(ls:*)"])})
    talk = runs(stage, bash("ls"), folder=folder)
    found = decision(talk)
    assert (found["behavior"], found["by"], found["source"]) == ("deny", "rule", IN_PROJECTS[name])
    assert "Bash(ls:*)" in talk.result_texts()[0]


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_folders_ask_rule_counts_without_trust(stage: Stage, name: str) -> None:
    folder = project(stage, {name: rules(ask=["Bash(ls:*)"])})
    talk = talk_of(stage, bash("ls"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    assert (ask["kind"], ask["choices"]) == ("permission", ["allow", "deny", "deny_always"])
    talk.answer(ask, "allow")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert decisions(talk) == [("allow", "person")]


def test_a_persons_own_files_hold_in_every_folder(own_stage: Callable[..., Stage], tmp_path: Path) -> None:
    person = tmp_path / "person"
    write(person, ".claude/settings.json", rules(allow=["Bash(touch theirs)"]))
    write(tmp_path / "home", "settings.json", rules(allow=["Bash(touch ours)"]))
    stage = own_stage(HOME=str(person))
    talk = runs(stage, bash("touch ours"), bash("touch theirs"), bash("touch nobodys"))
    assert decisions(talk) == [("allow", "rule"), ("allow", "rule"), ("deny", "on_ask")]
    listed = stage.daemon.call("rule/list", session_id=talk.id)["rules"]
    assert [(each["rule"], each["source"], each["file"]) for each in listed] == [
        ("Bash(touch ours)", "user", str(tmp_path / "home" / "settings.json")),
        ("Bash(touch theirs)", "user", str(person / ".claude/settings.json")),
    ]


def test_rules_that_a_session_is_started_with_count_and_are_called_flags(stage: Stage) -> None:
    talk = runs(stage, bash("touch it"), bash("ls"), rules={"allow": ["Bash(touch it)"], "deny": ["Bash(ls)"]})
    assert decisions(talk) == [("allow", "rule"), ("deny", "rule")]
    assert decision(talk)["source"] == "flag"


def test_rules_that_a_session_gets_later_are_its_own(stage: Stage) -> None:
    talk = talk_of(stage, bash("touch it"), rules={"allow": ["Bash(ls:*)"]}, on_ask="deny")
    added = {"session_id": talk.id, "behavior": "allow", "rule": "Bash(touch it)", "scope": "session"}
    stage.daemon.call("rule/add", **added)
    talk.turn()
    assert decision(talk)["source"] == "session"
    listed = stage.daemon.call("rule/list", session_id=talk.id)["rules"]
    assert [(each["rule"], each["source"]) for each in listed] == [
        ("Bash(ls:*)", "flag"),
        ("Bash(touch it)", "session"),
    ]


def test_deny_beats_ask_beats_allow_across_sources(stage: Stage) -> None:
    folder = project(
        stage,
        {
            OURS: rules(allow=["Bash(make a)", "Bash(make b)", "Bash(make c)"], ask=["Bash(make b)"]),
            CLAUDES_LOCAL: rules(deny=["Bash(make c)"]),
        },
    )
    given = {"allow": ["Bash(make b)", "Bash(make c)"], "ask": ["Bash(make c)"]}
    talk = stage.talk(folder=folder, trust=True, rules=given)
    found = [explained_command(talk, f"make {each}") for each in "abc"]
    assert [(each["behavior"], each["source"]) for each in found] == [
        ("allow", "project"),
        ("ask", "project"),
        ("deny", "local"),
    ]


def test_the_root_of_the_repository_around_a_folder_counts_too(stage: Stage) -> None:
    root = project(stage, {OURS: rules(deny=["Bash(make:*)", "Read(secrets/**)"])})
    (root / ".git").mkdir()
    (root / "sub" / "secrets").mkdir(parents=True)
    (root / "sub" / "secrets" / "x").write_text("x")
    talk = stage.talk(folder=root / "sub")
    assert explained_command(talk, "make it")["behavior"] == "deny"
    assert explained_command(talk, "cat secrets/x")["rule"] == "Read(secrets/**)"


def test_a_project_never_allows_a_whole_tool_however_trusted(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(allow=["Bash", "Bash(*)", "Edit(//**)"])})
    talk = runs(stage, bash("touch it"), folder=folder, trust=True)
    assert decisions(talk) == [("deny", "on_ask")]
    listed = stage.daemon.call("rule/list", session_id=talk.id)["rules"]
    assert [each["counts"] for each in listed] == [False, False, False]


def test_a_tool_that_is_denied_as_a_whole_is_not_told_to_the_model(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Bash", "Read"])})
    talk = runs(stage, bash("ls"), folder=folder)
    names = [tool["name"] for tool in talk.requests[0].body["tools"]]
    assert not {"Bash", "Read", "Grep", "Glob"} & set(names)
    assert "a rule denies it as a whole" in talk.result_texts()[0]

"""Rules come from many files; deny beats ask beats allow, wherever they stand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.driver import Harness
from tests.support.model_replies import bash
from tests.support.projects import (
    CLAUDE_LOCAL_SETTINGS,
    CLAUDE_SETTINGS,
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    get_last_decision,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
    write_settings,
)

IN_PROJECTS = {
    OSTLER_SETTINGS: "project",
    CLAUDE_SETTINGS: "project",
    OSTLER_LOCAL_SETTINGS: "local",
    CLAUDE_LOCAL_SETTINGS: "local",
}


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_trusted_folders_allow_rule_lets_a_command_run_unasked(harness: Harness, name: str) -> None:
    folder = make_project(harness, {name: build_rules(allow=["Bash(touch it)"])})
    driver = run_calls(harness, bash("touch it"), folder=folder, trust=True)
    assert (folder / "it").exists()
    found = get_last_decision(driver)
    assert (found["behavior"], found["by"], found["rule"]) == ("allow", "rule", "Bash(touch it)")
    assert found["source"] == IN_PROJECTS[name]


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_folders_deny_rule_counts_without_trust(harness: Harness, name: str) -> None:
    folder = make_project(harness, {name: build_rules(deny=["Bash(ls:*)"])})
    driver = run_calls(harness, bash("ls"), folder=folder)
    found = get_last_decision(driver)
    assert (found["behavior"], found["by"], found["source"]) == ("deny", "rule", IN_PROJECTS[name])
    assert "Bash(ls:*)" in driver.fetch_result_texts()[0]


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_folders_ask_rule_counts_without_trust(harness: Harness, name: str) -> None:
    folder = make_project(harness, {name: build_rules(ask=["Bash(ls:*)"])})
    driver = open_session_with_calls(harness, bash("ls"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], ask["choices"]) == ("permission", ["allow", "deny", "deny_always"])
    driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert list_decisions(driver) == [("allow", "person")]


def test_a_persons_own_files_hold_in_every_folder(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    person = tmp_path / "person"
    write_settings(person, ".claude/settings.json", build_rules(allow=["Bash(touch theirs)"]))
    write_settings(tmp_path / "home", "settings.json", build_rules(allow=["Bash(touch ours)"]))
    harness = own_harness(HOME=str(person))
    driver = run_calls(harness, bash("touch ours"), bash("touch theirs"), bash("touch nobodys"))
    assert list_decisions(driver) == [("allow", "rule"), ("allow", "rule"), ("deny", "on_ask")]
    listed = harness.daemon.call("rule/list", session_id=driver.id)["rules"]
    assert [(each["rule"], each["source"], each["file"]) for each in listed] == [
        ("Bash(touch ours)", "user", str(tmp_path / "home" / "settings.json")),
        ("Bash(touch theirs)", "user", str(person / ".claude/settings.json")),
    ]


def test_rules_that_a_session_is_started_with_count_and_are_called_flags(harness: Harness) -> None:
    driver = run_calls(harness, bash("touch it"), bash("ls"), rules={"allow": ["Bash(touch it)"], "deny": ["Bash(ls)"]})
    assert list_decisions(driver) == [("allow", "rule"), ("deny", "rule")]
    assert get_last_decision(driver)["source"] == "flag"


def test_rules_that_a_session_gets_later_are_its_own(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("touch it"), rules={"allow": ["Bash(ls:*)"]}, on_ask="deny")
    added = {"session_id": driver.id, "behavior": "allow", "rule": "Bash(touch it)", "scope": "session"}
    harness.daemon.call("rule/add", **added)
    driver.run_turn()
    assert get_last_decision(driver)["source"] == "session"
    listed = harness.daemon.call("rule/list", session_id=driver.id)["rules"]
    assert [(each["rule"], each["source"]) for each in listed] == [
        ("Bash(ls:*)", "flag"),
        ("Bash(touch it)", "session"),
    ]


def test_deny_beats_ask_beats_allow_across_sources(harness: Harness) -> None:
    folder = make_project(
        harness,
        {
            OSTLER_SETTINGS: build_rules(allow=["Bash(make a)", "Bash(make b)", "Bash(make c)"], ask=["Bash(make b)"]),
            CLAUDE_LOCAL_SETTINGS: build_rules(deny=["Bash(make c)"]),
        },
    )
    given = {"allow": ["Bash(make b)", "Bash(make c)"], "ask": ["Bash(make c)"]}
    driver = harness.open_session(folder=folder, trust=True, rules=given)
    found = [explain_command(driver, f"make {each}") for each in "abc"]
    assert [(each["behavior"], each["source"]) for each in found] == [
        ("allow", "project"),
        ("ask", "project"),
        ("deny", "local"),
    ]


def test_the_root_of_the_repository_around_a_folder_counts_too(harness: Harness) -> None:
    root = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Bash(make:*)", "Read(secrets/**)"])})
    (root / ".git").mkdir()
    (root / "sub" / "secrets").mkdir(parents=True)
    (root / "sub" / "secrets" / "x").write_text("x")
    driver = harness.open_session(folder=root / "sub")
    assert explain_command(driver, "make it")["behavior"] == "deny"
    assert explain_command(driver, "cat secrets/x")["rule"] == "Read(secrets/**)"


def test_a_project_never_allows_a_whole_tool_however_trusted(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(allow=["Bash", "Bash(*)", "Edit(//**)"])})
    driver = run_calls(harness, bash("touch it"), folder=folder, trust=True)
    assert list_decisions(driver) == [("deny", "on_ask")]
    listed = harness.daemon.call("rule/list", session_id=driver.id)["rules"]
    assert [each["counts"] for each in listed] == [False, False, False]


def test_a_tool_that_is_denied_as_a_whole_is_not_told_to_the_model(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Bash", "Read"])})
    driver = run_calls(harness, bash("ls"), folder=folder)
    names = [tool["name"] for tool in driver.requests[0].body["tools"]]
    assert not {"Bash", "Read", "Grep", "Glob"} & set(names)
    assert "a rule denies it as a whole" in driver.fetch_result_texts()[0]

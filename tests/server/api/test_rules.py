"""rule/list, add, remove, explain."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ostler.protocol import times
from tests.support.daemon import wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    explain_rule,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
)

FILES = {"local": OSTLER_LOCAL_SETTINGS, "project": OSTLER_SETTINGS}


def list_rules(harness: Harness, session_id: str) -> list[Json]:
    found: list[Json] = harness.daemon.call("rule/list", session_id=session_id)["rules"]
    return found


def make_expiry(seconds: float) -> str:
    return times.format_time(datetime.now(UTC) + timedelta(seconds=seconds))


def test_list_shows_each_rule_with_its_source_file_and_whether_it_counts(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(allow=["Bash(make)"], deny=["Bash(rm:*)"])})
    driver = harness.open_session(folder=folder, rules={"ask": ["Read(x)"]})
    found = [
        (each["behavior"], each["rule"], each["source"], each["counts"]) for each in list_rules(harness, driver.id)
    ]
    assert found == [
        ("ask", "Read(x)", "flag", True),
        ("deny", "Bash(rm:*)", "project", True),
        ("allow", "Bash(make)", "project", False),
    ]
    assert [each["file"] for each in list_rules(harness, driver.id)] == [
        None,
        str(folder / OSTLER_SETTINGS),
        str(folder / OSTLER_SETTINGS),
    ]


def test_list_comes_in_pages(harness: Harness) -> None:
    driver = harness.open_session(rules={"deny": [f"Bash(n{number})" for number in range(5)]})
    first = harness.daemon.call("rule/list", session_id=driver.id, limit=3)
    second = harness.daemon.call("rule/list", session_id=driver.id, limit=3, page=first["next"])
    assert [each["rule"] for each in first["rules"] + second["rules"]] == [f"Bash(n{number})" for number in range(5)]
    assert second["next"] is None


def test_add_to_the_session_counts_at_once_and_after_a_restart_of_nothing_else(harness: Harness) -> None:
    driver = harness.open_session()
    entry = harness.daemon.call("rule/add", session_id=driver.id, behavior="deny", rule="Bash( ls )")
    assert (entry["behavior"], entry["source"], entry["file"]) == ("deny", "session", None)
    assert explain_command(driver, "ls")["behavior"] == "deny"
    assert [each["rule"] for each in list_rules(harness, driver.id)] == [entry["rule"]]
    other = harness.open_session()
    assert explain_command(other, "ls")["behavior"] == "allow"


@pytest.mark.parametrize("scope", ["local", "project"])
def test_add_to_a_file_writes_our_own_and_holds_in_a_new_session(harness: Harness, scope: str) -> None:
    folder = make_project(harness)
    driver = harness.open_session(folder=folder)
    entry = harness.daemon.call("rule/add", session_id=driver.id, behavior="allow", rule="Bash(touch it)", scope=scope)
    assert (entry["source"], entry["file"]) == (scope, str(folder / FILES[scope]))
    assert json.loads((folder / FILES[scope]).read_text())["permissions"]["allow"] == ["Bash(touch it)"]
    assert not (folder / ".claude").exists()
    again = run_calls(harness, bash("touch it"), folder=folder)
    assert list_decisions(again) == [("allow", "rule")]
    assert again.list_event_types("ask.opened") == []


def test_add_for_the_person_holds_in_every_folder(harness: Harness) -> None:
    driver = harness.open_session()
    rule = {"behavior": "deny", "rule": "Bash(nobody-has-this:*)", "scope": "user"}
    entry = harness.daemon.call("rule/add", session_id=driver.id, **rule)
    assert entry["file"] == str(harness.daemon.home / "settings.json")
    other = harness.open_session()
    assert explain_command(other, "nobody-has-this")["source"] == "user"
    harness.daemon.call("rule/remove", session_id=driver.id, **rule)
    assert explain_command(other, "nobody-has-this")["behavior"] == "ask"


@pytest.mark.parametrize("scope", ["session", "local"])
def test_a_rule_ends_when_it_expires(harness: Harness, scope: str) -> None:
    driver = harness.open_session(folder=make_project(harness))
    rule = {"behavior": "allow", "rule": "Bash(touch it)", "scope": scope}
    entry = harness.daemon.call("rule/add", session_id=driver.id, **rule, expires_at=make_expiry(1))
    assert entry["expires_at"] is not None
    assert explain_command(driver, "touch it")["behavior"] == "allow"
    wait_until(lambda: explain_command(driver, "touch it")["behavior"] == "ask")


@pytest.mark.parametrize("scope", ["session", "local", "project"])
def test_remove_takes_a_rule_away_and_complains_of_one_that_is_not_there(harness: Harness, scope: str) -> None:
    driver = harness.open_session(folder=make_project(harness))
    rule = {"session_id": driver.id, "behavior": "deny", "rule": "Bash(ls)", "scope": scope}
    harness.daemon.call("rule/add", **rule)
    assert explain_command(driver, "ls")["behavior"] == "deny"
    harness.daemon.call("rule/remove", **rule)
    assert explain_command(driver, "ls")["behavior"] == "allow"
    assert harness.daemon.expect_error("rule/remove", **rule)["code"] == -32602


@pytest.mark.parametrize("rule", ["Bash(", "Bahs(ls)", "no rule at all", "Read(!x)", ""])
def test_add_refuses_what_is_no_rule(harness: Harness, rule: str) -> None:
    driver = harness.open_session()
    assert harness.daemon.expect_error("rule/add", session_id=driver.id, behavior="deny", rule=rule)["code"] == -32602
    assert list_rules(harness, driver.id) == []


def test_a_file_that_cannot_be_written_is_a_conflict_and_changes_nothing(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_LOCAL_SETTINGS: "{ this is no JSON"})
    driver = harness.open_session(folder=folder)
    rule = {"behavior": "deny", "rule": "Bash(ls)", "scope": "local"}
    error = harness.daemon.expect_error("rule/add", session_id=driver.id, **rule)
    assert error["data"]["code"] == "conflict"
    assert (folder / OSTLER_LOCAL_SETTINGS).read_text() == "{ this is no JSON"


def test_a_rule_that_cannot_be_written_leaves_the_ask_open(harness: Harness) -> None:
    folder = make_project(harness)
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    (folder / ".ostler").write_text("a file where a folder has to be")
    answer = {"choice": "allow_always", "scope": "local"}
    assert harness.daemon.expect_error("ask/resolve", ask_id=ask["id"], answer=answer)["data"]["code"] == "conflict"
    assert driver.fetch_state()["asks"] == [ask]
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)


def remember_rule(harness: Harness, scope: str) -> tuple[Path, SessionDriver]:
    """A folder where a person said yes for good, and a session that came after."""
    folder = make_project(harness, {".claude/settings.json": {"permissions": {}}})
    before = (folder / ".claude/settings.json").read_text()
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder)
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow_always", scope=scope, rule="Bash(touch it)")
    driver.wait_for_turn_end(turn_id)
    assert (folder / ".claude/settings.json").read_text() == before
    assert not (folder / ".claude/settings.local.json").exists()
    return folder, run_calls(harness, bash("touch it"), folder=folder)


def read_allow_rules(file: Path) -> list[str]:
    found: list[str] = json.loads(file.read_text())["permissions"]["allow"]
    return found


@pytest.mark.parametrize("scope", FILES)
def test_an_answer_that_is_remembered_writes_our_file_and_holds_in_a_new_session(harness: Harness, scope: str) -> None:
    folder, again = remember_rule(harness, scope)
    assert read_allow_rules(folder / FILES[scope]) == ["Bash(touch it)"]
    assert list_decisions(again) == [("allow", "rule")]
    assert again.list_event_types("ask.opened") == []  # no question of trust either


def test_an_answer_that_is_remembered_for_the_person_holds_everywhere(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder, again = remember_rule(harness, "user")
    assert read_allow_rules(harness.daemon.home / "settings.json") == ["Bash(touch it)"]
    assert not (folder / ".ostler").exists()
    assert list_decisions(again) == [("allow", "rule")]
    assert list_decisions(run_calls(harness, bash("touch it"))) == [("allow", "rule")]


def test_deny_always_is_remembered_in_a_file_too(harness: Harness) -> None:
    folder = make_project(harness)
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.answer(ask, "deny_always", scope="local", message="never")
    driver.wait_for_turn_end(turn_id)
    assert json.loads((folder / OSTLER_LOCAL_SETTINGS).read_text())["permissions"]["deny"] == [
        ask["suggestions"][0]["rule"]
    ]
    assert list_decisions(run_calls(harness, bash("touch it"), folder=folder)) == [("deny", "rule")]


# What would happen to a call.


def test_explain_names_the_reason_of_each_outcome(bypassing_harness: Harness) -> None:
    given = {"allow": ["Bash(make)"], "ask": ["Bash(git push:*)"], "deny": ["Bash(rm:*)"]}
    driver = bypassing_harness.open_session(rules=given)
    found = {command: explain_command(driver, command) for command in ("make", "git push", "rm x", "ls", "cc x.c")}
    assert {command: (each["behavior"], each["by"]) for command, each in found.items()} == {
        "make": ("allow", "rule"),
        "git push": ("ask", "rule"),
        "rm x": ("deny", "rule"),
        "ls": ("allow", "read_only"),
        "cc x.c": ("ask", "default"),
    }
    assert found["ls"]["read_only"]
    assert found["rm x"]["rule"] == "Bash(rm:*)"
    guarded = explain_rule(
        bypassing_harness.daemon, driver.id, "Write", file_path=str(driver.folder / ".envrc"), content="x"
    )
    assert (guarded["behavior"], guarded["by"]) == ("ask", "safety")
    for mode, command, outcome in [
        ("bypassPermissions", "cc x.c", ("allow", "mode")),
        ("plan", "cc x.c", ("deny", "mode")),
        ("dontAsk", "cc x.c", ("deny", "mode")),
    ]:
        other = bypassing_harness.open_session(mode=mode)
        answer = explain_command(other, command)
        assert (answer["behavior"], answer["by"]) == outcome
    silent = bypassing_harness.open_session(on_ask="deny")
    assert explain_command(silent, "cc x.c")["by"] == "on_ask"


def test_explain_runs_nothing(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    assert explain_command(driver, "touch it")["behavior"] == "allow"
    assert not (driver.folder / "it").exists()


def test_explain_says_why_a_command_that_cannot_be_read_is_asked(harness: Harness) -> None:
    driver = harness.open_session()
    found = explain_command(driver, "echo 'unfinished")
    assert found["behavior"] == "ask"
    assert found["reason"]


def test_explain_shows_the_parts_of_a_command(harness: Harness) -> None:
    driver = harness.open_session()
    found = explain_command(driver, "git status | head; touch x")
    assert [(part["text"], part["read_only"]) for part in found["parts"]] == [
        ("git status", True),
        ("head", True),
        ("touch x", False),
    ]
    assert found["parts"][2]["reason"]
    assert found["behavior"] == "ask"


def test_explain_shows_what_a_command_would_do_to_files(harness: Harness) -> None:
    driver = harness.open_session()
    (driver.folder / "sub").mkdir()
    (driver.folder / "f").touch()
    (driver.folder / "link").symlink_to("f")
    real = driver.folder.resolve()
    found = explain_command(driver, "mv f sub; rm link; make x")["effects"]
    said = {(each["action"], each["path"], each["written"]) for each in found["files"]}
    assert ("move", str(real / "f"), None) in said
    assert ("create", str(real / "sub" / "f"), None) in said
    assert ("delete", str(real / "f"), str(real / "link")) in said
    assert found["unknown"] == "it is not known what make does to files"
    assert (found["unknown_reads"], found["unknown_writes"], found["left_out"]) == (False, False, 0)
    assert explain_command(driver, "cat $x")["effects"]["unknown_reads"]
    assert explain_command(driver, "git log -p")["effects"]["shows_repository"]


def test_explain_lists_a_hundred_files_at_most(harness: Harness) -> None:
    driver = harness.open_session()
    (driver.folder / "many").mkdir()
    for number in range(60):
        (driver.folder / "many" / str(number)).touch()
    found = explain_command(driver, "mv many other")["effects"]
    assert (len(found["files"]), found["left_out"]) == (100, 22)


def test_explain_refuses_a_tool_that_there_is_not_and_input_that_is_none(harness: Harness) -> None:
    driver = harness.open_session()
    error = harness.daemon.expect_error("rule/explain", session_id=driver.id, tool="Bahs", input={})
    assert error["data"]["code"] == "tool_not_found"
    error = harness.daemon.expect_error("rule/explain", session_id=driver.id, tool="Bash", input={"cmd": "ls"})
    assert error["code"] == -32602


@pytest.mark.parametrize("given", ["2100-01-31T12:00:00Z", "2100-01-31T12:00:00.000Z", "2100-01-31T14:00:00+02:00"])
def test_a_rule_may_end_at_any_time_of_rfc_3339(harness: Harness, given: str) -> None:
    driver = harness.open_session()
    rule = {"behavior": "allow", "rule": "Bash(touch it)", "expires_at": given}
    added = harness.daemon.call("rule/add", session_id=driver.id, **rule)
    assert added["expires_at"] == "2100-01-31T12:00:00.000Z"

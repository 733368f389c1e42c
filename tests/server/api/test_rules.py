"""rule/list, add, remove, explain."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ostler.protocol import times
from tests.support.daemon import wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.model_replies import bash
from tests.support.projects import (
    OUR_LOCAL,
    OURS,
    decisions,
    explained,
    explained_command,
    project,
    rules,
    runs,
    talk_of,
)

FILES = {"local": OUR_LOCAL, "project": OURS}


def listed(stage: Stage, session_id: str) -> list[Json]:
    found: list[Json] = stage.daemon.call("rule/list", session_id=session_id)["rules"]
    return found


def later(seconds: float) -> str:
    return times.at(datetime.now(UTC) + timedelta(seconds=seconds))


def test_list_shows_each_rule_with_its_source_file_and_whether_it_counts(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(allow=["Bash(make)"], deny=["Bash(rm:*)"])})
    talk = stage.talk(folder=folder, rules={"ask": ["Read(x)"]})
    found = [(each["behavior"], each["rule"], each["source"], each["counts"]) for each in listed(stage, talk.id)]
    assert found == [
        ("ask", "Read(x)", "flag", True),
        ("deny", "Bash(rm:*)", "project", True),
        ("allow", "Bash(make)", "project", False),
    ]
    assert [each["file"] for each in listed(stage, talk.id)] == [None, str(folder / OURS), str(folder / OURS)]


def test_list_comes_in_pages(stage: Stage) -> None:
    talk = stage.talk(rules={"deny": [f"Bash(n{number})" for number in range(5)]})
    first = stage.daemon.call("rule/list", session_id=talk.id, limit=3)
    second = stage.daemon.call("rule/list", session_id=talk.id, limit=3, page=first["next"])
    assert [each["rule"] for each in first["rules"] + second["rules"]] == [f"Bash(n{number})" for number in range(5)]
    assert second["next"] is None


def test_add_to_the_session_counts_at_once_and_after_a_restart_of_nothing_else(stage: Stage) -> None:
    talk = stage.talk()
    entry = stage.daemon.call("rule/add", session_id=talk.id, behavior="deny", rule="Bash( ls )")
    assert (entry["behavior"], entry["source"], entry["file"]) == ("deny", "session", None)
    assert explained_command(talk, "ls")["behavior"] == "deny"
    assert [each["rule"] for each in listed(stage, talk.id)] == [entry["rule"]]
    other = stage.talk()
    assert explained_command(other, "ls")["behavior"] == "allow"


@pytest.mark.parametrize("scope", ["local", "project"])
def test_add_to_a_file_writes_our_own_and_holds_in_a_new_session(stage: Stage, scope: str) -> None:
    folder = project(stage)
    talk = stage.talk(folder=folder)
    entry = stage.daemon.call("rule/add", session_id=talk.id, behavior="allow", rule="Bash(touch it)", scope=scope)
    assert (entry["source"], entry["file"]) == (scope, str(folder / FILES[scope]))
    assert json.loads((folder / FILES[scope]).read_text())["permissions"]["allow"] == ["Bash(touch it)"]
    assert not (folder / ".claude").exists()
    again = runs(stage, bash("touch it"), folder=folder)
    assert decisions(again) == [("allow", "rule")]
    assert again.types("ask.opened") == []


def test_add_for_the_person_holds_in_every_folder(stage: Stage) -> None:
    talk = stage.talk()
    rule = {"behavior": "deny", "rule": "Bash(nobody-has-this:*)", "scope": "user"}
    entry = stage.daemon.call("rule/add", session_id=talk.id, **rule)
    assert entry["file"] == str(stage.daemon.home / "settings.json")
    other = stage.talk()
    assert explained_command(other, "nobody-has-this")["source"] == "user"
    stage.daemon.call("rule/remove", session_id=talk.id, **rule)
    assert explained_command(other, "nobody-has-this")["behavior"] == "ask"


@pytest.mark.parametrize("scope", ["session", "local"])
def test_a_rule_ends_when_it_expires(stage: Stage, scope: str) -> None:
    talk = stage.talk(folder=project(stage))
    rule = {"behavior": "allow", "rule": "Bash(touch it)", "scope": scope}
    entry = stage.daemon.call("rule/add", session_id=talk.id, **rule, expires_at=later(1))
    assert entry["expires_at"] is not None
    assert explained_command(talk, "touch it")["behavior"] == "allow"
    wait_until(lambda: explained_command(talk, "touch it")["behavior"] == "ask")


@pytest.mark.parametrize("scope", ["session", "local", "project"])
def test_remove_takes_a_rule_away_and_complains_of_one_that_is_not_there(stage: Stage, scope: str) -> None:
    talk = stage.talk(folder=project(stage))
    rule = {"session_id": talk.id, "behavior": "deny", "rule": "Bash(ls)", "scope": scope}
    stage.daemon.call("rule/add", **rule)
    assert explained_command(talk, "ls")["behavior"] == "deny"
    stage.daemon.call("rule/remove", **rule)
    assert explained_command(talk, "ls")["behavior"] == "allow"
    assert stage.daemon.error("rule/remove", **rule)["code"] == -32602


@pytest.mark.parametrize("rule", ["Bash(", "Bahs(ls)", "no rule at all", "Read(!x)", ""])
def test_add_refuses_what_is_no_rule(stage: Stage, rule: str) -> None:
    talk = stage.talk()
    assert stage.daemon.error("rule/add", session_id=talk.id, behavior="deny", rule=rule)["code"] == -32602
    assert listed(stage, talk.id) == []


def test_a_file_that_cannot_be_written_is_a_conflict_and_changes_nothing(stage: Stage) -> None:
    folder = project(stage, {OUR_LOCAL: "{ this is no JSON"})
    talk = stage.talk(folder=folder)
    rule = {"behavior": "deny", "rule": "Bash(ls)", "scope": "local"}
    error = stage.daemon.error("rule/add", session_id=talk.id, **rule)
    assert error["data"]["code"] == "conflict"
    assert (folder / OUR_LOCAL).read_text() == "{ this is no JSON"


def test_a_rule_that_cannot_be_written_leaves_the_ask_open(stage: Stage) -> None:
    folder = project(stage)
    talk = talk_of(stage, bash("touch it"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    (folder / ".ostler").write_text("a file where a folder has to be")
    answer = {"choice": "allow_always", "scope": "local"}
    assert stage.daemon.error("ask/resolve", ask_id=ask["id"], answer=answer)["data"]["code"] == "conflict"
    assert talk.state()["asks"] == [ask]
    talk.answer(ask, "allow")
    talk.ended(turn_id)


def remembered(stage: Stage, scope: str) -> tuple[Path, Talk]:
    """A folder where a person said yes for good, and a session that came after."""
    folder = project(stage, {".claude/settings.json": {"permissions": {}}})
    before = (folder / ".claude/settings.json").read_text()
    talk = talk_of(stage, bash("touch it"), folder=folder)
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow_always", scope=scope, rule="Bash(touch it)")
    talk.ended(turn_id)
    assert (folder / ".claude/settings.json").read_text() == before
    assert not (folder / ".claude/settings.local.json").exists()
    return folder, runs(stage, bash("touch it"), folder=folder)


def allowed_in(file: Path) -> list[str]:
    found: list[str] = json.loads(file.read_text())["permissions"]["allow"]
    return found


@pytest.mark.parametrize("scope", FILES)
def test_an_answer_that_is_remembered_writes_our_file_and_holds_in_a_new_session(stage: Stage, scope: str) -> None:
    folder, again = remembered(stage, scope)
    assert allowed_in(folder / FILES[scope]) == ["Bash(touch it)"]
    assert decisions(again) == [("allow", "rule")]
    assert again.types("ask.opened") == []  # no question of trust either


def test_an_answer_that_is_remembered_for_the_person_holds_everywhere(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder, again = remembered(stage, "user")
    assert allowed_in(stage.daemon.home / "settings.json") == ["Bash(touch it)"]
    assert not (folder / ".ostler").exists()
    assert decisions(again) == [("allow", "rule")]
    assert decisions(runs(stage, bash("touch it"))) == [("allow", "rule")]


def test_deny_always_is_remembered_in_a_file_too(stage: Stage) -> None:
    folder = project(stage)
    talk = talk_of(stage, bash("touch it"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    talk.answer(ask, "deny_always", scope="local", message="never")
    talk.ended(turn_id)
    assert json.loads((folder / OUR_LOCAL).read_text())["permissions"]["deny"] == [ask["suggestions"][0]["rule"]]
    assert decisions(runs(stage, bash("touch it"), folder=folder)) == [("deny", "rule")]


# What would happen to a call.


def test_explain_names_the_reason_of_each_outcome(bypassing: Stage) -> None:
    given = {"allow": ["Bash(make)"], "ask": ["Bash(git push:*)"], "deny": ["Bash(rm:*)"]}
    talk = bypassing.talk(rules=given)
    found = {command: explained_command(talk, command) for command in ("make", "git push", "rm x", "ls", "cc x.c")}
    assert {command: (each["behavior"], each["by"]) for command, each in found.items()} == {
        "make": ("allow", "rule"),
        "git push": ("ask", "rule"),
        "rm x": ("deny", "rule"),
        "ls": ("allow", "read_only"),
        "cc x.c": ("ask", "default"),
    }
    assert found["ls"]["read_only"]
    assert found["rm x"]["rule"] == "Bash(rm:*)"
    guarded = explained(bypassing.daemon, talk.id, "Write", file_path=str(talk.folder / ".envrc"), content="x")
    assert (guarded["behavior"], guarded["by"]) == ("ask", "safety")
    for mode, command, outcome in [
        ("bypassPermissions", "cc x.c", ("allow", "mode")),
        ("plan", "cc x.c", ("deny", "mode")),
        ("dontAsk", "cc x.c", ("deny", "mode")),
    ]:
        other = bypassing.talk(mode=mode)
        answer = explained_command(other, command)
        assert (answer["behavior"], answer["by"]) == outcome
    silent = bypassing.talk(on_ask="deny")
    assert explained_command(silent, "cc x.c")["by"] == "on_ask"


def test_explain_runs_nothing(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    assert explained_command(talk, "touch it")["behavior"] == "allow"
    assert not (talk.folder / "it").exists()


def test_explain_says_why_a_command_that_cannot_be_read_is_asked(stage: Stage) -> None:
    talk = stage.talk()
    found = explained_command(talk, "echo 'unfinished")
    assert found["behavior"] == "ask"
    assert found["reason"]


def test_explain_shows_the_parts_of_a_command(stage: Stage) -> None:
    talk = stage.talk()
    found = explained_command(talk, "git status | head; touch x")
    assert [(part["text"], part["read_only"]) for part in found["parts"]] == [
        ("git status", True),
        ("head", True),
        ("touch x", False),
    ]
    assert found["parts"][2]["reason"]
    assert found["behavior"] == "ask"


def test_explain_refuses_a_tool_that_there_is_not_and_input_that_is_none(stage: Stage) -> None:
    talk = stage.talk()
    error = stage.daemon.error("rule/explain", session_id=talk.id, tool="Bahs", input={})
    assert error["data"]["code"] == "tool_not_found"
    error = stage.daemon.error("rule/explain", session_id=talk.id, tool="Bash", input={"cmd": "ls"})
    assert error["code"] == -32602


@pytest.mark.parametrize("given", ["2100-01-31T12:00:00Z", "2100-01-31T12:00:00.000Z", "2100-01-31T14:00:00+02:00"])
def test_a_rule_may_end_at_any_time_of_rfc_3339(stage: Stage, given: str) -> None:
    talk = stage.talk()
    rule = {"behavior": "allow", "rule": "Bash(touch it)", "expires_at": given}
    added = stage.daemon.call("rule/add", session_id=talk.id, **rule)
    assert added["expires_at"] == "2100-01-31T12:00:00.000Z"

"""`rules` and `hooks` on a real daemon."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

HOOK = {"type": "command", "command": "echo looked"}


def write_settings(folder: Path, **content: Any) -> Path:
    """The settings that a project brings."""
    file = folder / ".ostler" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def list_rows(cli: Cli, *arguments: str, cwd: Path) -> list[list[str]]:
    return [line.split("\t") for line in cli.run(*arguments, cwd=cwd).out.splitlines()]


@pytest.fixture
def session_id(rehearsal_daemon: Daemon, project: Path) -> str:
    return str(rehearsal_daemon.call("session/create", cwd=str(project))["id"])


def test_rules_are_listed_with_where_they_are_from_and_what_does_not_count(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    file = write_settings(project, permissions={"allow": ["Bash(make:*)"], "deny": ["Read(secrets/**)"]})
    rehearsal_daemon.call("session/create", cwd=str(project), rules={"allow": ["Bash(npm test:*)"]})
    assert list_rows(rehearsal_cli, "rules", "list", cwd=project) == [
        ["allow", "Bash(npm test:*)", "flag", "", "", ""],
        ["deny", "Read(secrets/**)", "project", str(file), "", ""],
        ["allow", "Bash(make:*)", "project", str(file), "", "does not count: the folder is not trusted"],
    ]
    assert rehearsal_cli.run("trust", "grant", "--yes", cwd=project).code == 0
    assert list_rows(rehearsal_cli, "rules", "list", cwd=project)[2][5] == ""


def test_what_is_wrong_in_a_settings_file_is_told_with_its_place(
    rehearsal_cli: Cli, session_id: str, project: Path
) -> None:
    file = write_settings(project, permissions={"deny": ["Read(x"]})
    listed = rehearsal_cli.run("rules", "list", cwd=project)
    assert listed.code == 0
    assert f"{file}:1:" in listed.err
    assert "'Read(x'" in listed.err
    assert rehearsal_cli.run("rules", "list", "--format", "json", cwd=project).json["problems"][0]["file"] == str(file)


def test_json_of_rules_is_what_the_wire_says(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, session_id: str, project: Path
) -> None:
    rehearsal_cli.run("rules", "add", "deny", "Bash(rm:*)", cwd=project)
    said = rehearsal_cli.run("rules", "list", "--session", session_id, "--format", "json").json
    assert said == rehearsal_daemon.call("rule/list", session_id=session_id)
    assert [rule["rule"] for rule in said["rules"]] == ["Bash(rm:*)"]


def test_an_added_rule_decides_and_a_removed_one_no_longer_does(
    rehearsal_cli: Cli, session_id: str, project: Path
) -> None:
    def behavior() -> str:
        return str(
            rehearsal_cli.run("rules", "explain", "Bash", "touch x", "--format", "json", cwd=project).json["behavior"]
        )

    assert behavior() == "ask"
    added = rehearsal_cli.run("rules", "add", "allow", "Bash(touch:*)", cwd=project)
    assert (added.code, added.out) == (0, f"Added allow Bash(touch:*) of session {session_id}\n")
    assert behavior() == "allow"
    removed = rehearsal_cli.run("rules", "remove", "allow", "Bash(touch:*)", cwd=project)
    assert removed.out == f"Removed allow Bash(touch:*) of session {session_id}\n"
    assert behavior() == "ask"
    again = rehearsal_cli.run("rules", "remove", "allow", "Bash(touch:*)", cwd=project)
    assert (again.code, "no allow rule" in again.err) == (2, True)


@pytest.mark.parametrize(("scope", "name"), [("local", "settings.local.json"), ("project", "settings.json")])
def test_a_rule_is_written_to_the_settings_of_its_scope(
    rehearsal_cli: Cli, session_id: str, project: Path, scope: str, name: str
) -> None:
    file = project / ".ostler" / name
    added = rehearsal_cli.run("rules", "add", "deny", "Bash(rm:*)", "--scope", scope, cwd=project)
    assert added.out == f"Added deny Bash(rm:*) in {file}\n"
    assert json.loads(file.read_text())["permissions"]["deny"] == ["Bash(rm:*)"]
    assert rehearsal_cli.run("rules", "remove", "deny", "Bash(rm:*)", "--scope", scope, cwd=project).code == 0
    assert "Bash(rm:*)" not in file.read_text()


def test_a_rule_can_end_by_itself(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    rehearsal_cli.run("rules", "add", "allow", "Bash(make:*)", "--until", "2999-12-31T18:00:00Z", cwd=project)
    assert list_rows(rehearsal_cli, "rules", "list", cwd=project)[0][4] == "until 2999-12-31T18:00:00.000Z"
    spanned = rehearsal_cli.run(
        "rules", "add", "allow", "Bash(ninja)", "--until", "30m", "--format", "json", cwd=project
    ).json
    assert spanned["expires_at"] is not None


@pytest.mark.parametrize("until", ["tomorrow", "30", "2000-01-01T00:00", "0m", "999999d999"])
def test_an_end_that_cannot_be_is_exit_2_before_anybody_is_asked(cli: Cli, until: str) -> None:
    ran = cli.run("--no-start", "rules", "add", "allow", "Bash", "--until", until)
    assert (ran.code, "--until" in ran.err) == (2, True)


def test_a_rule_that_is_none_is_wrong_usage_here_too(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    ran = rehearsal_cli.run("rules", "add", "allow", "Bash(make", cwd=project)
    assert (ran.code, "is no rule" in ran.err) == (2, True)


def test_a_command_is_explained_part_by_part(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    told = rehearsal_cli.run("rules", "explain", "Bash", "git status | head; touch x", cwd=project).out.splitlines()
    assert told[0] == "ask"
    assert "  part  git status  (only reads)" in told
    assert any(line.startswith("  part  touch x  (") and "only reads" not in line for line in told)


def test_what_a_command_would_do_to_files_is_shown(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    told = rehearsal_cli.run("rules", "explain", "Bash", "cp -t . /etc/hostname; unheard-of", cwd=project).out
    assert f"  create  {project.resolve()}/hostname" in told.splitlines()
    assert "  read  /etc/hostname" in told.splitlines()
    assert "  unknown  it is not known what unheard-of does to files" in told.splitlines()


def test_a_rule_that_decides_is_named_with_its_source(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    rehearsal_cli.run("rules", "add", "deny", "Read(secrets/**)", cwd=project)
    told = rehearsal_cli.run("rules", "explain", "Read", "secrets/key", cwd=project).out
    assert told.splitlines()[0] == "deny"
    assert "  rule        Read(secrets/**)" in told.splitlines()
    assert "  source      session" in told.splitlines()


def test_all_of_an_input_can_be_explained(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    given = json.dumps({"file_path": str(project / "new.txt"), "content": "x"})
    told = rehearsal_cli.run("rules", "explain", "Write", "--input", given, "--format", "json", cwd=project).json
    assert (told["behavior"], told["read_only"]) == ("ask", False)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["Bash"], 2, "give WHAT or --input"),
        (["Bash", "ls", "--input", "{}"], 2, "give WHAT or --input"),
        (["Bash", "--input", "["], 2, "--input is not JSON"),
        (["Nothing", "x"], 1, "There is no tool 'Nothing'"),
        (["Write", "x"], 2, "content"),
    ],
)
def test_what_cannot_be_explained_is_said(
    rehearsal_cli: Cli, session_id: str, project: Path, arguments: list[str], code: int, complaint: str
) -> None:
    ran = rehearsal_cli.run("rules", "explain", *arguments, cwd=project)
    assert (ran.code, complaint in ran.err) == (code, True), ran.err


@pytest.mark.parametrize("command", [["rules", "list"], ["rules", "explain", "Bash", "ls"], ["hooks"]])
def test_a_folder_without_a_session_is_told_with_how_to_begin_one(
    rehearsal_cli: Cli, project: Path, command: list[str]
) -> None:
    ran = rehearsal_cli.run(*command, cwd=project)
    assert (ran.code, f"There is no session in {project}" in ran.err, "`ostler chat`" in ran.err) == (1, True, True)


def test_another_folder_can_be_meant(rehearsal_cli: Cli, session_id: str, project: Path, tmp_path: Path) -> None:
    added = rehearsal_cli.run("rules", "add", "ask", "Bash(make)", "--cwd", str(project), cwd=tmp_path)
    assert added.out == f"Added ask Bash(make) of session {session_id}\n"
    both = rehearsal_cli.run("rules", "list", "--cwd", str(project), "--session", session_id)
    assert (both.code, "not both" in both.err) == (2, True)


def test_hooks_are_listed_with_whether_they_act(rehearsal_cli: Cli, session_id: str, project: Path) -> None:
    file = write_settings(project, hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [HOOK]}]})
    expected = ["PreToolUse", "Bash", "command", "echo looked", "project", str(file)]
    assert list_rows(rehearsal_cli, "hooks", cwd=project) == [[*expected, "does nothing: the folder is not trusted"]]
    rehearsal_cli.run("trust", "grant", "--yes", cwd=project)
    assert list_rows(rehearsal_cli, "hooks", cwd=project) == [[*expected, "acts"]]
    (hook,) = rehearsal_cli.run("hooks", "--format", "json", cwd=project).json["hooks"]
    assert (hook["event"], hook["acts"]) == ("PreToolUse", True)


@pytest.mark.without_daemon
def test_every_behavior_and_scope_of_the_protocol_can_be_given() -> None:
    from ostler.clients.cli.commands.rules import BehaviorName, RuleScopeName
    from ostler.protocol.rule import Behavior, RuleScope

    assert get_args(Behavior) == get_args(BehaviorName)
    assert get_args(RuleScope) == get_args(RuleScopeName)

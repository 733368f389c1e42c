"""`trust`, asks of kind trust, and what `show` says of each call, on a real daemon."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cli.chat.chat_driver import ChatDriver
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

LINES = ["allows Bash(make:*)", "hook PreToolUse (Bash): echo no >&2; exit 2"]


@pytest.fixture
def untrusted_project(project: Path) -> Path:
    """A folder that brings an allow rule and a hook that refuses commands."""
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}
    file = project / ".ostler" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"permissions": {"allow": ["Bash(make:*)"]}, "hooks": {"PreToolUse": [hook]}}))
    return project


def open_trust_ask(daemon: Daemon, folder: Path) -> dict[str, Any]:
    session = daemon.call("session/create", cwd=str(folder))
    with daemon.follow(f"?session={session['id']}&after=0") as stream:
        daemon.call("turn/start", session_id=session["id"], input="run ls")
        ask: dict[str, Any] = stream.wait_for("ask.opened")["data"]["ask"]
    assert ask["kind"] == "trust"
    return ask


def test_what_a_folder_brings_is_shown_before_it_is_trusted(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    shown = rehearsal_cli.run("trust", cwd=untrusted_project)
    assert (shown.code, shown.out.splitlines()) == (
        0,
        [f"{untrusted_project}: not trusted. It brings:", *(f"  - {line}" for line in LINES)],
    )
    assert "`ostler trust grant`" in shown.err
    assert rehearsal_daemon.call("trust/list")["trusts"] == []
    assert rehearsal_daemon.call("session/list", archived=None)["sessions"] == []


def test_a_folder_that_brings_nothing_needs_no_trust(rehearsal_cli: Cli, project: Path) -> None:
    shown = rehearsal_cli.run("trust", "show", str(project))
    assert (shown.out, shown.err) == (f"{project}: it brings nothing that would act.\n", "")
    assert rehearsal_cli.run("trust", "--format", "json", cwd=project).json["trusted"] is True


def test_trust_is_granted_listed_outdated_and_revoked(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    granted = rehearsal_cli.run("trust", "grant", str(untrusted_project), "--yes")
    assert (granted.code, granted.out.splitlines()) == (
        0,
        [f"Trusted {untrusted_project}", *(f"  - {line}" for line in LINES)],
    )
    assert ": trusted at 2" in rehearsal_cli.run("trust", cwd=untrusted_project).out
    assert rehearsal_cli.run("trust", "list").out.split("\t")[3] == "as it was trusted\n"
    (untrusted_project / ".ostler" / "settings.json").write_text('{"permissions": {"allow": ["Bash(curl:*)"]}}')
    assert "it has changed since it was trusted" in rehearsal_cli.run("trust", cwd=untrusted_project).out
    assert rehearsal_cli.run("trust", "list", "--format", "json").json["trusts"][0]["current"] is False
    assert (
        rehearsal_cli.run("trust", "revoke", cwd=untrusted_project).out == f"No longer trusted: {untrusted_project}\n"
    )
    assert rehearsal_cli.run("trust", "list").err == "No folder was trusted.\n"
    again = rehearsal_cli.run("trust", "revoke", cwd=untrusted_project)
    assert (again.code, again.err) == (
        1,
        f"ostler: {untrusted_project} is not trusted. `ostler trust list` lists what is.\n",
    )


def test_nothing_is_trusted_where_nobody_can_be_asked(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    ran = rehearsal_cli.run("trust", "grant", cwd=untrusted_project)
    assert (ran.code, "Give --yes" in ran.err) == (1, True)
    assert rehearsal_daemon.call("trust/list")["trusts"] == []


@pytest.mark.parametrize(("typed", "trusted"), [("n\n", 0), ("y\n", 1)])
def test_a_person_is_asked_with_all_that_would_act(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path, typed: str, trusted: int
) -> None:
    ran = rehearsal_cli.run_in_terminal("trust", "grant", str(untrusted_project), typed=typed)
    assert all(line in ran.out for line in LINES)
    assert ran.code == (0 if trusted else 1)
    assert len(rehearsal_daemon.call("trust/list")["trusts"]) == trusted


def test_what_was_not_shown_is_not_trusted(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    (untrusted_project / ".ostler" / "settings.local.json").write_text('{"permissions": {"mode": "acceptEdits"}}')
    ran = rehearsal_cli.run_in_terminal("trust", "grant", str(untrusted_project), typed="y\n")
    assert (ran.code, "  mode acceptEdits" in ran.out, "more than was shown" in ran.out) == (1, True, True)
    assert rehearsal_daemon.call("trust/list")["trusts"] == []


def test_an_ask_for_trust_is_listed_with_what_is_brought(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    ask = open_trust_ask(rehearsal_daemon, untrusted_project)
    cells = rehearsal_cli.run("asks").out.rstrip("\n").split("\t")
    assert (cells[0], cells[2], cells[5]) == (ask["id"], "trust", "trust|restrict")
    assert all(line in cells[4] for line in LINES)


@pytest.mark.parametrize(("choice", "trusted"), [("trust", 1), ("restrict", 0)])
def test_an_ask_for_trust_is_answered_from_anywhere(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path, choice: str, trusted: int
) -> None:
    ask = open_trust_ask(rehearsal_daemon, untrusted_project)
    assert rehearsal_cli.run("answer", ask["id"], choice).out == f"Answered {ask['id']}: {choice}\n"
    assert rehearsal_daemon.call("turn/wait", turn_id=ask["turn_id"])["status"] == "ended"
    assert len(rehearsal_daemon.call("trust/list")["trusts"]) == trusted


def test_a_chat_shows_what_is_brought_and_takes_a_key(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=untrusted_project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run ls\r")
        asked = driver.read_until("[t/r] ")
        assert all(f"- {line}" in asked for line in LINES)
        driver.type("t")
        driver.read_until("requests,")
        driver.type("\x04")
        assert driver.wait() == 0
    assert [trust["folder"] for trust in rehearsal_daemon.call("trust/list")["trusts"]] == [str(untrusted_project)]


def test_a_chat_tells_what_hooks_did(rehearsal_cli: Cli, untrusted_project: Path) -> None:
    told = rehearsal_cli.run("chat", "--trust", cwd=untrusted_project, typed="run ls\n").out.splitlines()
    (at,) = [number for number, line in enumerate(told) if line.startswith("⚑ PreToolUse hook echo no >&2; exit 2 … ")]
    assert told[at + 1] == "  no"


def test_a_restricted_folder_does_nothing(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=untrusted_project) as driver:
        driver.type_line("run ls")
        driver.read_until("[t] trust it  [r] restrict it")
        driver.type_line("r")
        assert "⚑" not in driver.read_until("requests,")
        driver.close_input()
        assert driver.wait() == 0
    assert rehearsal_daemon.call("trust/list")["trusts"] == []


@pytest.mark.parametrize("command", ["run", "chat"])
def test_trust_can_be_given_at_the_start(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, untrusted_project: Path, command: str
) -> None:
    words = ["run", "run ls", "--trust"] if command == "run" else ["chat", "--trust"]
    ran = rehearsal_cli.run(*words, cwd=untrusted_project, typed="" if command == "run" else "run ls\n")
    assert "[t] trust it" not in ran.out
    assert [trust["folder"] for trust in rehearsal_daemon.call("trust/list")["trusts"]] == [str(untrusted_project)]


def test_the_mode_of_the_persons_settings_holds_where_none_is_given(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    (rehearsal_cli.home / "settings.json").write_text('{"permissions": {"mode": "plan"}}')
    made = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    assert rehearsal_daemon.call("session/get", session_id=made)["mode"] == "plan"
    given = rehearsal_cli.run("run", "read README.md", "--mode", "default", "--format", "json", cwd=project).json[
        "session_id"
    ]
    assert rehearsal_daemon.call("session/get", session_id=given)["mode"] == "default"


def test_always_can_be_remembered_in_the_folder(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until("[l] always in this folder")
        driver.read_until("the rule Bash(touch made)")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("l")
        driver.read_until("requests,")
        driver.type("\x04")
        assert driver.wait() == 0
    written = json.loads((project / ".ostler" / "settings.local.json").read_text())
    assert written["permissions"]["allow"] == ["Bash(touch made)"]


def test_a_rule_and_its_scope_can_be_answered(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    session = rehearsal_daemon.call("session/create", cwd=str(project))
    with rehearsal_daemon.follow(f"?session={session['id']}&after=0") as stream:
        rehearsal_daemon.call("turn/start", session_id=session["id"], input="run touch made")
        ask = stream.wait_for("ask.opened")["data"]["ask"]
    rehearsal_cli.run("answer", ask["id"], "allow_always", "--rule", "Bash(touch made)", "--scope", "local")
    assert rehearsal_daemon.call("turn/wait", turn_id=ask["turn_id"])["denials"] == []
    written = json.loads((project / ".ostler" / "settings.local.json").read_text())
    assert written["permissions"]["allow"] == ["Bash(touch made)"]


def list_decision_lines(rehearsal_cli: Cli, session_id: str) -> list[str]:
    """What `show` says in brackets under each call."""
    lines = rehearsal_cli.run("show", session_id).out.splitlines()
    return [line.strip() for line in lines if line.startswith(("  (allowed", "  (denied"))]


def test_each_call_is_shown_with_what_decided_about_it(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    wanted = "run ls then run touch made then run mkdir x"
    rule = ("--allow", "Bash(touch:*)")
    session_id = rehearsal_cli.run("run", wanted, *rule, "--format", "json", cwd=project).json["session_id"]
    reading, by_rule, nobody = list_decision_lines(rehearsal_cli, session_id)
    assert reading == "(allowed because it only reads)"
    assert by_rule == "(allowed by the rule Bash(touch:*) (flag))"
    assert nobody.startswith("(denied because nobody is asked here: ")
    found = rehearsal_cli.run("show", session_id, "--format", "json").json["decisions"]
    assert [decision["by"] for decision in found.values()] == ["read_only", "rule", "on_ask"]


def test_a_call_that_a_hook_refused_is_shown_so(rehearsal_cli: Cli, untrusted_project: Path) -> None:
    ran = rehearsal_cli.run("run", "run ls", "--trust", "--format", "json", cwd=untrusted_project).json
    (decision,) = list_decision_lines(rehearsal_cli, ran["session_id"])
    assert decision.startswith("(denied by the project hook PreToolUse")
    assert decision.endswith(": no)")


def test_a_call_whose_events_are_gone_is_shown_all_the_same(rehearsal_daemon: Daemon, project: Path) -> None:
    rehearsal_cli = Cli(rehearsal_daemon.home)
    session_id = rehearsal_cli.run("run", "run ls", "--format", "json", cwd=project).json["session_id"]
    rehearsal_daemon.stop()
    with sqlite3.connect(rehearsal_daemon.home / "ostler.db") as database:
        database.execute("DELETE FROM events")
    database.close()
    rehearsal_daemon.start()
    told = rehearsal_cli.run("show", session_id)
    assert (told.code, 'Bash {"command": "ls"' in told.out) == (0, True)
    assert list_decision_lines(rehearsal_cli, session_id) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("words", "completed"), [("ru", "rules run"), ("rules ex", "explain"), ("trust gr", "grant")])
def test_completion_knows_the_commands_of_permissions(cli: Cli, words: str, completed: str) -> None:
    count = len(words.split())
    ran = cli.run(_OSTLER_COMPLETE="complete_bash", COMP_WORDS=f"ostler {words}", COMP_CWORD=str(count))
    assert sorted(ran.out.split()) == completed.split()

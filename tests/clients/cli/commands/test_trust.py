"""`trust`, asks of kind trust, and what `show` says of each call, on a real daemon."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cli.chat.typing_person import Talk
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

LINES = ["allows Bash(make:*)", "hook PreToolUse (Bash): echo no >&2; exit 2"]


@pytest.fixture
def bringing(project: Path) -> Path:
    """A folder that brings an allow rule and a hook that refuses commands."""
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}
    file = project / ".ostler" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"permissions": {"allow": ["Bash(make:*)"]}, "hooks": {"PreToolUse": [hook]}}))
    return project


def trust_ask(daemon: Daemon, folder: Path) -> dict[str, Any]:
    session = daemon.call("session/create", cwd=str(folder))
    with daemon.follow(f"?session={session['id']}&after=0") as stream:
        daemon.call("turn/start", session_id=session["id"], input="run ls")
        ask: dict[str, Any] = stream.until("ask.opened")["data"]["ask"]
    assert ask["kind"] == "trust"
    return ask


def test_what_a_folder_brings_is_shown_before_it_is_trusted(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    shown = agent.run("trust", cwd=bringing)
    assert (shown.code, shown.out.splitlines()) == (
        0,
        [f"{bringing}: not trusted. It brings:", *(f"  - {line}" for line in LINES)],
    )
    assert "`ostler trust grant`" in shown.err
    assert rehearsing.call("trust/list")["trusts"] == []
    assert rehearsing.call("session/list", archived=None)["sessions"] == []


def test_a_folder_that_brings_nothing_needs_no_trust(agent: Cli, project: Path) -> None:
    shown = agent.run("trust", "show", str(project))
    assert (shown.out, shown.err) == (f"{project}: it brings nothing that would act.\n", "")
    assert agent.run("trust", "--format", "json", cwd=project).json["trusted"] is True


def test_trust_is_granted_listed_outdated_and_revoked(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    granted = agent.run("trust", "grant", str(bringing), "--yes")
    assert (granted.code, granted.out.splitlines()) == (
        0,
        [f"Trusted {bringing}", *(f"  - {line}" for line in LINES)],
    )
    assert ": trusted at 2" in agent.run("trust", cwd=bringing).out
    assert agent.run("trust", "list").out.split("\t")[3] == "as it was trusted\n"
    (bringing / ".ostler" / "settings.json").write_text('{"permissions": {"allow": ["Bash(curl:*)"]}}')
    assert "it has changed since it was trusted" in agent.run("trust", cwd=bringing).out
    assert agent.run("trust", "list", "--format", "json").json["trusts"][0]["current"] is False
    assert agent.run("trust", "revoke", cwd=bringing).out == f"No longer trusted: {bringing}\n"
    assert agent.run("trust", "list").err == "No folder was trusted.\n"
    again = agent.run("trust", "revoke", cwd=bringing)
    assert (again.code, again.err) == (
        1,
        f"ostler: {bringing} is not trusted. `ostler trust list` lists what is.\n",
    )


def test_nothing_is_trusted_where_nobody_can_be_asked(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    ran = agent.run("trust", "grant", cwd=bringing)
    assert (ran.code, "Give --yes" in ran.err) == (1, True)
    assert rehearsing.call("trust/list")["trusts"] == []


@pytest.mark.parametrize(("typed", "trusted"), [("n\n", 0), ("y\n", 1)])
def test_a_person_is_asked_with_all_that_would_act(
    agent: Cli, rehearsing: Daemon, bringing: Path, typed: str, trusted: int
) -> None:
    ran = agent.in_terminal("trust", "grant", str(bringing), typed=typed)
    assert all(line in ran.out for line in LINES)
    assert ran.code == (0 if trusted else 1)
    assert len(rehearsing.call("trust/list")["trusts"]) == trusted


def test_what_was_not_shown_is_not_trusted(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    (bringing / ".ostler" / "settings.local.json").write_text('{"permissions": {"mode": "acceptEdits"}}')
    ran = agent.in_terminal("trust", "grant", str(bringing), typed="y\n")
    assert (ran.code, "  mode acceptEdits" in ran.out, "more than was shown" in ran.out) == (1, True, True)
    assert rehearsing.call("trust/list")["trusts"] == []


def test_an_ask_for_trust_is_listed_with_what_is_brought(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    ask = trust_ask(rehearsing, bringing)
    cells = agent.run("asks").out.rstrip("\n").split("\t")
    assert (cells[0], cells[2], cells[5]) == (ask["id"], "trust", "trust|restrict")
    assert all(line in cells[4] for line in LINES)


@pytest.mark.parametrize(("choice", "trusted"), [("trust", 1), ("restrict", 0)])
def test_an_ask_for_trust_is_answered_from_anywhere(
    agent: Cli, rehearsing: Daemon, bringing: Path, choice: str, trusted: int
) -> None:
    ask = trust_ask(rehearsing, bringing)
    assert agent.run("answer", ask["id"], choice).out == f"Answered {ask['id']}: {choice}\n"
    assert rehearsing.call("turn/wait", turn_id=ask["turn_id"])["status"] == "ended"
    assert len(rehearsing.call("trust/list")["trusts"]) == trusted


def test_a_chat_shows_what_is_brought_and_takes_a_key(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    with Talk(agent, "chat", cwd=bringing, terminal=True) as talk:
        talk.until("> ")
        talk.type("run ls\r")
        asked = talk.until("[t/r] ")
        assert all(f"- {line}" in asked for line in LINES)
        talk.type("t")
        talk.until("requests,")
        talk.type("\x04")
        assert talk.wait() == 0
    assert [trust["folder"] for trust in rehearsing.call("trust/list")["trusts"]] == [str(bringing)]


def test_a_chat_tells_what_hooks_did(agent: Cli, bringing: Path) -> None:
    told = agent.run("chat", "--trust", cwd=bringing, typed="run ls\n").out.splitlines()
    (at,) = [number for number, line in enumerate(told) if line.startswith("⚑ PreToolUse hook echo no >&2; exit 2 … ")]
    assert told[at + 1] == "  no"


def test_a_restricted_folder_does_nothing(agent: Cli, rehearsing: Daemon, bringing: Path) -> None:
    with Talk(agent, "chat", cwd=bringing) as talk:
        talk.say("run ls")
        talk.until("[t] trust it  [r] restrict it")
        talk.say("r")
        assert "⚑" not in talk.until("requests,")
        talk.end_of_input()
        assert talk.wait() == 0
    assert rehearsing.call("trust/list")["trusts"] == []


@pytest.mark.parametrize("command", ["run", "chat"])
def test_trust_can_be_given_at_the_start(agent: Cli, rehearsing: Daemon, bringing: Path, command: str) -> None:
    words = ["run", "run ls", "--trust"] if command == "run" else ["chat", "--trust"]
    ran = agent.run(*words, cwd=bringing, typed="" if command == "run" else "run ls\n")
    assert "[t] trust it" not in ran.out
    assert [trust["folder"] for trust in rehearsing.call("trust/list")["trusts"]] == [str(bringing)]


def test_the_mode_of_the_persons_settings_holds_where_none_is_given(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    (agent.home / "settings.json").write_text('{"permissions": {"mode": "plan"}}')
    made = agent.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    assert rehearsing.call("session/get", session_id=made)["mode"] == "plan"
    given = agent.run("run", "read README.md", "--mode", "default", "--format", "json", cwd=project).json["session_id"]
    assert rehearsing.call("session/get", session_id=given)["mode"] == "default"


def test_always_can_be_remembered_in_the_folder(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run touch made\r")
        talk.until("[l] always in this folder")
        talk.until("the rule Bash(touch:*)")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("l")
        talk.until("requests,")
        talk.type("\x04")
        assert talk.wait() == 0
    written = json.loads((project / ".ostler" / "settings.local.json").read_text())
    assert written["permissions"]["allow"] == ["Bash(touch:*)"]


def test_a_rule_and_its_scope_can_be_answered(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    session = rehearsing.call("session/create", cwd=str(project))
    with rehearsing.follow(f"?session={session['id']}&after=0") as stream:
        rehearsing.call("turn/start", session_id=session["id"], input="run touch made")
        ask = stream.until("ask.opened")["data"]["ask"]
    agent.run("answer", ask["id"], "allow_always", "--rule", "Bash(touch made)", "--scope", "local")
    assert rehearsing.call("turn/wait", turn_id=ask["turn_id"])["denials"] == []
    written = json.loads((project / ".ostler" / "settings.local.json").read_text())
    assert written["permissions"]["allow"] == ["Bash(touch made)"]


def shown(agent: Cli, session_id: str) -> list[str]:
    """What `show` says in brackets under each call."""
    lines = agent.run("show", session_id).out.splitlines()
    return [line.strip() for line in lines if line.startswith(("  (allowed", "  (denied"))]


def test_each_call_is_shown_with_what_decided_about_it(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    wanted = "run ls then run touch made then run mkdir x"
    rule = ("--allow", "Bash(touch:*)")
    session_id = agent.run("run", wanted, *rule, "--format", "json", cwd=project).json["session_id"]
    reading, by_rule, nobody = shown(agent, session_id)
    assert reading == "(allowed because it only reads)"
    assert by_rule == "(allowed by the rule Bash(touch:*) (flag))"
    assert nobody.startswith("(denied because nobody is asked here: ")
    found = agent.run("show", session_id, "--format", "json").json["decisions"]
    assert [decision["by"] for decision in found.values()] == ["read_only", "rule", "on_ask"]


def test_a_call_that_a_hook_refused_is_shown_so(agent: Cli, bringing: Path) -> None:
    ran = agent.run("run", "run ls", "--trust", "--format", "json", cwd=bringing).json
    (decision,) = shown(agent, ran["session_id"])
    assert decision.startswith("(denied by the project hook PreToolUse")
    assert decision.endswith(": no)")


def test_a_call_whose_events_are_gone_is_shown_all_the_same(rehearsing: Daemon, project: Path) -> None:
    agent = Cli(rehearsing.home)
    session_id = agent.run("run", "run ls", "--format", "json", cwd=project).json["session_id"]
    rehearsing.stop()
    with sqlite3.connect(rehearsing.home / "ostler.db") as database:
        database.execute("DELETE FROM events")
    database.close()
    rehearsing.start()
    told = agent.run("show", session_id)
    assert (told.code, 'Bash {"command": "ls"' in told.out) == (0, True)
    assert shown(agent, session_id) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("words", "completed"), [("ru", "rules run"), ("rules ex", "explain"), ("trust gr", "grant")])
def test_completion_knows_the_commands_of_permissions(cli: Cli, words: str, completed: str) -> None:
    count = len(words.split())
    ran = cli.run(_OSTLER_COMPLETE="complete_bash", COMP_WORDS=f"ostler {words}", COMP_CWORD=str(count))
    assert sorted(ran.out.split()) == completed.split()

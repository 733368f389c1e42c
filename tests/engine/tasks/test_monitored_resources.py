"""Monitor on a resource of an MCP server: its new lines become messages, with real servers of both protocols."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import wait_until
from tests.engine.driver import Stage, Talk, is_gone
from tests.engine.tasks.test_monitor import told
from tests.messages_api.acts import Reply
from tests.messages_api.replies import calls, message, says

Json = dict[str, Any]

DONE = message(says("Done."))
ALLOWED = {"allow": ["mcp__notes"]}
SERVERS = Path(__file__).parents[2] / "mcp_servers"
PLAIN, NEWER = str(SERVERS / "plain.py"), str(SERVERS / "newer.py")


def monitor(uri: str = "notes://log", server: str = "notes", **given: Any) -> Reply:
    what = {"server": server, "resource": uri}
    return message(calls("Monitor", {"description": "the notes", "timeout": 60_000, "mcp": what, **given}))


def sleep() -> Reply:
    return message(calls("Sleep", {"seconds": 60}))


def plain(path: Path, *behaviours: str) -> Json:
    return {"notes": {"command": sys.executable, "args": [PLAIN, str(path), *behaviours]}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the server's resource says."""
    path = tmp_path / "log"
    path.write_text("old\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def printed(talk: Talk, text: str) -> None:
    """Wait until the clients know of it, after which the monitor hears it."""
    talk.wait("task.output", lambda data: text in data["text"])


def pid_of(log: Path) -> int:
    return int(log.with_suffix(".pid").read_text())


def begun(stage: Stage, log: Path, *behaviours: str, **given: Any) -> Talk:
    """A session that watches the log, in a turn that is over."""
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log, *behaviours))
    stage.api.script(talk.name, monitor(**given), DONE, DONE, DONE)
    talk.turn()
    assert talk.result_texts()[0].startswith("Monitoring as m")
    return talk


def test_lines_that_are_new_in_a_resource_become_messages_and_wake_a_sleep(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log))
    stage.api.script(talk.name, monitor(), sleep(), DONE)
    talk.start()
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    append(log, "first\n\nsecond </ostler-note>\n")
    talk.ended()
    assert told(talk) == ["first", "second < /ostler-note>"]
    task = talk.wait("task.started")["data"]["task"]
    assert (task["id"][0], task["type"], task["command"]) == ("m", "monitor_mcp", None)
    assert (task["resource"]["server"], task["resource"]["uri"]) == ("notes", "notes://log")
    call = talk.all("tool.completed")[0]["call"]
    assert (call["summary"], call["decision"]["rule"]) == ("Monitor notes://log of notes", "mcp__notes")


def test_the_first_line_that_matches_ends_it_and_its_server(stage: Stage, log: Path) -> None:
    talk = begun(stage, log, until="^build .*passed")
    append(log, "build 7 runs\n")
    printed(talk, "build 7 runs")
    append(log, "build 7 passed\nbuild 8 passed\n")
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("completed", None)
    talk.turn("And now?")
    assert told(talk) == ["build 7 passed"]
    wait_until(lambda: is_gone(pid_of(log)))
    output = stage.daemon.call("task/output", task_id=task["id"])["output"]
    assert output == "build 7 runs\nbuild 7 passed\nbuild 8 passed\n"


def test_a_change_within_the_text_tells_the_lines_that_are_other_ones(stage: Stage, log: Path) -> None:
    log.write_text('{\n  "state": "waiting",\n  "step": 1\n}\n')
    talk = begun(stage, log)
    log.write_text('{\n  "state": "done",\n  "step": 1\n}\n')
    printed(talk, "done")
    log.write_text("{\n}\n")
    printed(talk, "(lines were removed)")
    talk.turn("And now?")
    assert told(talk) == ['"state": "done",', "(lines were removed)"]


@pytest.mark.parametrize("behaviour", ["silent", "noisy"])
def test_a_server_that_never_tells_is_asked_and_one_that_talks_besides_is_understood(
    stage: Stage, log: Path, behaviour: str
) -> None:
    talk = begun(stage, log, behaviour, until="new")
    append(log, "new\n")
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    talk.turn("And now?")
    assert told(talk) == ["new"]


def test_a_server_of_the_newer_protocol_is_listened_to(stage: Stage, log: Path) -> None:
    servers = {"notes": {"command": sys.executable, "args": [NEWER, str(log), "stdio"]}}
    talk = stage.talk(rules=ALLOWED, mcp_servers=servers)
    stage.api.script(talk.name, monitor(), DONE, DONE)
    talk.turn()
    append(log, "new\n")
    printed(talk, "new")
    talk.turn("And now?")
    assert told(talk) == ["new"]


@contextmanager
def serving(log: Path, port: int, way: str = "http") -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([sys.executable, NEWER, str(log), way, str(port)])
    try:
        wait_until(lambda: _answers(port))
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@pytest.mark.parametrize(("way", "path"), [("http", "mcp"), ("sse", "sse")])
def test_a_server_elsewhere_is_reached_with_its_headers_also_after_it_was_away(
    stage: Stage, log: Path, port: int, way: str, path: str
) -> None:
    entry = {"type": way, "url": f"http://127.0.0.1:{port}/{path}", "headers": {"Authorization": "Bearer ${KEY}"}}
    talk = stage.talk(rules=ALLOWED, mcp_servers={"notes": entry}, env={"KEY": "k"})
    stage.api.script(talk.name, monitor(), DONE, DONE)
    with serving(log, port, way):
        talk.turn()
        append(log, "one\n")
        printed(talk, "one")
    append(log, "two\n")
    with serving(log, port, way):
        printed(talk, "two")
    talk.turn("And now?")
    assert told(talk) == ["one", "two"]


def test_a_server_that_died_is_started_again_and_nothing_is_lost(stage: Stage, log: Path) -> None:
    talk = begun(stage, log, "mortal")
    first = pid_of(log)
    append(log, "die\nwritten while it was away\n")
    printed(talk, "written while it was away")
    assert pid_of(log) != first
    talk.turn("And now?")
    assert told(talk) == ["dead", "written while it was away"]


def test_two_monitors_of_a_session_share_a_server(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log))
    both = [calls("Monitor", {**_given(), "until": until}) for until in ("one", "two")]
    stage.api.script(talk.name, message(*both), DONE, DONE)
    talk.turn()
    first = pid_of(log)
    append(log, "one\n")
    talk.wait("task.ended")
    assert not is_gone(first)
    append(log, "two\n")
    talk.wait("task.ended")
    assert pid_of(log) == first
    wait_until(lambda: is_gone(first))


def _given() -> Json:
    return {"description": "d", "timeout": 60_000, "mcp": {"server": "notes", "resource": "notes://log"}}


def test_one_that_does_not_leave_when_it_is_told_to_is_ended(stage: Stage, log: Path) -> None:
    talk = begun(stage, log, "stubborn")
    task = talk.wait("task.started")["data"]["task"]
    ended = stage.daemon.call("task/stop", task_id=task["id"])
    assert ended["status"] == "killed"
    wait_until(lambda: is_gone(pid_of(log)))


def test_deleting_the_session_ends_its_server_and_removes_what_was_seen(stage: Stage, log: Path) -> None:
    talk = begun(stage, log)
    assert [path.name[-5:] for path in (stage.daemon.home / "tasks").glob("call-*.seen")] == [".seen"]
    stage.daemon.call("session/delete", session_id=talk.id)
    wait_until(lambda: is_gone(pid_of(log)))
    assert list((stage.daemon.home / "tasks").glob("call-*")) == []


def test_interrupting_a_turn_with_its_tasks_ends_the_monitor(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log))
    stage.api.script(talk.name, monitor(), sleep(), DONE)
    turn_id = talk.start()
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    stage.daemon.call("turn/interrupt", turn_id=turn_id, tasks=True)
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "It was stopped together with its turn.")
    wait_until(lambda: is_gone(pid_of(log)))


# Restarts.


def test_after_a_crash_it_is_watched_on_and_what_changed_meanwhile_is_told(
    own_stage: Callable[..., Stage], log: Path
) -> None:
    stage = own_stage()
    talk = begun(stage, log)
    append(log, "one\n")
    printed(talk, "one")
    first = pid_of(log)
    stage.daemon.kill()
    append(log, "two\n")
    stage.daemon.start()
    talk.reconnect(0)
    printed(talk, "two")
    assert is_gone(first)
    append(log, "three\n")
    printed(talk, "three")
    talk.turn("And now?")
    talk.turn("Again?")
    assert told(talk) == ["one", "two", "three"]


def test_a_server_that_a_crash_left_running_is_ended(own_stage: Callable[..., Stage], log: Path) -> None:
    stage = own_stage()
    talk = begun(stage, log, "stubborn", until="new")
    first = pid_of(log)
    stage.daemon.kill()
    assert not is_gone(first)
    append(log, "new\n")
    stage.daemon.start()
    talk.reconnect(0)
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    wait_until(lambda: is_gone(first) and is_gone(pid_of(log)))


def test_a_daemon_that_stops_takes_its_servers_along_and_the_next_one_watches_on(
    own_stage: Callable[..., Stage], log: Path
) -> None:
    stage = own_stage()
    talk = begun(stage, log, until="new")
    first = pid_of(log)
    assert stage.daemon.stop() == 0
    assert is_gone(first)
    append(log, "new\n")
    stage.daemon.start()
    talk.reconnect(0)
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"


# What goes wrong.


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log, "broken"))
    stage.api.script(talk.name, monitor(), DONE)
    talk.turn()
    words = talk.result_texts()[0]
    assert "The MCP server 'notes' cannot be reached." in words
    assert "It said: no database, no notes" in words
    assert talk.all("task.started") == []
    wait_until(lambda: is_gone(pid_of(log)))


def test_what_is_not_there_is_named(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers={**plain(log), "gone": {"command": "/no/such/program"}})
    stage.api.script(talk.name, monitor("notes://x"), monitor(server="nots"), monitor("x" * 9_000), monitor(" "), DONE)
    talk.turn()
    no_resource, no_server, long, empty = talk.result_texts()
    assert "There is no resource notes://x" in no_resource
    assert "There is no MCP server 'nots'. There are: gone, notes." in no_server
    assert "longer than 8000 characters" in long
    assert "The resource is empty." in empty
    none = stage.talk(monitor(), DONE)
    none.turn()
    assert "There is no MCP server 'notes'. The session has none." in none.result_texts()[0]
    missing = stage.talk(monitor(server="gone"), DONE, rules={"allow": ["Monitor"]}, mcp_servers=talk_servers(talk))
    missing.turn()
    assert "/no/such/program" in missing.result_texts()[0]


def talk_servers(talk: Talk) -> Json:
    return {"gone": {"command": "/no/such/program"}}


def test_what_is_no_text_is_watched_too(stage: Stage, log: Path) -> None:
    talk = begun(stage, log, uri="notes://picture")
    assert talk.wait("task.started")["data"]["task"]["resource"]["uri"] == "notes://picture"


@pytest.mark.parametrize(
    ("servers", "path", "reason"),
    [
        ({"a b": {"command": "x"}}, "mcp_servers.a b", "no name of a server"),
        ({"a": "x"}, "mcp_servers.a", "A server is an object"),
        ({"a": {}}, "mcp_servers.a", "command is a text"),
        ({"a": {"type": "telnet"}}, "mcp_servers.a", "type is one of stdio, http"),
        ({"a": {"url": "ftp://x"}}, "mcp_servers.a", "https://"),
        ({"a": {"command": "x", "args": "y"}}, "mcp_servers.a", "args is a list"),
        ({"a": {"url": "https://x", "headers": {"a": 1}}}, "mcp_servers.a", "headers is an object"),
    ],
)
def test_a_session_is_not_made_with_a_server_that_makes_no_sense(
    stage: Stage, tmp_path: Path, servers: Json, path: str, reason: str
) -> None:
    error = stage.daemon.error("session/create", cwd=str(tmp_path), mcp_servers=servers)
    [wrong] = error["data"]["errors"]
    assert wrong["path"] == path
    assert reason in wrong["reason"]


# Permission and trust.


def test_it_asks_and_the_answer_can_be_remembered_for_the_server(stage: Stage, log: Path) -> None:
    talk = stage.talk(mcp_servers=plain(log))
    stage.api.script(talk.name, monitor(until="x"), monitor(until="y"), DONE)
    talk.start()
    ask = talk.ask()
    assert ask["message"] == "Watch notes://log of the MCP server notes?"
    assert [each["rule"] for each in ask["suggestions"]] == ["mcp__notes"] * len(ask["suggestions"])
    assert not log.with_suffix(".pid").exists()
    talk.answer(ask, "allow_always", rule="mcp__notes", scope="session")
    talk.ended()
    assert [each["call"]["decision"]["by"] for each in talk.all("tool.completed")] == ["person", "rule"]


@pytest.mark.parametrize(
    ("rules", "behavior"),
    [
        ({"deny": ["mcp__notes"]}, "deny"),
        ({"deny": ["mcp__notes"], "allow": ["Monitor"]}, "deny"),
        ({"deny": ["Monitor(make:*)"], "allow": ["mcp__notes"]}, "allow"),
        ({"allow": ["Monitor"]}, "allow"),
        ({"allow": ["mcp__notes__*"]}, "allow"),
        ({"allow": ["Monitor(notes)", "Bash", "Read", "mcp__other"]}, "ask"),
        ({"ask": ["mcp__notes"], "allow": ["mcp__notes"]}, "ask"),
    ],
)
def test_rules_about_the_server_bind_it(stage: Stage, log: Path, rules: Json, behavior: str) -> None:
    talk = stage.talk(rules=rules, mcp_servers=plain(log))
    found = stage.daemon.call("rule/explain", session_id=talk.id, tool="Monitor", input=_given())
    assert found["behavior"] == behavior


def test_a_server_that_became_another_one_while_the_ask_was_open_is_not_started(stage: Stage, log: Path) -> None:
    talk = stage.talk()
    folder = talk.folder / ".ostler"
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"mcp_servers": plain(log)}))
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    stage.api.script(talk.name, monitor(), DONE)
    talk.start()
    ask = talk.ask()
    settings.write_text(json.dumps({"mcp_servers": plain(log, "noisy")}))
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    talk.answer(ask, "allow")
    talk.ended()
    assert "than when it was allowed. Ask again." in talk.result_texts()[0]
    assert not log.with_suffix(".pid").exists()


def test_what_a_project_brings_is_started_only_after_somebody_trusted_it(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED)
    (talk.folder / ".mcp.json").write_text(json.dumps({"mcpServers": plain(log)}))
    stage.api.script(talk.name, monitor(), DONE, monitor(), DONE)
    talk.start()
    ask = talk.ask()
    assert (ask["kind"], [each["text"].split(":")[0] for each in ask["what"]]) == ("trust", ["MCP server notes"])
    talk.answer(ask, "restrict")
    talk.ended()
    assert "There is no MCP server 'notes'. The session has none." in talk.result_texts()[0]
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    talk.turn("Again.")
    assert talk.result_texts()[1].startswith("Monitoring as m")
    # Another entry is another server: trust is asked for again, and what runs is as it was.
    (talk.folder / ".mcp.json").write_text(json.dumps({"mcpServers": plain(log, "noisy")}))
    stage.api.script(talk.name, otherwise=DONE)
    talk.start("And now?")
    assert talk.ask()["kind"] == "trust"


def test_our_secrets_reach_neither_a_server_nor_its_headers(stage: Stage, log: Path) -> None:
    begun(stage, log)
    seen = log.with_suffix(".environment").read_text()
    assert "PATH=" in seen
    assert "key-for-tests" not in seen
    for name in ("ANTHROPIC_", "OSTLER_HOME", "OSTLER_TESTING"):
        assert name not in seen
    entry = {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${ANTHROPIC_API_KEY}"}}
    talk = stage.talk(monitor(), DONE, rules=ALLOWED, mcp_servers={"notes": entry})
    talk.turn()
    assert "The variable ANTHROPIC_API_KEY is not set." in talk.result_texts()[0]


def test_a_task_that_cannot_be_stored_leaves_no_server(own_stage: Callable[..., Stage], log: Path) -> None:
    """The session is deleted while its server is asked."""
    stage = own_stage()
    log.write_text("")
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log, "mute"))
    stage.api.script(talk.name, monitor(), DONE)
    talk.start()
    wait_until(log.with_suffix(".pid").exists)
    stage.daemon.call("session/delete", session_id=talk.id)
    wait_until(lambda: is_gone(pid_of(log)))
    assert list((stage.daemon.home / "tasks").glob("call-*")) == []


def test_stopping_a_server_by_hand_is_survived(stage: Stage, log: Path) -> None:
    talk = begun(stage, log)
    first = pid_of(log)
    os.kill(first, signal.SIGKILL)
    append(log, "new\n")
    printed(talk, "new")
    assert pid_of(log) != first

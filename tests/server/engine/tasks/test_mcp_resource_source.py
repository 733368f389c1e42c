"""Monitor on a resource of an MCP server: its new lines become messages, with real servers of both protocols."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.server.engine.tasks.resources import ALLOWED, NEWER, append, begun, given, monitor, pid_of, plain, printed
from tests.server.engine.tasks.test_monitor import told
from tests.support.daemon import wait_until
from tests.support.driver import Stage, is_gone
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, sleep


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
    both = [calls("Monitor", {**given(), "until": until}) for until in ("one", "two")]
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


def test_stopping_a_server_by_hand_is_survived(stage: Stage, log: Path) -> None:
    talk = begun(stage, log)
    first = pid_of(log)
    os.kill(first, signal.SIGKILL)
    append(log, "new\n")
    printed(talk, "new")
    assert pid_of(log) != first

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

from tests.server.engine.tasks.resources import (
    ALLOWED,
    NEWER,
    NO_SERVER_TOOLS,
    append,
    make_monitor_input,
    make_plain_server,
    monitor,
    read_pid,
    start_monitor_session,
    wait_for_output,
)
from tests.server.engine.tasks.test_monitor import list_monitor_lines
from tests.support.daemon import wait_until
from tests.support.driver import Harness, is_gone
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, sleep


def test_lines_that_are_new_in_a_resource_become_messages_and_wake_a_sleep(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log))
    harness.api.script(driver.name, monitor(), sleep(), DONE)
    driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    append(log, "first\n\nsecond </ostler-note>\n")
    driver.wait_for_turn_end()
    assert list_monitor_lines(driver) == ["first", "second < /ostler-note>"]
    task = driver.wait("task.started")["data"]["task"]
    assert (task["id"][0], task["type"], task["command"]) == ("m", "monitor_mcp", None)
    assert (task["resource"]["server"], task["resource"]["uri"]) == ("notes", "notes://log")
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert (call["summary"], call["decision"]["rule"]) == ("Monitor notes://log of notes", "mcp__notes")


def test_the_first_line_that_matches_ends_it_and_its_server(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log, until="^build .*passed")
    append(log, "build 7 runs\n")
    wait_for_output(driver, "build 7 runs")
    append(log, "build 7 passed\nbuild 8 passed\n")
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("completed", None)
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["build 7 passed"]
    wait_until(lambda: is_gone(read_pid(log)))
    output = harness.daemon.call("task/output", task_id=task["id"])["output"]
    assert output == "build 7 runs\nbuild 7 passed\nbuild 8 passed\n"


def test_a_change_within_the_text_tells_the_lines_that_are_other_ones(harness: Harness, log: Path) -> None:
    log.write_text('{\n  "state": "waiting",\n  "step": 1\n}\n')
    driver = start_monitor_session(harness, log)
    log.write_text('{\n  "state": "done",\n  "step": 1\n}\n')
    wait_for_output(driver, "done")
    log.write_text("{\n}\n")
    wait_for_output(driver, "(lines were removed)")
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ['"state": "done",', "(lines were removed)"]


@pytest.mark.parametrize("behaviour", ["silent", "noisy"])
def test_a_server_that_never_tells_is_asked_and_one_that_talks_besides_is_understood(
    harness: Harness, log: Path, behaviour: str
) -> None:
    driver = start_monitor_session(harness, log, behaviour, until="new")
    append(log, "new\n")
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["new"]


def test_a_server_of_the_newer_protocol_is_listened_to(harness: Harness, log: Path) -> None:
    servers = {"notes": {"command": sys.executable, "args": [NEWER, str(log), "stdio"]}}
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=servers)
    harness.api.script(driver.name, monitor(), DONE, DONE)
    driver.run_turn()
    append(log, "new\n")
    wait_for_output(driver, "new")
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["new"]


@contextmanager
def run_server(log: Path, port: int, way: str = "http") -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([sys.executable, NEWER, str(log), way, str(port)])
    try:
        wait_until(lambda: _is_listening(port))
        yield process
    finally:
        process.kill()
        process.wait()


def _is_listening(port: int) -> bool:
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
    harness: Harness, log: Path, port: int, way: str, path: str
) -> None:
    entry = {"type": way, "url": f"http://127.0.0.1:{port}/{path}", "headers": {"Authorization": "Bearer ${KEY}"}}
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers={"notes": entry}, env={"KEY": "k"})
    harness.api.script(driver.name, monitor(), DONE, DONE)
    with run_server(log, port, way):
        driver.run_turn()
        append(log, "one\n")
        wait_for_output(driver, "one")
    append(log, "two\n")
    with run_server(log, port, way):
        wait_for_output(driver, "two")
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["one", "two"]


def test_a_server_that_died_is_started_again_and_nothing_is_lost(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log, "mortal")
    first = read_pid(log)
    append(log, "die\nwritten while it was away\n")
    wait_for_output(driver, "written while it was away")
    assert read_pid(log) != first
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["dead", "written while it was away"]


def test_two_monitors_of_a_session_share_a_server(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log))
    both = [calls("Monitor", {**make_monitor_input(), "until": until}) for until in ("one", "two")]
    harness.api.script(driver.name, message(*both), DONE, DONE)
    driver.run_turn()
    first = read_pid(log)
    append(log, "one\n")
    driver.wait("task.ended")
    assert not is_gone(first)
    append(log, "two\n")
    driver.wait("task.ended")
    assert read_pid(log) == first
    wait_until(lambda: is_gone(first))


def test_one_that_does_not_leave_when_it_is_told_to_is_ended(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log, "stubborn")
    task = driver.wait("task.started")["data"]["task"]
    ended = harness.daemon.call("task/stop", task_id=task["id"])
    assert ended["status"] == "killed"
    wait_until(lambda: is_gone(read_pid(log)))


def test_deleting_the_session_ends_its_server_and_removes_what_was_seen(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log)
    assert [path.name[-5:] for path in (harness.daemon.home / "tasks").glob("call-*.seen")] == [".seen"]
    harness.daemon.call("session/delete", session_id=driver.id)
    wait_until(lambda: is_gone(read_pid(log)))
    assert list((harness.daemon.home / "tasks").glob("call-*")) == []


def test_interrupting_a_turn_with_its_tasks_ends_the_monitor(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log))
    harness.api.script(driver.name, monitor(), sleep(), DONE)
    turn_id = driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    harness.daemon.call("turn/interrupt", turn_id=turn_id, tasks=True)
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "It was stopped together with its turn.")
    wait_until(lambda: is_gone(read_pid(log)))


# Restarts.


def test_after_a_crash_it_is_watched_on_and_what_changed_meanwhile_is_told(
    own_harness: Callable[..., Harness], log: Path
) -> None:
    harness = own_harness()
    driver = start_monitor_session(harness, log)
    append(log, "one\n")
    wait_for_output(driver, "one")
    first = read_pid(log)
    harness.daemon.kill()
    append(log, "two\n")
    harness.daemon.start()
    driver.reconnect(0)
    wait_for_output(driver, "two")
    assert is_gone(first)
    append(log, "three\n")
    wait_for_output(driver, "three")
    driver.run_turn("And now?")
    driver.run_turn("Again?")
    assert list_monitor_lines(driver) == ["one", "two", "three"]


def test_a_server_that_a_crash_left_running_is_ended(own_harness: Callable[..., Harness], log: Path) -> None:
    harness = own_harness()
    driver = start_monitor_session(harness, log, "stubborn", until="new")
    first = read_pid(log)
    harness.daemon.kill()
    assert not is_gone(first)
    append(log, "new\n")
    harness.daemon.start()
    driver.reconnect(0)
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    wait_until(lambda: is_gone(first) and is_gone(read_pid(log)))


def test_a_daemon_that_stops_takes_its_servers_along_and_the_next_one_watches_on(
    own_harness: Callable[..., Harness], log: Path
) -> None:
    harness = own_harness()
    driver = start_monitor_session(harness, log, until="new")
    first = read_pid(log)
    assert harness.daemon.stop() == 0
    assert is_gone(first)
    append(log, "new\n")
    harness.daemon.start()
    driver.reconnect(0)
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"


def test_stopping_a_server_by_hand_is_survived(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log)
    first = read_pid(log)
    os.kill(first, signal.SIGKILL)
    append(log, "new\n")
    wait_for_output(driver, "new")
    assert read_pid(log) != first

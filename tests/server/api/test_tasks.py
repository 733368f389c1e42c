"""`task/list`, `get`, `output`, `wait`, `stop`; `tool/background`; `turn/interrupt` with `tasks`."""

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_commands import (
    LONG_COMMAND,
    SHELLS_ALLOWED,
    build_wait_command,
    find_task_processes,
    open_session_with_tasks,
    wait_for_output,
    wait_for_task_end,
)
from tests.support.daemon import wait_until
from tests.support.driver import BackgroundThread, Harness, measure_seconds
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE


def test_tasks_are_listed_oldest_first_page_by_page_and_by_status(harness: Harness) -> None:
    driver, (first, second, third) = open_session_with_tasks(harness, LONG_COMMAND, "true", LONG_COMMAND)
    wait_for_task_end(driver, second)

    def ids(**wanted: object) -> list[str]:
        return [task["id"] for task in harness.daemon.call("task/list", session_id=driver.id, **wanted)["tasks"]]

    assert ids() == [first["id"], second["id"], third["id"]]
    assert ids(status="running") == [first["id"], third["id"]]
    assert ids(status="completed") == [second["id"]]
    assert ids(status="killed") == []
    page = harness.daemon.call("task/list", session_id=driver.id, limit=2)
    rest = harness.daemon.call("task/list", session_id=driver.id, limit=2, page=page["next"])
    assert [task["id"] for task in page["tasks"] + rest["tasks"]] == ids()
    assert rest["next"] is None


def test_a_list_without_a_session_has_everybodys_tasks(harness: Harness) -> None:
    _, (mine,) = open_session_with_tasks(harness, LONG_COMMAND)
    _, (other,) = open_session_with_tasks(harness, LONG_COMMAND)
    listed = [task["id"] for task in harness.daemon.call("task/list", status="running", limit=500)["tasks"]]
    assert listed == [mine["id"], other["id"]]
    assert harness.daemon.call("server/stats")["tasks"] == 2


def test_the_tasks_of_an_agent_are_listed_with_those_of_its_session(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    parent, (first,) = open_session_with_tasks(harness, "true")
    agent, (second,) = open_session_with_tasks(harness, "true")
    wait_for_task_end(parent, first)
    wait_for_task_end(agent, second)
    assert harness.daemon.stop() == 0
    with sqlite3.connect(harness.daemon.home / "ostler.db") as database:
        database.execute(
            "UPDATE sessions SET parent_id = ?, root_id = ? WHERE id = ?", (parent.id, parent.id, agent.id)
        )
    database.close()
    harness.daemon.start()

    def listed(session_id: str) -> list[str]:
        return [task["id"] for task in harness.daemon.call("task/list", session_id=session_id)["tasks"]]

    assert listed(parent.id) == [first["id"], second["id"]]
    assert listed(agent.id) == [second["id"]]


@pytest.mark.parametrize("method", ["task/get", "task/output", "task/wait", "task/stop"])
def test_an_unknown_task_is_said_so(harness: Harness, method: str) -> None:
    assert harness.daemon.expect_error(method, task_id="b00000000")["data"]["code"] == "task_not_found"


def test_the_tasks_of_an_unknown_session_are_no_empty_list(harness: Harness) -> None:
    assert harness.daemon.expect_error("task/list", session_id="s_none")["data"]["code"] == "session_not_found"


def test_a_task_is_read_while_it_runs_and_after(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "echo one; until [ -e go ]; do sleep 0.05; done; echo two")
    wait_for_output(harness.daemon, task, "one\n")
    part = harness.daemon.call("task/output", task_id=task["id"])
    assert (part["output"], part["next_offset"], part["task"]["status"]) == ("one\n", 4, "running")
    assert part["task"]["output_bytes"] == 4
    assert harness.daemon.call("task/get", task_id=task["id"]) == part["task"]
    assert harness.daemon.call("task/output", task_id=task["id"], offset=4)["output"] == ""
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["output_bytes"] == 8
    part = harness.daemon.call("task/output", task_id=task["id"], offset=4)
    assert (part["output"], part["next_offset"], part["task"]["status"]) == ("two\n", 8, "completed")


def test_a_character_that_is_half_printed_waits_for_its_other_half(harness: Harness) -> None:
    command = r"printf 'a\303'; until [ -e go ]; do sleep 0.05; done; printf '\244\342\202'"
    driver, (task,) = open_session_with_tasks(harness, command)
    wait_until(lambda: harness.daemon.call("task/get", task_id=task["id"])["output_bytes"] == 2)
    part = harness.daemon.call("task/output", task_id=task["id"])
    assert (part["output"], part["next_offset"]) == ("a", 1)
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    told = [each["text"] for each in driver.list_event_data("task.output") if each["task_id"] == task["id"]]
    # What will never be whole is shown as what it is.
    assert "".join(told) == "aä\ufffd"
    part = harness.daemon.call("task/output", task_id=task["id"], offset=1)
    assert (part["output"], part["next_offset"]) == ("ä\ufffd", 5)


def test_output_in_small_parts_adds_up_and_cuts_no_character(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "for i in {1..50}; do printf 'aä€😀'; done")
    wait_for_task_end(driver, task)
    text, place = "", 0
    while (part := harness.daemon.call("task/output", task_id=task["id"], offset=place, limit=17))["output"]:
        assert part["offset"] == place
        text, place = text + part["output"], part["next_offset"]
    assert text == "aä€😀" * 50
    assert place == part["task"]["output_bytes"] == 500


def test_bytes_that_are_no_text_are_shown_as_such_and_do_no_harm(harness: Harness) -> None:
    command = 'for i in {0..255}; do printf "\\\\x$(printf %x $i)"; done; head -c 5000 /dev/urandom'
    driver, (task,) = open_session_with_tasks(harness, command)
    assert wait_for_task_end(driver, task)["status"] == "completed"
    part = harness.daemon.call("task/output", task_id=task["id"])
    assert part["next_offset"] == 5256
    assert part["output"].startswith("\x00\x01\x02")
    assert "\ufffd" in part["output"]


def test_whoever_waits_gets_the_task_when_it_is_over(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "until [ -e go ]; do sleep 0.05; done; exit 9")
    assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=50)["status"] == "running"
    waiting = BackgroundThread(lambda: harness.daemon.call("task/wait", task_id=task["id"]))
    (driver.folder / "go").touch()
    over = waiting.result()
    assert (over["status"], over["exit_code"], over["error"]) == ("failed", 9, None)
    assert over["ended_at"] >= over["started_at"]
    assert harness.daemon.call("task/wait", task_id=task["id"]) == over


def test_a_client_that_leaves_and_a_daemon_that_stops_do_not_wait_for_a_task(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    _, (task,) = open_session_with_tasks(harness, LONG_COMMAND)
    waiting = {"jsonrpc": "2.0", "id": 1, "method": "task/wait", "params": {"task_id": task["id"]}}
    connection = harness.daemon.open_connection()
    headers = {"Authorization": f"Bearer {harness.daemon.token}", "Content-Type": "application/json"}
    connection.request("POST", "/rpc", json.dumps(waiting), headers)
    assert measure_seconds(lambda: harness.daemon.stop() == 0) < 10
    connection.close()
    harness.daemon.start()
    assert harness.daemon.call("task/stop", task_id=task["id"])["status"] == "killed"


def test_a_stopped_task_is_killed_with_all_that_it_started_and_stays_so(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "sleep 1000 & sleep 1001 & echo begun; wait")
    wait_for_output(harness.daemon, task, "begun")
    assert len(find_task_processes(task)) >= 3
    stopped = harness.daemon.call("task/stop", task_id=task["id"])
    assert (stopped["status"], stopped["error"]) == ("killed", "It was stopped by the person.")
    assert find_task_processes(task) == set()
    assert wait_for_task_end(driver, task) == stopped
    assert harness.daemon.call("task/stop", task_id=task["id"]) == stopped
    assert driver.list_event_types("task.ended") == ["task.ended"]


def test_stopping_what_is_over_changes_nothing(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "exit 3")
    over = wait_for_task_end(driver, task)
    assert harness.daemon.call("task/stop", task_id=task["id"]) == over


# Sending a command to the background.


def test_a_running_command_goes_on_in_the_background_and_its_turn_with_it(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = f"echo begun; {build_wait_command(driver.folder / 'go')}; echo done"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), message(says("On we go.")))
    turn_id = driver.start()
    call = driver.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(find_task_processes(call)))
    assert harness.daemon.call("tool/background", call_id=call["call_id"])["call_id"] == call["call_id"]
    assert driver.wait_for_turn_end(turn_id)["result_text"] == "On we go."
    task = driver.wait("task.started")["data"]["task"]
    assert (task["call_id"], task["command"]) == (call["call_id"], command)
    completed = driver.wait("tool.completed")["data"]["call"]
    assert completed["output"]["background_task_id"] == task["id"]
    assert completed["output"]["backgrounded_by"] == "user"
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert harness.daemon.call("task/output", task_id=task["id"])["output"] == "begun\ndone\n"


def test_only_a_command_that_runs_can_go_to_the_background(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("g")})), message(says("Done.")))
    turn_id = driver.start()
    driver.wait_at_gate("g")
    call = driver.wait("tool.started")["data"]["call"]
    assert harness.daemon.expect_error("tool/background", call_id=call["call_id"])["data"]["code"] == "conflict"
    driver.open_gate("g")
    driver.wait_for_turn_end(turn_id)
    assert harness.daemon.expect_error("tool/background", call_id=call["call_id"])["data"]["code"] == "no_turn_running"
    assert harness.daemon.expect_error("tool/background", call_id="m_none#0")["data"]["code"] == "call_not_found"


def test_a_command_that_only_sleeps_is_not_sent_to_the_background_by_a_person(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(calls("Bash", {"command": "sleep ${PAUSE-1000}"})), message(says("Done.")))
    turn_id = driver.start()
    call = driver.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(find_task_processes(call)))
    error = harness.daemon.expect_error("tool/background", call_id=call["call_id"])
    assert (error["data"]["code"], "does nothing but sleep" in error["message"]) == ("conflict", True)
    harness.daemon.call("tool/cancel", call_id=call["call_id"])
    driver.wait_for_turn_end(turn_id)
    assert driver.list_event_data("task.started") == []


# Settings.


def test_the_setting_and_the_variable_switch_the_background_off(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_DISABLE_BACKGROUND_TASKS="1")
    found = harness.daemon.call("config/get", key="tools.background")
    assert (found["value"], found["source"]) == (False, "environment")
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = build_wait_command(driver.folder / "go")
    harness.api.script(
        driver.name,
        message(calls("Bash", {"command": "true", "run_in_background": True})),
        message(calls("Bash", {"command": command})),
        message(says("Done.")),
    )
    turn_id = driver.start()
    driver.wait("tool.completed", lambda data: data["call"]["is_error"])
    call = driver.wait("tool.started", lambda data: data["call"]["input"].get("command") == command)["data"]["call"]
    error = harness.daemon.expect_error("tool/background", call_id=call["call_id"])
    assert (error["data"]["code"], "config.toml" in error["message"]) == ("conflict", True)
    (driver.folder / "go").touch()
    driver.wait_for_turn_end(turn_id)
    assert driver.list_event_data("task.started") == []


def test_background_tasks_can_be_switched_off_and_on_while_the_daemon_runs(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    harness.api.may_rewrite = True  # the tools are others then
    harness.daemon.call("config/set", key="tools.background", value=False)
    driver = harness.open_session(rules={"allow": ["Bash"]})
    background = message(calls("Bash", {"command": "true", "run_in_background": True}))
    harness.api.script(driver.name, background, message(says("No?")), background, message(says("Yes.")))
    driver.run_turn()
    assert driver.wait("tool.completed")["data"]["call"]["is_error"]
    harness.daemon.call("config/set", key="tools.background", value=True)
    driver.run_turn()
    assert not driver.wait("tool.completed")["data"]["call"]["is_error"]
    driver.wait("task.started")


# Interrupts.


def test_an_interrupt_ends_the_tasks_of_its_turn_only_where_it_is_asked_for(harness: Harness) -> None:
    driver, (older,) = open_session_with_tasks(harness, LONG_COMMAND)
    for wanted in (False, True):
        gate = f"gate-{wanted}"
        harness.api.script(
            driver.name,
            otherwise=message(
                calls("Bash", {"command": LONG_COMMAND, "run_in_background": True}),
                calls("Gate", {"path": driver.get_gate_path(gate)}),
            ),
        )
        turn_id = driver.start()
        driver.wait_at_gate(gate)
        task = driver.wait("task.started")["data"]["task"]
        harness.daemon.call("turn/interrupt", turn_id=turn_id, tasks=wanted)
        assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
        if wanted:
            assert wait_for_task_end(driver, task)["error"] == "It was stopped together with its turn."
            assert find_task_processes(task) == set()
        else:
            assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
            assert find_task_processes(task)
    assert harness.daemon.call("task/get", task_id=older["id"])["status"] == "running"


def test_a_task_tells_its_call_and_what_the_model_knows_of_it(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    start = calls(
        "Bash",
        {"command": f"echo ready; {build_wait_command(Path('go'))}", "run_in_background": True},
        id="toolu_start",
    )
    harness.api.script(driver.name, message(start), otherwise=DONE)
    driver.run_turn()
    task = driver.wait("task.started")["data"]["task"]
    assert (task["call_id"], task["tool_use_id"]) == (
        driver.wait("tool.completed")["data"]["call"]["call_id"],
        "toolu_start",
    )
    assert (task["output_offset"], task["notified"], task["paused_ms"]) == (0, False, 0)
    look = message(calls("TaskOutput", {"task_id": task["id"], "block": False}))
    wait_until(lambda: harness.daemon.call("task/get", task_id=task["id"])["output_bytes"] == len("ready\n"))
    harness.api.script(driver.name, DONE, DONE, look, otherwise=DONE)
    driver.run_turn()
    assert harness.daemon.call("task/get", task_id=task["id"])["output_offset"] == len("ready\n")
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["notified"] is False
    assert harness.daemon.call("task/get", task_id=task["id"])["notified"] is False
    driver.run_turn()
    [known] = harness.daemon.call("task/list", session_id=driver.id)["tasks"]
    assert (known["notified"], known["status"]) == (True, "completed")


# The registry.


def test_a_task_has_the_shape_that_the_protocol_promises(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "exit 3")
    assert list(task) == [
        "id", "type", "status", "description", "session_id", "agent_id", "call_id", "tool_use_id", "command",
        "resource", "exit_code", "error", "started_at", "ended_at", "paused_ms", "output_bytes", "output_offset",
        "notified",
    ]  # fmt: skip
    assert re.fullmatch("b[0-9a-z]{8}", task["id"])
    assert (task["session_id"], task["agent_id"], task["command"]) == (driver.id, None, "exit 3")
    assert (task["status"], task["exit_code"], task["ended_at"]) == ("running", None, None)
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", 3)
    assert over["ended_at"] >= over["started_at"] == task["started_at"]


def test_a_task_of_another_kind_of_end_says_which(harness: Harness) -> None:
    expected: list[tuple[str, tuple[Any, ...]]] = [
        ("exit 0", ("completed", 0, None)),
        ("exit 1", ("failed", 1, None)),
        ("grep x /dev/null", ("failed", 1, None)),
        ("kill -KILL $$", ("failed", None, "ended by SIGKILL")),
    ]
    driver, tasks = open_session_with_tasks(harness, *(command for command, _ in expected))
    for task, (_, facts) in zip(tasks, expected, strict=True):
        over = wait_for_task_end(driver, task)
        assert (over["status"], over["exit_code"], over["error"]) == facts

"""Tasks that are many, that do not want to end, and that leave things: nothing of them stays behind."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.background_commands import (
    LONG_COMMAND,
    count_descriptors,
    find_task_processes,
    open_session_with_tasks,
    wait_for_output,
    wait_for_task_end,
)
from tests.support.daemon import wait_until
from tests.support.driver import BackgroundThread, Harness, Json, SessionDriver, is_gone
from tests.support.messages_api.replies import calls, message

_MANY: Final = 100


def test_a_hundred_tasks_that_print_at_once_hold_nobody_up_and_leave_nothing(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    warm, (first,) = open_session_with_tasks(harness, "true")
    wait_for_task_end(warm, first)
    harness.daemon.call("session/delete", session_id=warm.id)
    before = count_descriptors(harness.daemon)
    command = "until [ -e go ]; do sleep 0.1; done; for i in {1..200}; do echo line $i of many; done"
    driver, tasks = open_session_with_tasks(harness, *[command] * _MANY)
    assert harness.daemon.call("server/stats")["tasks"] == _MANY
    (driver.folder / "go").touch()
    slowest = 0.0
    while harness.daemon.call("server/stats")["tasks"]:
        began = time.monotonic()
        assert harness.daemon.send_http("GET", "/healthz").status == 200
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 3.0  # a busy machine holds everybody up a little
    over = harness.daemon.call("task/list", session_id=driver.id, limit=500)["tasks"]
    assert {(task["status"], task["output_bytes"]) for task in over} == {("completed", over[0]["output_bytes"])}
    last = harness.daemon.call("task/output", task_id=tasks[-1]["id"])["output"]
    assert last == "".join(f"line {number} of many\n" for number in range(1, 201))
    assert not any(find_task_processes(task) for task in tasks)
    harness.daemon.call("session/delete", session_id=driver.id)
    assert list((harness.daemon.home / "tasks").iterdir()) == []
    driver.stream.close()
    wait_until(lambda: count_descriptors(harness.daemon) <= before)


def test_a_task_that_ignores_sigterm_is_killed(harness: Harness) -> None:
    _, (task,) = open_session_with_tasks(harness, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for_output(harness.daemon, task, "ready")
    assert harness.daemon.call("task/stop", task_id=task["id"])["status"] == "killed"
    assert find_task_processes(task) == set()


def test_children_that_left_the_group_end_with_their_task(harness: Harness) -> None:
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
    driver, (task,) = open_session_with_tasks(harness, f"{leaving} wait")
    child = int(driver.wait_for_file("child"))
    harness.daemon.call("task/stop", task_id=task["id"])
    wait_until(lambda: is_gone(child))


def test_what_a_task_leaves_running_at_its_own_end_is_ended(harness: Harness) -> None:
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
    driver, (task,) = open_session_with_tasks(harness, f"{leaving} until [ -s child ]; do sleep 0.05; done")
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert is_gone(int(driver.wait_for_file("child")))
    assert find_task_processes(task) == set()


def test_a_task_is_stopped_in_the_middle_of_printing(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "while :; do echo an endless line; done")
    driver.wait("task.output")
    stopped = harness.daemon.call("task/stop", task_id=task["id"])
    assert stopped["status"] == "killed"
    assert stopped["output_bytes"] > 0
    part = harness.daemon.call("task/output", task_id=task["id"], offset=stopped["output_bytes"])
    assert (part["output"], part["task"]) == ("", stopped)
    assert find_task_processes(task) == set()


def test_a_signal_from_elsewhere_is_said_by_its_name(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "kill -SEGV $BASHPID")
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["error"]) == ("failed", "ended by SIGSEGV")


def test_an_interrupt_of_a_later_turn_does_not_touch_a_task(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, LONG_COMMAND)
    turn_id = _start_gated_turn(harness, driver)
    harness.daemon.call("turn/interrupt", turn_id=turn_id, tasks=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert harness.daemon.call("task/get", task_id=task["id"])["status"] == "running"
    assert find_task_processes(task)


def _start_gated_turn(harness: Harness, driver: SessionDriver) -> str:
    harness.api.script(driver.name, otherwise=message(calls("Gate", {"path": driver.get_gate_path("g")})))
    turn_id = driver.start()
    driver.wait_at_gate("g")
    return turn_id


def test_a_fork_has_no_tasks_and_the_first_keeps_its_own(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, LONG_COMMAND)
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    assert harness.daemon.call("task/list", session_id=fork["id"])["tasks"] == []
    harness.daemon.call("session/delete", session_id=fork["id"])
    assert harness.daemon.call("task/get", task_id=task["id"])["status"] == "running"


def test_a_deleted_session_takes_finished_and_running_tasks_along(harness: Harness) -> None:
    driver, (over, running) = open_session_with_tasks(harness, "echo done", f"echo begun; {LONG_COMMAND}")
    wait_for_task_end(driver, over)
    wait_for_output(harness.daemon, running, "begun")
    assert _list_task_files(harness, over)
    harness.daemon.call("session/delete", session_id=driver.id)
    assert find_task_processes(running) == set()
    for task in (over, running):
        assert harness.daemon.expect_error("task/get", task_id=task["id"])["data"]["code"] == "task_not_found"
        assert _list_task_files(harness, task) == []


def _list_task_files(harness: Harness, task: Json) -> list[Path]:
    return [path for path in (harness.daemon.home / "tasks").iterdir() if task["call_id"] in path.name]


def test_whoever_waits_for_a_task_of_a_deleted_session_is_told_so(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, LONG_COMMAND)
    waiting = BackgroundThread(lambda: harness.daemon.send_rpc("task/wait", {"task_id": task["id"]}))
    harness.daemon.call("session/delete", session_id=driver.id)
    answer = waiting.result()
    assert answer.get("error", {}).get("data", {}).get("code") == "task_not_found" or (
        answer["result"]["status"] == "killed"
    )

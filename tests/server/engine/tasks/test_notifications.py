"""The model is notified once of the end of a task, and not at all when it has seen it in a result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.background_commands import (
    build_wait_command,
    find_task_notes,
    open_session_with_tasks,
    wait_for_task_end,
)
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def query_task(harness: Harness, driver: SessionDriver, task: Json, tool: str = "TaskOutput", **given: Any) -> None:
    """A turn in which the model asks about the task, and one after it."""
    harness.api.script(driver.name, DONE, DONE, message(calls(tool, {"task_id": task["id"], **given})), otherwise=DONE)
    driver.run_turn("Look.")
    driver.run_turn("And now?")


def test_who_waited_for_the_end_with_taskoutput_is_not_told_of_it(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
    harness.api.script(driver.name, DONE, DONE, message(calls("TaskOutput", {"task_id": task["id"]})), otherwise=DONE)
    turn_id = driver.start("Look.")
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    (driver.folder / "go").touch()
    driver.wait_for_turn_end(turn_id)
    driver.run_turn("And now?")
    assert f"{task['id']} completed" in driver.fetch_result_texts()[-1]
    assert find_task_notes(driver, task) == []


def test_who_stopped_it_is_not_told_of_it(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("never")))
    query_task(harness, driver, task, "TaskStop")
    assert driver.fetch_result_texts()[-1].startswith(f"Stopped {task['id']}")
    assert find_task_notes(driver, task) == []


def test_who_looked_before_the_end_is_told_of_it(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
    query_task(harness, driver, task, block=False)
    assert find_task_notes(driver, task) == []
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    driver.run_turn("And now?")
    driver.run_turn("Again?")
    assert len(find_task_notes(driver, task)) == 1


def test_others_that_ended_meanwhile_are_told_of(harness: Harness) -> None:
    driver, (one, two) = open_session_with_tasks(
        harness, build_wait_command(Path("go")), build_wait_command(Path("go"))
    )
    harness.api.script(driver.name, DONE, DONE, message(calls("TaskOutput", {"task_id": one["id"]})), otherwise=DONE)
    turn_id = driver.start("Look.")
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    (driver.folder / "go").touch()
    driver.wait_for_turn_end(turn_id)
    wait_for_task_end(driver, two)
    driver.run_turn("And now?")
    assert (len(find_task_notes(driver, one)), len(find_task_notes(driver, two))) == (0, 1)


def test_it_is_not_told_after_a_restart_either(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("never")))
    query_task(harness, driver, task, "TaskStop")
    harness.restart()
    driver.run_turn("And now?")
    assert find_task_notes(driver, task) == []


def test_an_end_wakes_nobody_who_does_not_want_it(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
    requests = len(driver.requests)
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    # What comes after it on the same stream is the proof: nothing began in between.
    harness.daemon.call("session/update", session_id=driver.id, metadata={"later": 1})
    driver.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert driver.list_event_types("turn.started") == ["turn.started"]
    assert (len(driver.requests), find_task_notes(driver, task)) == (requests, [])


def test_an_end_is_told_to_clients_once_whatever_daemons_come_after_it(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, "exit 0")
    wait_for_task_end(driver, task)
    harness.restart()
    harness.restart()
    harness.daemon.call("session/update", session_id=driver.id, metadata={"later": 1})
    driver.seen.clear()
    driver._returned.clear()
    driver.reconnect(0)
    driver.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert driver.list_event_types("task.ended") == ["task.ended"]

"""Tasks after a restart of the daemon: found again, or known to be gone; reported once, whatever happens."""

import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.caller import Caller, CallRefused
from tests.faults.limited_disk import limit_file_size
from tests.support.background_commands import (
    LONG_COMMAND,
    build_wait_command,
    find_task_notes,
    find_task_processes,
    open_session_with_tasks,
    wait_for_output,
    wait_for_task_end,
)
from tests.support.daemon import Daemon, wait_until
from tests.support.driver import Harness, SessionDriver, build_environment, is_gone
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.server import ScriptedApi


def test_a_daemon_that_stops_leaves_its_tasks_to_the_next(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(
        harness, "echo before; until [ -e go ]; do sleep 0.05; done; echo after; exit 7"
    )
    wait_for_output(harness.daemon, task, "before")
    left = find_task_processes(task)
    assert harness.daemon.stop() == 0
    assert find_task_processes(task) & left
    harness.daemon.start()
    driver.reconnect()
    found = harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)
    assert (found["status"], found["output_bytes"]) == ("running", 7)
    (driver.folder / "go").touch()
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", 7)
    assert harness.daemon.call("task/output", task_id=task["id"])["output"] == "before\nafter\n"
    assert find_task_processes(task) == set()


def test_the_next_daemon_stops_what_the_one_before_started(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    _, (task,) = open_session_with_tasks(harness, f"setsid sleep 1000 & echo begun; {LONG_COMMAND}")
    wait_for_output(harness.daemon, task, "begun")
    assert harness.daemon.stop() == 0
    harness.daemon.start()
    stopped = harness.daemon.call("task/stop", task_id=task["id"])
    assert (stopped["status"], stopped["error"]) == ("killed", "It was stopped by the person.")
    assert find_task_processes(task) == set()


def test_a_deleted_session_ends_what_an_earlier_daemon_started(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, f"echo begun; {LONG_COMMAND}")
    wait_for_output(harness.daemon, task, "begun")
    harness.restart()
    harness.daemon.call("session/delete", session_id=driver.id)
    assert find_task_processes(task) == set()
    assert list((harness.daemon.home / "tasks").iterdir()) == []


def test_a_process_number_that_is_another_ones_now_is_no_task(own_harness: Callable[..., Harness]) -> None:
    """A start time that is not the process's own is what a number that was given away again looks like."""
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, f"echo begun; {LONG_COMMAND}")
    wait_for_output(harness.daemon, task, "begun")
    harness.daemon.kill()
    with sqlite3.connect(harness.daemon.home / "ostler.db") as database:
        stored = database.execute("SELECT pid, task_json FROM tasks WHERE id = ?", (task["id"],)).fetchone()
        # Of another call too: else it would be found by its mark.
        changed = json.dumps({**json.loads(stored[1]), "call_id": "m_other#0"})
        database.execute("UPDATE tasks SET start_time = '1', task_json = ? WHERE id = ?", (changed, task["id"]))
    database.close()
    harness.daemon.start()
    driver.reconnect(0)
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", None)
    assert over["error"] == "It was gone when the daemon came back, and nobody knows how it ended."
    assert not is_gone(stored[0])  # a stranger's process is left alone
    harness.daemon.end_commands()


def test_a_task_that_was_found_again_and_is_killed_from_elsewhere_was_not_gone_before(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, f"echo begun; {LONG_COMMAND}")
    wait_for_output(harness.daemon, task, "begun")
    harness.restart()
    assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    # Stopped first: the shell around it must not see the others go, and write that down.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in find_task_processes(task):
            os.kill(pid, number)
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", None)
    assert over["error"] == "It was killed from elsewhere, before it could say how it ended."


def test_what_a_dead_task_left_running_is_ended_by_the_next_daemon(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' &"
    driver, (task,) = open_session_with_tasks(harness, f"{leaving} until [ -e go ]; do sleep 0.05; done; exit 5")
    child = int(driver.wait_for_file("child"))
    harness.daemon.kill()
    (driver.folder / "go").touch()
    wait_until(lambda: find_task_processes(task) <= {child})
    harness.daemon.start()
    driver.reconnect(0)
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", 5)
    assert is_gone(child)


def test_a_task_whose_file_is_gone_still_ends_and_says_nothing(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (kept, lost) = open_session_with_tasks(
        harness, build_wait_command(Path("go")), build_wait_command(Path("go"))
    )
    _remove_files(harness, kept["call_id"])
    assert harness.daemon.call("task/output", task_id=kept["id"], offset=3)["next_offset"] == 3
    harness.daemon.kill()
    _remove_files(harness, lost["call_id"])
    (driver.folder / "go").touch()
    wait_until(lambda: not find_task_processes(kept) and not find_task_processes(lost))
    harness.daemon.start()
    driver.reconnect(0)
    for task in (kept, lost):
        over = wait_for_task_end(driver, task)
        assert over["status"] in {"failed", "completed"}
        part = harness.daemon.call("task/output", task_id=task["id"])
        assert (part["output"], part["next_offset"]) == ("", 0)


def test_a_task_that_runs_is_found_again_though_its_file_is_gone(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, f"echo begun; {build_wait_command(Path('go'))}; exit 6")
    wait_for_output(harness.daemon, task, "begun")
    harness.daemon.kill()
    _remove_files(harness, task["call_id"])
    harness.daemon.start()
    driver.reconnect()
    assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["exit_code"] == 6


def _remove_files(harness: Harness, call_id: str) -> None:
    for path in (harness.daemon.home / "tasks").iterdir():
        if call_id in path.name:
            path.unlink()


# What the model is told.


def test_the_end_is_told_once_though_the_daemon_dies_before_the_next_request(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    assert find_task_notes(driver, task) == []
    harness.restart()
    driver.run_turn("And now?")
    harness.restart()
    driver.run_turn("Again?")
    driver.run_turn("And again?")
    assert len(find_task_notes(driver, task)) == 1


def test_a_task_that_ends_in_the_middle_of_a_turn_is_told_with_its_next_request(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
    harness.api.script(driver.name, otherwise=message(calls("Gate", {"path": driver.get_gate_path("g")})))
    turn_id = driver.start()
    driver.wait_at_gate("g")
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    harness.api.script(driver.name, otherwise=message(says("I see.")))
    driver.open_gate("g")
    assert driver.wait_for_turn_end(turn_id)["result_text"] == "I see."
    (told,) = find_task_notes(driver, task)
    assert told["turn_id"] == turn_id
    assert f"The background task {task['id']} is done" in str(driver.requests[-1].body["messages"][-1])


def test_a_task_that_ends_after_the_last_request_of_a_turn_wakes_the_session(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")), wake_on_task_end=True)
    gate = Gate()
    harness.api.script(driver.name, otherwise=message(says("A word ", hold(gate), "more.")))
    turn_id = driver.start()
    driver.wait("message.delta")
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    harness.api.script(driver.name, otherwise=message(says("I was woken.")))
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["result_text"] == "A word more."
    assert driver.wait_for_turn_end()["result_text"] == "I was woken."
    assert len(find_task_notes(driver, task)) == 1


def test_what_was_told_in_a_prompt_that_a_hook_blocks_is_told_with_the_next(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, "UserPromptSubmit", "if [ -e block ]; then echo no >&2; exit 2; fi")
    driver, (first, second) = open_session_with_tasks(
        harness, build_wait_command(Path("one")), build_wait_command(Path("two")), folder=folder, trust=True
    )
    (folder / "block").touch()
    (folder / "one").touch()
    wait_for_task_end(driver, first)
    assert driver.run_turn()["reason"] == "stopped_by_hook"
    assert find_task_notes(driver, first) == []
    (folder / "two").touch()
    wait_for_task_end(driver, second)
    assert driver.run_turn()["reason"] == "stopped_by_hook"
    harness.restart()
    (folder / "block").unlink()
    driver.run_turn()
    driver.run_turn()
    assert (len(find_task_notes(driver, first)), len(find_task_notes(driver, second))) == (1, 1)


def test_a_session_that_wants_to_be_woken_is_woken_after_a_restart(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")), wake_on_task_end=True)
    harness.daemon.kill()
    (driver.folder / "go").touch()
    wait_until(lambda: not find_task_processes(task))
    harness.api.script(driver.name, otherwise=message(says("I was woken.")))
    harness.daemon.start()
    driver.reconnect(0)
    assert driver.wait_for_turn_end(None)["result_text"]
    assert _wait_for_result_text(driver) == "I was woken."
    assert len(find_task_notes(driver, task)) == 1


def _wait_for_result_text(driver: SessionDriver) -> str:
    wait_until(lambda: len(driver.daemon.call("turn/list", session_id=driver.id)["turns"]) == 2)
    turn = driver.daemon.call("turn/list", session_id=driver.id)["turns"][-1]
    return str(driver.daemon.call("turn/wait", turn_id=turn["id"])["result_text"])


# A disk that takes nothing.


def test_a_task_that_ends_while_the_disk_is_full_is_over_when_there_is_room(api: ScriptedApi, tmp_path: Path) -> None:
    with limit_file_size(tmp_path) as limited_disk:
        limited_disk.daemon.environment = build_environment(api, tmp_path / "plug_in")
        with limited_disk.daemon as daemon:
            harness = Harness(daemon, api, tmp_path)
            driver, (task,) = open_session_with_tasks(harness, build_wait_command(Path("go")))
            _fill_disk(daemon, driver.id)
            (driver.folder / "go").touch()
            wait_until(lambda: not find_task_processes(task))
            assert daemon.call("task/wait", task_id=task["id"], timeout_ms=200)["status"] == "running"
            assert daemon.send_http("GET", "/healthz").status == 200
            limited_disk.free()
            over = daemon.call("task/wait", task_id=task["id"])
            assert (over["status"], over["exit_code"]) == ("completed", 0)
            driver.run_turn("And now?")
            assert len(find_task_notes(driver, task)) == 1
            driver.stream.close()


def _fill_disk(daemon: Daemon, session_id: str) -> None:
    """Write until the daemon cannot store any more."""
    with pytest.raises(CallRefused) as refused:
        _write_for_ever(daemon, session_id)
    assert refused.value.code in {"storage_error", "read_only"}


def _write_for_ever(daemon: Daemon, session_id: str) -> None:
    with Caller(daemon) as caller:
        for number in itertools.count():
            caller.call("session/update", session_id=session_id, metadata={"n": number, "bulk": "x" * 20_000})


def test_a_second_signal_leaves_tasks_alone_too(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(harness, f"echo begun; {build_wait_command(Path('go'))}")
    wait_for_output(harness.daemon, task, "begun")
    harness.daemon.signal(signal.SIGTERM)
    harness.daemon.signal(signal.SIGTERM)
    harness.daemon.wait()
    assert find_task_processes(task)
    harness.daemon.start()
    driver.reconnect(0)
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"


def test_the_last_words_of_a_task_that_was_taken_over_are_all_there(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(
        harness, f"echo before; {build_wait_command(Path('go'))}; seq 1 200000; echo last >/dev/stdout"
    )
    wait_for_output(harness.daemon, task, "before")
    harness.daemon.kill()
    harness.daemon.start()
    driver.reconnect()
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"
    place, text = 0, ""
    while (part := harness.daemon.call("task/output", task_id=task["id"], offset=place))["output"]:
        place, text = part["next_offset"], text + part["output"]
    assert text.split() == ["before", *map(str, range(1, 200_001)), "last"]


def test_who_has_read_a_part_gets_the_rest_of_a_task_that_opens_its_output_anew(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(
        harness, f"echo before; {build_wait_command(Path('go'))}; echo two >/dev/stdout; echo end"
    )
    wait_for_output(harness.daemon, task, "before\n")
    (driver.folder / "go").touch()
    wait_for_task_end(driver, task)
    assert harness.daemon.call("task/output", task_id=task["id"], offset=len("before\n"))["output"] == "two\nend\n"

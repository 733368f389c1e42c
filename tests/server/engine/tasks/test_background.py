"""Background commands: started, watched, reported once, and found again after a restart."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.background_commands import (
    SHELLS_ALLOWED,
    build_wait_command,
    find_task_processes,
    run_call,
    wait_for_output,
    wait_for_task_end,
)
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE
from tests.tools.shell.test_powershell import STAND_IN


def in_background(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command, "run_in_background": True}


def test_a_command_goes_on_behind_its_call(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    go = driver.folder / "go"
    command = f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo done"
    harness.api.script(driver.name, message(calls(*in_background(command))), message(says("It runs.")))
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    started = driver.wait("task.started")["data"]["task"]
    assert (started["type"], started["status"], started["command"]) == ("local_bash", "running", command)
    assert started["id"][0] == "b"
    assert len(started["id"]) == 9
    assert f"Running in background as {started['id']}" in driver.fetch_result_texts()[0]
    assert "begun" in driver.wait("task.output")["data"]["text"]
    assert [task["id"] for task in driver.daemon.call("session/get", session_id=driver.id)["tasks"]] == [started["id"]]
    go.write_text("")
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (started["id"], "completed", 0)
    assert driver.daemon.call("session/get", session_id=driver.id)["tasks"] == []


def test_the_model_is_told_once_of_the_end(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(
        driver.name,
        message(calls(*in_background("exit 3"))),
        message(says("It runs.")),
        message(says("I see.")),
        message(says("Yes.")),
    )
    driver.run_turn()
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["exit_code"]) == ("failed", 3)
    driver.run_turn("And now?")
    driver.run_turn("Again?")
    told = [text for text in _list_notes(driver) if task["id"] in text and "has failed (exit code 3)" in text]
    assert len(told) == 1


def _list_notes(driver: SessionDriver) -> list[str]:
    texts = (
        block["text"]
        for one in driver.fetch_messages()
        if one["role"] == "user"
        for block in one["content"]
        if block["type"] == "text"
    )
    return [text for text in texts if text.startswith("<ostler-note>")]


def test_an_idle_session_is_woken_where_it_says_so(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]}, wake_on_task_end=True)
    go = driver.folder / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done"
    harness.api.script(
        driver.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I was woken."))
    )
    driver.run_turn()
    go.write_text("")
    woken = driver.wait_for_turn_end()
    assert woken["result_text"] == "I was woken."


def test_a_deleted_session_takes_its_tasks_along(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(
        driver.name, message(calls(*in_background("echo $BASHPID >pid; sleep 1000"))), message(says("It runs."))
    )
    driver.run_turn()
    wait_until(lambda: (driver.folder / "pid").exists() and (driver.folder / "pid").read_text().strip())
    pid = int((driver.folder / "pid").read_text())
    harness.daemon.call("session/delete", session_id=driver.id)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    # What the calls of earlier tests printed is removed a moment later.
    wait_until(lambda: list((harness.daemon.home / "tasks").glob("*")) == [])


def test_a_task_outlives_the_daemon_and_is_found_again(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Bash"]})
    go = driver.folder / "go"
    command = f"echo before; until [ -e {go} ]; do sleep 0.05; done; echo after; exit 7"
    harness.api.script(
        driver.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I see."))
    )
    driver.run_turn()
    task = driver.wait("task.started")["data"]["task"]
    harness.restart()
    go.write_text("")
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (task["id"], "failed", 7)
    driver.run_turn("And now?")
    assert any(task["id"] in text for text in _list_notes(driver))


def test_what_ended_while_no_daemon_ran_left_its_exit_code(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Bash"]})
    go, gone = driver.folder / "go", driver.folder / "gone"
    command = f"trap 'echo >{gone}' EXIT; until [ -e {go} ]; do sleep 0.05; done"
    harness.api.script(driver.name, message(calls(*in_background(command))), message(says("It runs.")))
    driver.run_turn()
    harness.daemon.kill()
    go.write_text("")
    wait_until(gone.exists)
    wait_until(lambda: any(path.read_text().endswith("0\n") for path in (harness.daemon.home / "tasks").glob("*.end")))
    harness.daemon.start()
    driver.reconnect(0)
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)


def test_a_stray_file_of_a_crash_is_removed(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    harness.daemon.kill()
    stray = harness.daemon.home / "tasks" / "call-m_1#0-0123.out"
    stray.write_text("left")
    harness.daemon.start()
    wait_until(lambda: not stray.exists())
    assert os.path.isdir(stray.parent)


SHORT = {"BASH_DEFAULT_TIMEOUT_MS": "300"}


# How long a command may block its call.


def test_a_command_without_a_limit_goes_on_behind_its_call(own_harness: Callable[..., Harness]) -> None:
    driver, call = run_call(
        own_harness(**SHORT), {"command": "echo begun; until [ -e go ]; do sleep 0.05; done; exit 4"}
    )
    task = driver.wait("task.started")["data"]["task"]
    output = call["output"]
    assert (output["background_task_id"], output["backgrounded_by"]) == (task["id"], "budget")
    assert (call["is_error"], output["timed_out"], output["exit_code"]) == (False, False, None)
    assert f"Running in background as {task['id']}. TaskOutput shows what it prints" in driver.fetch_result_texts()[0]
    assert "It was still running after 0.3 s, and goes on without you waiting." in driver.fetch_result_texts()[0]
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["exit_code"] == 4


def test_a_limit_of_the_models_is_waited_out_and_then_kills(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(BASH_DEFAULT_TIMEOUT_MS="100")
    driver, call = run_call(harness, {"command": build_wait_command(Path("never")), "timeout": 2000})
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert call["output"]["duration_ms"] >= 2000
    assert driver.list_event_data("task.started") == []
    assert find_task_processes(call) == set()


@pytest.mark.parametrize(
    ("tool", "command"), [("Bash", "sleep 1.9"), ("Bash", "sleep 1 0.9"), ("PowerShell", "Start-Sleep 1.9")]
)
def test_what_only_sleeps_is_never_sent_to_the_background(
    own_harness: Callable[..., Harness], tmp_path: Path, tool: str, command: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (("pwsh", STAND_IN), ("Start-Sleep", '#!/bin/sh\nexec sleep "$@"\n')):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    harness = own_harness(**SHORT, PATH=f"{programs}:{os.environ['PATH']}")
    driver, call = run_call(harness, {"command": command}, tool)
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert driver.list_event_data("task.started") == []


def test_where_the_background_is_off_it_is_killed_and_not_offered(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(**SHORT, OSTLER_DISABLE_BACKGROUND_TASKS="1")
    driver, call = run_call(harness, {"command": build_wait_command(Path("never"))})
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert driver.list_event_data("task.started") == []
    assert find_task_processes(call) == set()
    [bash] = [tool for tool in driver.requests[0].body["tools"] if tool["name"] == "Bash"]
    assert "run_in_background" not in bash["input_schema"]["properties"]
    assert "run_in_background" not in bash["description"]


def test_a_session_without_task_output_has_no_background_and_is_told_of_none(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(**SHORT)
    driver = harness.open_session(rules={"allow": ["Bash"]}, tools="minimal")
    harness.api.script(
        driver.name,
        message(calls("Bash", {"command": "true", "run_in_background": True})),
        message(calls("Bash", {"command": build_wait_command(Path("never"))})),
        message(says("Done.")),
    )
    driver.run_turn()
    refused, killed = (data["call"] for data in driver.list_event_data("tool.completed"))
    assert "run_in_background is off here" in driver.fetch_result_texts()[0]
    assert (refused["is_error"], killed["output"]["timed_out"]) == (True, True)
    assert driver.list_event_data("task.started") == []
    offered = {tool["name"]: tool for tool in driver.requests[0].body["tools"]}
    assert set(offered) == {"Bash", "Edit", "Read"}
    assert "run_in_background" not in offered["Bash"]["input_schema"]["properties"]
    words = json.dumps(list(offered.values()))
    absent = re.compile(r"\b(?:TaskOutput|TaskStop|Sleep|Monitor|Glob|Grep|Write|NotebookEdit)\b")
    assert absent.findall(words) == []


def test_in_assistant_mode_a_command_is_waited_for_fifteen_seconds(own_harness: Callable[..., Harness]) -> None:
    driver, call = run_call(own_harness(OSTLER_ASSISTANT="true"), {"command": build_wait_command(Path("go"))})
    task = driver.wait("task.started")["data"]["task"]
    assert (call["output"]["background_task_id"], call["output"]["backgrounded_by"]) == (task["id"], "budget")
    assert call["output"]["duration_ms"] >= 15_000
    assert "It was still running after 15 s, and goes on without you waiting." in driver.fetch_result_texts()[0]
    [bash] = [tool for tool in driver.requests[0].body["tools"] if tool["name"] == "Bash"]
    assert "if not given" not in bash["description"]
    assert "still runs after 15000 ms goes on" in bash["description"]
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["exit_code"] == 0


def test_what_the_model_sends_to_the_background_says_so(harness: Harness) -> None:
    driver, call = run_call(harness, {"command": "exit 0", "run_in_background": True})
    task = driver.wait("task.started")["data"]["task"]
    output = call["output"]
    assert (output["background_task_id"], output["backgrounded_by"]) == (task["id"], "model")
    assert (output["stdout"], output["stderr"], call["is_error"]) == ("", "", False)
    wait_for_task_end(driver, task)


def test_what_a_person_sent_to_the_background_outlives_the_daemon_too(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    command = f"echo begun; {build_wait_command(Path('go'))}; exit 6"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    call = driver.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(find_task_processes(call)))
    harness.daemon.call("tool/background", call_id=call["call_id"])
    driver.wait_for_turn_end(turn_id)
    task = driver.wait("task.started")["data"]["task"]
    wait_for_output(harness.daemon, task, "begun")
    harness.restart()
    assert harness.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    (driver.folder / "go").touch()
    over = wait_for_task_end(driver, task)
    assert (over["status"], over["exit_code"]) == ("failed", 6)

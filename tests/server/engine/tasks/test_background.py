"""Commands that go on behind their calls: started, watched, told of once, and found again after a restart."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.background_commands import ended, printed, processes_of, until
from tests.support.daemon import wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE
from tests.tools.shell.test_powershell import STAND_IN


def in_background(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command, "run_in_background": True}


def test_a_command_goes_on_behind_its_call(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    go = talk.folder / "go"
    command = f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo done"
    stage.api.script(talk.name, message(calls(*in_background(command))), message(says("It runs.")))
    turn = talk.turn()
    assert turn["reason"] == "completed"
    started = talk.wait("task.started")["data"]["task"]
    assert (started["type"], started["status"], started["command"]) == ("local_bash", "running", command)
    assert started["id"][0] == "b"
    assert len(started["id"]) == 9
    assert f"Running in background as {started['id']}" in talk.result_texts()[0]
    assert "begun" in talk.wait("task.output")["data"]["text"]
    go.write_text("")
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (started["id"], "completed", 0)


def test_the_model_is_told_once_of_the_end(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(
        talk.name,
        message(calls(*in_background("exit 3"))),
        message(says("It runs.")),
        message(says("I see.")),
        message(says("Yes.")),
    )
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["exit_code"]) == ("failed", 3)
    talk.turn("And now?")
    talk.turn("Again?")
    told = [text for text in _words_of_ours(talk) if task["id"] in text and "has failed (exit code 3)" in text]
    assert len(told) == 1


def _words_of_ours(talk: Talk) -> list[str]:
    texts = (
        block["text"]
        for one in talk.messages()
        if one["role"] == "user"
        for block in one["content"]
        if block["type"] == "text"
    )
    return [text for text in texts if text.startswith("<ostler-note>")]


def test_an_idle_session_is_woken_where_it_says_so(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]}, wake_on_task_end=True)
    go = talk.folder / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done"
    stage.api.script(
        talk.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I was woken."))
    )
    talk.turn()
    go.write_text("")
    woken = talk.ended()
    assert woken["result_text"] == "I was woken."


def test_a_deleted_session_takes_its_tasks_along(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(
        talk.name, message(calls(*in_background("echo $BASHPID >pid; sleep 1000"))), message(says("It runs."))
    )
    talk.turn()
    wait_until(lambda: (talk.folder / "pid").exists() and (talk.folder / "pid").read_text().strip())
    pid = int((talk.folder / "pid").read_text())
    stage.daemon.call("session/delete", session_id=talk.id)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    # What the calls of earlier tests printed is removed a moment later.
    wait_until(lambda: list((stage.daemon.home / "tasks").glob("*")) == [])


def test_a_task_outlives_the_daemon_and_is_found_again(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    go = talk.folder / "go"
    command = f"echo before; until [ -e {go} ]; do sleep 0.05; done; echo after; exit 7"
    stage.api.script(
        talk.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I see."))
    )
    talk.turn()
    task = talk.wait("task.started")["data"]["task"]
    stage.restart()
    go.write_text("")
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (task["id"], "failed", 7)
    talk.turn("And now?")
    assert any(task["id"] in text for text in _words_of_ours(talk))


def test_what_ended_while_no_daemon_ran_left_its_exit_code(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    go, gone = talk.folder / "go", talk.folder / "gone"
    command = f"trap 'echo >{gone}' EXIT; until [ -e {go} ]; do sleep 0.05; done"
    stage.api.script(talk.name, message(calls(*in_background(command))), message(says("It runs.")))
    talk.turn()
    stage.daemon.kill()
    go.write_text("")
    wait_until(gone.exists)
    wait_until(lambda: any(path.read_text().endswith("0\n") for path in (stage.daemon.home / "tasks").glob("*.end")))
    stage.daemon.start()
    talk.reconnect(0)
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)


def test_a_stray_file_of_a_crash_is_removed(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    stage.daemon.kill()
    stray = stage.daemon.home / "tasks" / "call-m_1#0-0123.out"
    stray.write_text("left")
    stage.daemon.start()
    wait_until(lambda: not stray.exists())
    assert os.path.isdir(stray.parent)


ALLOWED = {"allow": ["Bash", "PowerShell"]}


SHORT = {"BASH_DEFAULT_TIMEOUT_MS": "300"}


def ran(stage: Stage, given: Json, tool: str = "Bash") -> tuple[Talk, Json]:
    """A turn with one call, and that call."""
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, message(calls(tool, given)), otherwise=DONE)
    assert talk.turn()["reason"] == "completed"
    call: Json = talk.wait("tool.completed")["data"]["call"]
    return talk, call


# The blocking budget.


def test_a_command_without_a_limit_goes_on_behind_its_call(own_stage: Callable[..., Stage]) -> None:
    talk, call = ran(own_stage(**SHORT), {"command": "echo begun; until [ -e go ]; do sleep 0.05; done; exit 4"})
    task = talk.wait("task.started")["data"]["task"]
    output = call["output"]
    assert (output["background_task_id"], output["backgrounded_by"]) == (task["id"], "budget")
    assert (call["is_error"], output["timed_out"], output["exit_code"]) == (False, False, None)
    assert f"Running in background as {task['id']}. TaskOutput shows what it prints" in talk.result_texts()[0]
    assert "It was still running after 0.3 s, and goes on without you waiting." in talk.result_texts()[0]
    (talk.folder / "go").touch()
    assert ended(talk, task)["exit_code"] == 4


def test_a_limit_of_the_models_is_waited_out_and_then_kills(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(BASH_DEFAULT_TIMEOUT_MS="100")
    talk, call = ran(stage, {"command": until(Path("never")), "timeout": 2000})
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert call["output"]["duration_ms"] >= 2000
    assert talk.all("task.started") == []
    assert processes_of(call) == set()


@pytest.mark.parametrize(
    ("tool", "command"), [("Bash", "sleep 1.9"), ("Bash", "sleep 1 0.9"), ("PowerShell", "Start-Sleep 1.9")]
)
def test_what_only_sleeps_is_never_sent_to_the_background(
    own_stage: Callable[..., Stage], tmp_path: Path, tool: str, command: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (("pwsh", STAND_IN), ("Start-Sleep", '#!/bin/sh\nexec sleep "$@"\n')):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    stage = own_stage(**SHORT, PATH=f"{programs}:{os.environ['PATH']}")
    talk, call = ran(stage, {"command": command}, tool)
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert talk.all("task.started") == []


def test_where_the_background_is_off_it_is_killed_and_not_offered(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(**SHORT, OSTLER_DISABLE_BACKGROUND_TASKS="1")
    talk, call = ran(stage, {"command": until(Path("never"))})
    assert (call["is_error"], call["output"]["timed_out"]) == (True, True)
    assert talk.all("task.started") == []
    assert processes_of(call) == set()
    [bash] = [tool for tool in talk.requests[0].body["tools"] if tool["name"] == "Bash"]
    assert "run_in_background" not in bash["input_schema"]["properties"]
    assert "run_in_background" not in bash["description"]


def test_a_session_without_task_output_has_no_background_and_is_told_of_none(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(**SHORT)
    talk = stage.talk(rules={"allow": ["Bash"]}, tools="minimal")
    stage.api.script(
        talk.name,
        message(calls("Bash", {"command": "true", "run_in_background": True})),
        message(calls("Bash", {"command": until(Path("never"))})),
        message(says("Done.")),
    )
    talk.turn()
    refused, killed = (data["call"] for data in talk.all("tool.completed"))
    assert "run_in_background is off here" in talk.result_texts()[0]
    assert (refused["is_error"], killed["output"]["timed_out"]) == (True, True)
    assert talk.all("task.started") == []
    offered = {tool["name"]: tool for tool in talk.requests[0].body["tools"]}
    assert set(offered) == {"Bash", "Edit", "Read"}
    assert "run_in_background" not in offered["Bash"]["input_schema"]["properties"]
    words = json.dumps(list(offered.values()))
    absent = re.compile(r"\b(?:TaskOutput|TaskStop|Sleep|Monitor|Glob|Grep|Write|NotebookEdit)\b")
    assert absent.findall(words) == []


def test_in_assistant_mode_a_command_is_waited_for_fifteen_seconds(own_stage: Callable[..., Stage]) -> None:
    talk, call = ran(own_stage(OSTLER_ASSISTANT="true"), {"command": until(Path("go"))})
    task = talk.wait("task.started")["data"]["task"]
    assert (call["output"]["background_task_id"], call["output"]["backgrounded_by"]) == (task["id"], "budget")
    assert call["output"]["duration_ms"] >= 15_000
    assert "It was still running after 15 s, and goes on without you waiting." in talk.result_texts()[0]
    [bash] = [tool for tool in talk.requests[0].body["tools"] if tool["name"] == "Bash"]
    assert "if not given" not in bash["description"]
    assert "still runs after 15000 ms goes on" in bash["description"]
    (talk.folder / "go").touch()
    assert ended(talk, task)["exit_code"] == 0


def test_what_the_model_sends_to_the_background_says_so(stage: Stage) -> None:
    talk, call = ran(stage, {"command": "exit 0", "run_in_background": True})
    task = talk.wait("task.started")["data"]["task"]
    output = call["output"]
    assert (output["background_task_id"], output["backgrounded_by"]) == (task["id"], "model")
    assert (output["stdout"], output["stderr"], call["is_error"]) == ("", "", False)
    ended(talk, task)


def test_what_a_person_sent_to_the_background_outlives_the_daemon_too(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOWED)
    command = f"echo begun; {until(Path('go'))}; exit 6"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(processes_of(call)))
    stage.daemon.call("tool/background", call_id=call["call_id"])
    talk.ended(turn_id)
    task = talk.wait("task.started")["data"]["task"]
    printed(stage.daemon, task, "begun")
    stage.restart()
    assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    (talk.folder / "go").touch()
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", 6)

"""Commands and time, clause by clause: what goes behind its call, what is ended, and what is told of it."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_commands import ended, notes_about, printed, processes_of, talk_behind, until
from tests.support.daemon import wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says
from tests.tools.shell.test_powershell import STAND_IN

DONE = message(says("Done."))
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


def test_in_assistant_mode_a_tick_wakes_who_sleeps(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_ASSISTANT="true", OSTLER_TURNS__TICK_SECONDS="1")
    talk, call = ran(stage, {"seconds": 300}, "Sleep")
    assert call["output"]["woken_by"] == "tick"
    assert re.match(r"<tick>\w{3} \d{4}-\d\d-\d\d \d\d:\d\d</tick>\nWoken after ", talk.result_texts()[0])
    [sleep] = [tool for tool in talk.requests[0].body["tools"] if tool["name"] == "Sleep"]
    assert "After 1 seconds at the latest you get a `<tick>`" in sleep["description"]


def test_nothing_ticks_for_others(stage: Stage) -> None:
    talk, call = ran(stage, {"seconds": 0.1}, "Sleep")
    assert call["output"]["woken_by"] == "time"
    [sleep] = [tool for tool in talk.requests[0].body["tools"] if tool["name"] == "Sleep"]
    assert "tick" not in sleep["description"]


def test_of_a_long_output_both_ends_are_shown_and_all_of_it_is_kept(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "seq 1 100000; echo 'error: no oats'; exit 2")
    ended(talk, task)
    look = message(calls("TaskOutput", {"task_id": task["id"]}))
    stage.api.script(talk.name, DONE, DONE, look, otherwise=DONE)
    talk.turn()
    shown = talk.result_texts()[-1]
    assert shown.startswith("<persisted-output>\nOutput too large")
    assert f"{task['id']} failed (exit code 2): seq 1 100000" in shown
    assert shown.endswith("100000\nerror: no oats\n</persisted-output>")
    assert len(shown) < 3000
    kept = re.search(r"result://(\w+)", shown)
    assert kept is not None
    (line,) = stage.daemon.call("result/search", result_id=kept[1], pattern="^54321$")["lines"]
    assert line["text"] == "54321"


def test_a_task_tells_its_call_and_what_the_model_knows_of_it(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    start = calls("Bash", {"command": f"echo ready; {until(Path('go'))}", "run_in_background": True}, id="toolu_start")
    stage.api.script(talk.name, message(start), otherwise=DONE)
    talk.turn()
    task = talk.wait("task.started")["data"]["task"]
    assert (task["call_id"], task["tool_use_id"]) == (
        talk.wait("tool.completed")["data"]["call"]["call_id"],
        "toolu_start",
    )
    assert (task["output_offset"], task["notified"], task["paused_ms"]) == (0, False, 0)
    look = message(calls("TaskOutput", {"task_id": task["id"], "block": False}))
    wait_until(lambda: stage.daemon.call("task/get", task_id=task["id"])["output_bytes"] == len("ready\n"))
    stage.api.script(talk.name, DONE, DONE, look, otherwise=DONE)
    talk.turn()
    assert stage.daemon.call("task/get", task_id=task["id"])["output_offset"] == len("ready\n")
    (talk.folder / "go").touch()
    assert ended(talk, task)["notified"] is False
    assert stage.daemon.call("task/get", task_id=task["id"])["notified"] is False
    talk.turn()
    [known] = stage.daemon.call("task/list", session_id=talk.id)["tasks"]
    assert (known["notified"], known["status"]) == (True, "completed")


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


# While it runs, and when it is stopped.


def test_progress_is_told_and_not_stored(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = f"echo one; echo two; {until(Path('go'))}"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    event = talk.wait("tool.progress")
    assert event["cursor"] is None
    told = event["data"]
    assert (told["call_id"], told["kind"]) == (call["call_id"], "shell")
    assert told["elapsed_ms"] >= 2000
    assert told["data"] == {"output": "one\ntwo\n", "lines": 2}
    (talk.folder / "go").touch()
    talk.ended(turn_id)


def test_an_interrupt_gives_what_was_printed_so_far(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "echo half of it; touch ready; sleep 1000"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})))
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    [text] = talk.result_texts()
    assert text.startswith("<tool_use_error>Interrupted by the person before it was finished.")
    # The shell may say of its child that it was terminated.
    assert "\nIt had printed:\nhalf of it" in text
    output = talk.all("tool.completed")[0]["call"]["output"]
    assert output["stdout"].startswith("half of it\n")
    assert (output["interrupted"], output["exit_code"], output["timed_out"]) == (True, None, False)


def test_what_was_printed_before_an_interrupt_is_shown_as_at_an_end(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'; seq 1 20000; touch ready; sleep 1000"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})))
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    [text] = talk.result_texts()
    # As long as it is, its beginning and its end are shown, and all of it is kept.
    assert "It had printed:\nred\n100%\n1\n2\n3\n" in text
    assert "\n19999\n20000" in text
    call = talk.all("tool.completed")[0]["call"]
    whole = stage.daemon.call("result/read", result_id=call["result_id"], limit_chars=200_000)["content"]
    lines = whole.removesuffix("</tool_use_error>").splitlines()
    assert lines[-20_000:] == [str(number) for number in range(1, 20_001)]


def test_a_command_in_front_prints_to_a_file_from_its_start(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = f"echo half of it; touch ready; {until(Path('go'))}"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    wait_until((talk.folder / "ready").exists)
    [path] = (stage.daemon.home / "tasks").glob(f"call-{call['call_id']}-*.out")
    assert path.read_text() == "half of it\n"
    assert path.stat().st_mode & 0o777 == 0o600
    (talk.folder / "go").touch()
    talk.ended(turn_id)
    wait_until(lambda: not path.exists())


# The registry.


def test_a_task_has_the_shape_that_the_protocol_promises(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "exit 3")
    assert list(task) == [
        "id", "type", "status", "description", "session_id", "agent_id", "call_id", "tool_use_id", "command",
        "resource", "exit_code", "error", "started_at", "ended_at", "paused_ms", "output_bytes", "output_offset",
        "notified",
    ]  # fmt: skip
    assert re.fullmatch("b[0-9a-z]{8}", task["id"])
    assert (task["session_id"], task["agent_id"], task["command"]) == (talk.id, None, "exit 3")
    assert (task["status"], task["exit_code"], task["ended_at"]) == ("running", None, None)
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", 3)
    assert over["ended_at"] >= over["started_at"] == task["started_at"]


def test_an_end_wakes_nobody_who_does_not_want_it(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")))
    requests = len(talk.requests)
    (talk.folder / "go").touch()
    ended(talk, task)
    # What comes after it on the same stream is the proof: nothing began in between.
    stage.daemon.call("session/update", session_id=talk.id, metadata={"later": 1})
    talk.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert talk.types("turn.started") == ["turn.started"]
    assert (len(talk.requests), notes_about(talk, task)) == (requests, [])


def test_an_end_is_told_to_clients_once_whatever_daemons_come_after_it(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, "exit 0")
    ended(talk, task)
    stage.restart()
    stage.restart()
    stage.daemon.call("session/update", session_id=talk.id, metadata={"later": 1})
    talk.seen.clear()
    talk._returned.clear()
    talk.reconnect(0)
    talk.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert talk.types("task.ended") == ["task.ended"]


def test_a_task_of_another_kind_of_end_says_which(stage: Stage) -> None:
    expected: list[tuple[str, tuple[Any, ...]]] = [
        ("exit 0", ("completed", 0, None)),
        ("exit 1", ("failed", 1, None)),
        ("grep x /dev/null", ("failed", 1, None)),
        ("kill -KILL $$", ("failed", None, "ended by SIGKILL")),
    ]
    talk, tasks = talk_behind(stage, *(command for command, _ in expected))
    for task, (_, facts) in zip(tasks, expected, strict=True):
        over = ended(talk, task)
        assert (over["status"], over["exit_code"], over["error"]) == facts

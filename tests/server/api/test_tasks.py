"""`task/list`, `get`, `output`, `wait`, `stop`; `tool/background`; `turn/interrupt` with `tasks`."""

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_commands import LONG, ended, printed, processes_of, talk_behind, until
from tests.support.daemon import wait_until
from tests.support.driver import Beside, Stage, seconds_of
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE


def test_tasks_are_listed_oldest_first_page_by_page_and_by_status(stage: Stage) -> None:
    talk, (first, second, third) = talk_behind(stage, LONG, "true", LONG)
    ended(talk, second)

    def ids(**wanted: object) -> list[str]:
        return [task["id"] for task in stage.daemon.call("task/list", session_id=talk.id, **wanted)["tasks"]]

    assert ids() == [first["id"], second["id"], third["id"]]
    assert ids(status="running") == [first["id"], third["id"]]
    assert ids(status="completed") == [second["id"]]
    assert ids(status="killed") == []
    page = stage.daemon.call("task/list", session_id=talk.id, limit=2)
    rest = stage.daemon.call("task/list", session_id=talk.id, limit=2, page=page["next"])
    assert [task["id"] for task in page["tasks"] + rest["tasks"]] == ids()
    assert rest["next"] is None


def test_a_list_without_a_session_has_everybodys_tasks(stage: Stage) -> None:
    _, (mine,) = talk_behind(stage, LONG)
    _, (other,) = talk_behind(stage, LONG)
    listed = [task["id"] for task in stage.daemon.call("task/list", status="running", limit=500)["tasks"]]
    assert listed == [mine["id"], other["id"]]
    assert stage.daemon.call("server/stats")["tasks"] == 2


def test_the_tasks_of_an_agent_are_listed_with_those_of_its_session(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    parent, (first,) = talk_behind(stage, "true")
    agent, (second,) = talk_behind(stage, "true")
    ended(parent, first)
    ended(agent, second)
    assert stage.daemon.stop() == 0
    with sqlite3.connect(stage.daemon.home / "ostler.db") as database:
        database.execute(
            "UPDATE sessions SET parent_id = ?, root_id = ? WHERE id = ?", (parent.id, parent.id, agent.id)
        )
    database.close()
    stage.daemon.start()

    def listed(session_id: str) -> list[str]:
        return [task["id"] for task in stage.daemon.call("task/list", session_id=session_id)["tasks"]]

    assert listed(parent.id) == [first["id"], second["id"]]
    assert listed(agent.id) == [second["id"]]


@pytest.mark.parametrize("method", ["task/get", "task/output", "task/wait", "task/stop"])
def test_an_unknown_task_is_said_so(stage: Stage, method: str) -> None:
    assert stage.daemon.error(method, task_id="b00000000")["data"]["code"] == "task_not_found"


def test_the_tasks_of_an_unknown_session_are_no_empty_list(stage: Stage) -> None:
    assert stage.daemon.error("task/list", session_id="s_none")["data"]["code"] == "session_not_found"


def test_a_task_is_read_while_it_runs_and_after(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "echo one; until [ -e go ]; do sleep 0.05; done; echo two")
    printed(stage.daemon, task, "one\n")
    part = stage.daemon.call("task/output", task_id=task["id"])
    assert (part["output"], part["next_offset"], part["task"]["status"]) == ("one\n", 4, "running")
    assert part["task"]["output_bytes"] == 4
    assert stage.daemon.call("task/get", task_id=task["id"]) == part["task"]
    assert stage.daemon.call("task/output", task_id=task["id"], offset=4)["output"] == ""
    (talk.folder / "go").touch()
    assert ended(talk, task)["output_bytes"] == 8
    part = stage.daemon.call("task/output", task_id=task["id"], offset=4)
    assert (part["output"], part["next_offset"], part["task"]["status"]) == ("two\n", 8, "completed")


def test_a_character_that_is_half_printed_waits_for_its_other_half(stage: Stage) -> None:
    command = r"printf 'a\303'; until [ -e go ]; do sleep 0.05; done; printf '\244\342\202'"
    talk, (task,) = talk_behind(stage, command)
    wait_until(lambda: stage.daemon.call("task/get", task_id=task["id"])["output_bytes"] == 2)
    part = stage.daemon.call("task/output", task_id=task["id"])
    assert (part["output"], part["next_offset"]) == ("a", 1)
    (talk.folder / "go").touch()
    ended(talk, task)
    told = [each["text"] for each in talk.all("task.output") if each["task_id"] == task["id"]]
    # What will never be whole is shown as what it is.
    assert "".join(told) == "aä\ufffd"
    part = stage.daemon.call("task/output", task_id=task["id"], offset=1)
    assert (part["output"], part["next_offset"]) == ("ä\ufffd", 5)


def test_output_in_small_parts_adds_up_and_cuts_no_character(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "for i in {1..50}; do printf 'aä€😀'; done")
    ended(talk, task)
    text, place = "", 0
    while (part := stage.daemon.call("task/output", task_id=task["id"], offset=place, limit=17))["output"]:
        assert part["offset"] == place
        text, place = text + part["output"], part["next_offset"]
    assert text == "aä€😀" * 50
    assert place == part["task"]["output_bytes"] == 500


def test_bytes_that_are_no_text_are_shown_as_such_and_do_no_harm(stage: Stage) -> None:
    command = 'for i in {0..255}; do printf "\\\\x$(printf %x $i)"; done; head -c 5000 /dev/urandom'
    talk, (task,) = talk_behind(stage, command)
    assert ended(talk, task)["status"] == "completed"
    part = stage.daemon.call("task/output", task_id=task["id"])
    assert part["next_offset"] == 5256
    assert part["output"].startswith("\x00\x01\x02")
    assert "\ufffd" in part["output"]


def test_whoever_waits_gets_the_task_when_it_is_over(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "until [ -e go ]; do sleep 0.05; done; exit 9")
    assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=50)["status"] == "running"
    waiting = Beside(lambda: stage.daemon.call("task/wait", task_id=task["id"]))
    (talk.folder / "go").touch()
    over = waiting.result()
    assert (over["status"], over["exit_code"], over["error"]) == ("failed", 9, None)
    assert over["ended_at"] >= over["started_at"]
    assert stage.daemon.call("task/wait", task_id=task["id"]) == over


def test_a_client_that_leaves_and_a_daemon_that_stops_do_not_wait_for_a_task(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    _, (task,) = talk_behind(stage, LONG)
    waiting = {"jsonrpc": "2.0", "id": 1, "method": "task/wait", "params": {"task_id": task["id"]}}
    connection = stage.daemon.connection()
    headers = {"Authorization": f"Bearer {stage.daemon.token}", "Content-Type": "application/json"}
    connection.request("POST", "/rpc", json.dumps(waiting), headers)
    assert seconds_of(lambda: stage.daemon.stop() == 0) < 10
    connection.close()
    stage.daemon.start()
    assert stage.daemon.call("task/stop", task_id=task["id"])["status"] == "killed"


def test_a_stopped_task_is_killed_with_all_that_it_started_and_stays_so(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "sleep 1000 & sleep 1001 & echo begun; wait")
    printed(stage.daemon, task, "begun")
    assert len(processes_of(task)) >= 3
    stopped = stage.daemon.call("task/stop", task_id=task["id"])
    assert (stopped["status"], stopped["error"]) == ("killed", "It was stopped by the person.")
    assert processes_of(task) == set()
    assert ended(talk, task) == stopped
    assert stage.daemon.call("task/stop", task_id=task["id"]) == stopped
    assert talk.types("task.ended") == ["task.ended"]


def test_stopping_what_is_over_changes_nothing(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "exit 3")
    over = ended(talk, task)
    assert stage.daemon.call("task/stop", task_id=task["id"]) == over


# Sending a command to the background.


def test_a_running_command_goes_on_in_the_background_and_its_turn_with_it(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = f"echo begun; {until(talk.folder / 'go')}; echo done"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), message(says("On we go.")))
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(processes_of(call)))
    assert stage.daemon.call("tool/background", call_id=call["call_id"])["call_id"] == call["call_id"]
    assert talk.ended(turn_id)["result_text"] == "On we go."
    task = talk.wait("task.started")["data"]["task"]
    assert (task["call_id"], task["command"]) == (call["call_id"], command)
    completed = talk.wait("tool.completed")["data"]["call"]
    assert completed["output"]["background_task_id"] == task["id"]
    assert completed["output"]["backgrounded_by"] == "user"
    (talk.folder / "go").touch()
    assert ended(talk, task)["status"] == "completed"
    assert stage.daemon.call("task/output", task_id=task["id"])["output"] == "begun\ndone\n"


def test_only_a_command_that_runs_can_go_to_the_background(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("g")})), message(says("Done.")))
    turn_id = talk.start()
    talk.at_gate("g")
    call = talk.wait("tool.started")["data"]["call"]
    assert stage.daemon.error("tool/background", call_id=call["call_id"])["data"]["code"] == "conflict"
    talk.open_gate("g")
    talk.ended(turn_id)
    assert stage.daemon.error("tool/background", call_id=call["call_id"])["data"]["code"] == "no_turn_running"
    assert stage.daemon.error("tool/background", call_id="m_none#0")["data"]["code"] == "call_not_found"


def test_a_command_that_only_sleeps_is_not_sent_to_the_background_by_a_person(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(talk.name, message(calls("Bash", {"command": "sleep ${PAUSE-1000}"})), message(says("Done.")))
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    wait_until(lambda: bool(processes_of(call)))
    error = stage.daemon.error("tool/background", call_id=call["call_id"])
    assert (error["data"]["code"], "does nothing but sleep" in error["message"]) == ("conflict", True)
    stage.daemon.call("tool/cancel", call_id=call["call_id"])
    talk.ended(turn_id)
    assert talk.all("task.started") == []


# Settings.


def test_the_setting_and_the_variable_switch_the_background_off(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_DISABLE_BACKGROUND_TASKS="1")
    found = stage.daemon.call("config/get", key="tools.background")
    assert (found["value"], found["source"]) == (False, "environment")
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = until(talk.folder / "go")
    stage.api.script(
        talk.name,
        message(calls("Bash", {"command": "true", "run_in_background": True})),
        message(calls("Bash", {"command": command})),
        message(says("Done.")),
    )
    turn_id = talk.start()
    talk.wait("tool.completed", lambda data: data["call"]["is_error"])
    call = talk.wait("tool.started", lambda data: data["call"]["input"].get("command") == command)["data"]["call"]
    error = stage.daemon.error("tool/background", call_id=call["call_id"])
    assert (error["data"]["code"], "config.toml" in error["message"]) == ("conflict", True)
    (talk.folder / "go").touch()
    talk.ended(turn_id)
    assert talk.all("task.started") == []


def test_background_tasks_can_be_switched_off_and_on_while_the_daemon_runs(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    stage.api.may_rewrite = True  # the tools are others then
    stage.daemon.call("config/set", key="tools.background", value=False)
    talk = stage.talk(rules={"allow": ["Bash"]})
    background = message(calls("Bash", {"command": "true", "run_in_background": True}))
    stage.api.script(talk.name, background, message(says("No?")), background, message(says("Yes.")))
    talk.turn()
    assert talk.wait("tool.completed")["data"]["call"]["is_error"]
    stage.daemon.call("config/set", key="tools.background", value=True)
    talk.turn()
    assert not talk.wait("tool.completed")["data"]["call"]["is_error"]
    talk.wait("task.started")


# Interrupts.


def test_an_interrupt_ends_the_tasks_of_its_turn_only_where_it_is_asked_for(stage: Stage) -> None:
    talk, (older,) = talk_behind(stage, LONG)
    for wanted in (False, True):
        gate = f"gate-{wanted}"
        stage.api.script(
            talk.name,
            otherwise=message(
                calls("Bash", {"command": LONG, "run_in_background": True}),
                calls("Gate", {"path": talk.gate(gate)}),
            ),
        )
        turn_id = talk.start()
        talk.at_gate(gate)
        task = talk.wait("task.started")["data"]["task"]
        stage.daemon.call("turn/interrupt", turn_id=turn_id, tasks=wanted)
        assert talk.ended(turn_id)["reason"] == "interrupted"
        if wanted:
            assert ended(talk, task)["error"] == "It was stopped together with its turn."
            assert processes_of(task) == set()
        else:
            assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
            assert processes_of(task)
    assert stage.daemon.call("task/get", task_id=older["id"])["status"] == "running"


ALLOWED = {"allow": ["Bash", "PowerShell"]}


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

"""Tasks that are many, that do not want to end, and that leave things: nothing of them stays behind."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.background_commands import (
    LONG,
    descriptors,
    ended,
    printed,
    processes_of,
    talk_behind,
)
from tests.support.daemon import wait_until
from tests.support.driver import Beside, Json, Stage, Talk, is_gone
from tests.support.messages_api.replies import calls, message

_MANY: Final = 100


def test_a_hundred_tasks_that_print_at_once_hold_nobody_up_and_leave_nothing(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    warm, (first,) = talk_behind(stage, "true")
    ended(warm, first)
    stage.daemon.call("session/delete", session_id=warm.id)
    before = descriptors(stage.daemon)
    command = "until [ -e go ]; do sleep 0.1; done; for i in {1..200}; do echo line $i of many; done"
    talk, tasks = talk_behind(stage, *[command] * _MANY)
    assert stage.daemon.call("server/stats")["tasks"] == _MANY
    (talk.folder / "go").touch()
    slowest = 0.0
    while stage.daemon.call("server/stats")["tasks"]:
        began = time.monotonic()
        assert stage.daemon.http("GET", "/healthz").status == 200
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 3.0  # a busy machine holds everybody up a little
    over = stage.daemon.call("task/list", session_id=talk.id, limit=500)["tasks"]
    assert {(task["status"], task["output_bytes"]) for task in over} == {("completed", over[0]["output_bytes"])}
    last = stage.daemon.call("task/output", task_id=tasks[-1]["id"])["output"]
    assert last == "".join(f"line {number} of many\n" for number in range(1, 201))
    assert not any(processes_of(task) for task in tasks)
    stage.daemon.call("session/delete", session_id=talk.id)
    assert list((stage.daemon.home / "tasks").iterdir()) == []
    talk.stream.close()
    wait_until(lambda: descriptors(stage.daemon) <= before)


def test_a_task_that_ignores_sigterm_is_killed(stage: Stage) -> None:
    _, (task,) = talk_behind(stage, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    printed(stage.daemon, task, "ready")
    assert stage.daemon.call("task/stop", task_id=task["id"])["status"] == "killed"
    assert processes_of(task) == set()


def test_children_that_left_the_group_end_with_their_task(stage: Stage) -> None:
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
    talk, (task,) = talk_behind(stage, f"{leaving} wait")
    child = int(talk.written("child"))
    stage.daemon.call("task/stop", task_id=task["id"])
    wait_until(lambda: is_gone(child))


def test_what_a_task_leaves_running_at_its_own_end_is_ended(stage: Stage) -> None:
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
    talk, (task,) = talk_behind(stage, f"{leaving} until [ -s child ]; do sleep 0.05; done")
    assert ended(talk, task)["status"] == "completed"
    assert is_gone(int(talk.written("child")))
    assert processes_of(task) == set()


def test_a_task_is_stopped_in_the_middle_of_printing(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "while :; do echo an endless line; done")
    talk.wait("task.output")
    stopped = stage.daemon.call("task/stop", task_id=task["id"])
    assert stopped["status"] == "killed"
    assert stopped["output_bytes"] > 0
    part = stage.daemon.call("task/output", task_id=task["id"], offset=stopped["output_bytes"])
    assert (part["output"], part["task"]) == ("", stopped)
    assert processes_of(task) == set()


def test_a_signal_from_elsewhere_is_said_by_its_name(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "kill -SEGV $BASHPID")
    over = ended(talk, task)
    assert (over["status"], over["error"]) == ("failed", "ended by SIGSEGV")


def test_an_interrupt_of_a_later_turn_does_not_touch_a_task(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, LONG)
    turn_id = _turn_at_a_gate(stage, talk)
    stage.daemon.call("turn/interrupt", turn_id=turn_id, tasks=True)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert stage.daemon.call("task/get", task_id=task["id"])["status"] == "running"
    assert processes_of(task)


def _turn_at_a_gate(stage: Stage, talk: Talk) -> str:
    stage.api.script(talk.name, otherwise=message(calls("Gate", {"path": talk.gate("g")})))
    turn_id = talk.start()
    talk.at_gate("g")
    return turn_id


def test_a_fork_has_no_tasks_and_the_first_keeps_its_own(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, LONG)
    fork = stage.daemon.call("session/fork", session_id=talk.id)
    assert stage.daemon.call("task/list", session_id=fork["id"])["tasks"] == []
    stage.daemon.call("session/delete", session_id=fork["id"])
    assert stage.daemon.call("task/get", task_id=task["id"])["status"] == "running"


def test_a_deleted_session_takes_finished_and_running_tasks_along(stage: Stage) -> None:
    talk, (over, running) = talk_behind(stage, "echo done", f"echo begun; {LONG}")
    ended(talk, over)
    printed(stage.daemon, running, "begun")
    assert _files_of(stage, over)
    stage.daemon.call("session/delete", session_id=talk.id)
    assert processes_of(running) == set()
    for task in (over, running):
        assert stage.daemon.error("task/get", task_id=task["id"])["data"]["code"] == "task_not_found"
        assert _files_of(stage, task) == []


def _files_of(stage: Stage, task: Json) -> list[Path]:
    return [path for path in (stage.daemon.home / "tasks").iterdir() if task["call_id"] in path.name]


def test_whoever_waits_for_a_task_of_a_deleted_session_is_told_so(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, LONG)
    waiting = Beside(lambda: stage.daemon.rpc("task/wait", {"task_id": task["id"]}))
    stage.daemon.call("session/delete", session_id=talk.id)
    answer = waiting.result()
    assert answer.get("error", {}).get("data", {}).get("code") == "task_not_found" or (
        answer["result"]["status"] == "killed"
    )

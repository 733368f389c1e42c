"""TaskOutput, TaskStop and Sleep in real turns: on tasks of the session, under old names, and woken by what happens."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.support.daemon import wait_until
from tests.support.driver import Beside, Json, Stage, Talk, no_children
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

ALLOWED = {"allow": ["Bash"]}


def in_background(command: str) -> Reply:
    return message(calls("Bash", {"command": command, "run_in_background": True}))


def on_task(tool: str, name: str = "task_id", **given: Any) -> Callable[[Recorded], Reply]:
    """A call about the task that the conversation named last."""

    def step(request: Recorded) -> Reply:
        found = re.findall(r"(?:background|Monitoring) as (\w{9})", json.dumps(request.messages))
        return message(calls(tool, {name: found[-1], **given}))

    return step


def last_call(talk: Talk) -> dict[str, Any]:
    call: dict[str, Any] = talk.all("tool.completed")[-1]["call"]
    return call


def until_there(path: object, then: str = "") -> str:
    return f"until [ -e {path} ]; do sleep 0.05; done; {then}"


def test_output_waits_for_the_end_and_gives_what_was_printed(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    go = talk.folder / "go"
    stage.api.script(
        talk.name, in_background(f"echo begun; {until_there(go, 'echo over; exit 3')}"), on_task("TaskOutput"), DONE
    )
    talk.start()
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    go.touch()
    talk.ended()
    task_id = talk.wait("task.started")["data"]["task"]["id"]
    assert talk.result_texts()[1] == f"{task_id} failed (exit code 3): {_description(talk)}\nbegun\nover"
    output = last_call(talk)["output"]
    assert output["retrieval_status"] == "success"
    assert (output["task"]["status"], output["task"]["exit_code"]) == ("failed", 3)


def _description(talk: Talk) -> str:
    return str(talk.all("task.started")[0]["task"]["description"])


def test_each_piece_of_output_is_given_once(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    go = talk.folder / "go"
    stage.api.script(
        talk.name,
        in_background(f"echo one; {until_there(go, 'echo two')}"),
        DONE,
        on_task("TaskOutput", block=False),
        DONE,
        on_task("TaskOutput"),
        on_task("TaskOutput"),
        DONE,
    )
    talk.turn()
    talk.wait("task.output", lambda data: "one" in data["text"])
    talk.turn("Look.")
    assert last_call(talk)["output"]["task"]["output"] == "one\n"
    assert last_call(talk)["output"]["retrieval_status"] == "not_ready"
    go.touch()
    talk.turn("Look again.")
    assert [call["call"]["output"]["task"]["output"] for call in talk.all("tool.completed")[2:]] == ["two\n", ""]


def test_output_gives_up_after_its_time(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(
        talk.name, in_background(until_there("never")), on_task("TaskOutput", timeout=100), on_task("TaskStop"), DONE
    )
    talk.turn()
    assert "It was still running after the time." in talk.result_texts()[1]


def test_called_as_bashoutput_it_answers_at_once(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, in_background(until_there("never")), on_task("BashOutput", "bash_id"), DONE)
    talk.turn()
    call = last_call(talk)
    assert (call["tool"], call["output"]["retrieval_status"]) == ("TaskOutput", "not_ready")
    assert call["input"]["block"] is False
    assert call["decision"]["by"] == "read_only"


def test_a_filter_leaves_an_unfinished_line_for_the_next_look(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    go = talk.folder / "go"
    command = f"echo error 1; echo fine; printf 'error '; {until_there(go, 'echo 2')}"
    stage.api.script(
        talk.name,
        in_background(command),
        DONE,
        on_task("TaskOutput", block=False, filter="error"),
        DONE,
        on_task("TaskOutput", filter=r"^error \d$"),
        DONE,
    )
    talk.turn()
    talk.wait("task.output", lambda data: data["text"].endswith("error "))
    talk.turn("Look.")
    assert last_call(talk)["output"]["task"]["output"] == "error 1\n"
    go.touch()
    talk.turn("Look again.")
    assert last_call(talk)["output"]["task"]["output"] == "error 2\n"


def test_a_session_knows_nothing_of_the_tasks_of_its_neighbours(stage: Stage) -> None:
    owner = stage.talk(in_background(until_there("never")), DONE, rules=ALLOWED)
    owner.turn()
    task_id = owner.wait("task.started")["data"]["task"]["id"]
    other = stage.talk(
        message(calls("TaskOutput", {"task_id": task_id}), calls("TaskStop", {"task_id": task_id})), DONE
    )
    other.turn()
    expected = f"<tool_use_error>There is no task '{task_id}' in this session. It has no tasks.</tool_use_error>"
    assert other.result_texts() == [expected, expected]


def test_a_task_is_stopped_with_all_that_it_started(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "sleep 1000 & echo $! >pid; wait"
    stage.api.script(talk.name, in_background(command), on_task("KillShell", "shell_id"), on_task("TaskStop"), DONE)
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "It was stopped with TaskStop.")
    stopped, again = talk.result_texts()[1:]
    assert stopped == f"Stopped {task['id']}: {command}"
    assert again == f"<tool_use_error>{task['id']} is not running: it is killed already.</tool_use_error>"
    output = talk.all("tool.completed")[1]["call"]["output"]
    assert (output["task_id"], output["task_type"], output["command"]) == (task["id"], "local_bash", command)


def test_the_end_of_a_task_wakes_a_sleep_and_is_told_with_it(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    go = talk.folder / "go"
    stage.api.script(
        talk.name,
        in_background(until_there(go)),
        message(calls("Sleep", {"seconds": 300, "reason": "the build"})),
        DONE,
    )
    talk.start()
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    go.touch()
    talk.ended()
    call = last_call(talk)
    assert (call["summary"], call["output"]["woken_by"]) == ("Sleep up to 300 s: the build", "task")
    assert call["decision"]["behavior"] == "allow"
    told = json.dumps(talk.messages()[-2]["content"])
    assert "a background task has ended." in told
    assert "is done" in told


def test_further_input_wakes_a_sleep(stage: Stage) -> None:
    talk = stage.talk(message(calls("Sleep", {"seconds": 300})), DONE)
    turn_id = talk.start()
    talk.wait("tool.started")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="Wake up!")
    assert talk.ended()["reason"] == "completed"
    assert last_call(talk)["output"]["woken_by"] == "message"
    assert "Wake up!" in json.dumps(talk.messages()[-2]["content"])


def test_what_happened_while_the_model_spoke_wakes_a_sleep_at_once(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    go, ended = talk.folder / "go", talk.folder / "ended"

    def sleep(request: Recorded) -> Reply:
        # The task ends now, when it is too late for this request to bring the news.
        go.touch()
        wait_until(ended.exists)
        return message(calls("Sleep", {"seconds": 300}))

    stage.api.script(talk.name, in_background(until_there(go)), sleep, DONE)
    following = Beside(lambda: talk.wait("task.ended"))
    talk.start()
    following.result()
    ended.touch()
    talk.ended()
    assert last_call(talk)["output"]["woken_by"] == "task"


def test_an_interrupt_ends_a_sleep(stage: Stage) -> None:
    talk = stage.talk(message(calls("Sleep", {"seconds": 300})))
    turn_id = talk.start()
    talk.wait("tool.started")
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"


def test_sleeps_run_beside_each_other_without_a_process(stage: Stage) -> None:
    talk = stage.talk(message(calls("Sleep", {"seconds": 300}), calls("Sleep", {"seconds": 0.1})), DONE)
    turn_id = talk.start()
    talk.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#1"))
    assert [place for kind, place in talk.call_events() if kind == "completed"] == [1], "the longer one goes on"
    no_children(stage.daemon)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="Wake up!")
    talk.ended(turn_id)
    assert [call["call"]["output"]["woken_by"] for call in talk.all("tool.completed")] == ["time", "message"]
    assert re.fullmatch(r"Slept for \d+(\.\d)? s: nothing has happened\.", talk.result_texts()[1])


SHELLS_ALLOWED = {"allow": ["Bash", "PowerShell"]}


def ran(stage: Stage, given: Json, tool: str = "Bash") -> tuple[Talk, Json]:
    """A turn with one call, and that call."""
    talk = stage.talk(rules=SHELLS_ALLOWED)
    stage.api.script(talk.name, message(calls(tool, given)), otherwise=DONE)
    assert talk.turn()["reason"] == "completed"
    call: Json = talk.wait("tool.completed")["data"]["call"]
    return talk, call


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

"""TaskOutput, TaskStop and Sleep in real turns: on tasks of the session, under old names, and woken by what happens."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.support.background_commands import run_call
from tests.support.daemon import wait_until
from tests.support.driver import BackgroundThread, Harness, SessionDriver, expect_no_children
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

ALLOWED = {"allow": ["Bash"]}


def in_background(command: str) -> Reply:
    return message(calls("Bash", {"command": command, "run_in_background": True}))


def on_task(tool: str, name: str = "task_id", **given: Any) -> Callable[[RecordedRequest], Reply]:
    """A call about the task that the conversation named last."""

    def step(request: RecordedRequest) -> Reply:
        found = re.findall(r"(?:background|Monitoring) as (\w{9})", json.dumps(request.messages))
        return message(calls(tool, {name: found[-1], **given}))

    return step


def get_last_call(driver: SessionDriver) -> dict[str, Any]:
    call: dict[str, Any] = driver.list_event_data("tool.completed")[-1]["call"]
    return call


def make_wait_command(path: object, then: str = "") -> str:
    return f"until [ -e {path} ]; do sleep 0.05; done; {then}"


def test_output_waits_for_the_end_and_gives_what_was_printed(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    go = driver.folder / "go"
    harness.api.script(
        driver.name,
        in_background(f"echo begun; {make_wait_command(go, 'echo over; exit 3')}"),
        on_task("TaskOutput"),
        DONE,
    )
    driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    go.touch()
    driver.wait_for_turn_end()
    task_id = driver.wait("task.started")["data"]["task"]["id"]
    assert driver.fetch_result_texts()[1] == f"{task_id} failed (exit code 3): {_get_description(driver)}\nbegun\nover"
    output = get_last_call(driver)["output"]
    assert output["retrieval_status"] == "success"
    assert (output["task"]["status"], output["task"]["exit_code"]) == ("failed", 3)


def _get_description(driver: SessionDriver) -> str:
    return str(driver.list_event_data("task.started")[0]["task"]["description"])


def test_each_piece_of_output_is_given_once(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    go = driver.folder / "go"
    harness.api.script(
        driver.name,
        in_background(f"echo one; {make_wait_command(go, 'echo two')}"),
        DONE,
        on_task("TaskOutput", block=False),
        DONE,
        on_task("TaskOutput"),
        on_task("TaskOutput"),
        DONE,
    )
    driver.run_turn()
    driver.wait("task.output", lambda data: "one" in data["text"])
    driver.run_turn("Look.")
    assert get_last_call(driver)["output"]["task"]["output"] == "one\n"
    assert get_last_call(driver)["output"]["retrieval_status"] == "not_ready"
    go.touch()
    driver.run_turn("Look again.")
    assert [call["call"]["output"]["task"]["output"] for call in driver.list_event_data("tool.completed")[2:]] == [
        "two\n",
        "",
    ]


def test_output_gives_up_after_its_time(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(
        driver.name,
        in_background(make_wait_command("never")),
        on_task("TaskOutput", timeout=100),
        on_task("TaskStop"),
        DONE,
    )
    driver.run_turn()
    assert "It was still running after the time." in driver.fetch_result_texts()[1]


def test_called_as_bashoutput_it_answers_at_once(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(driver.name, in_background(make_wait_command("never")), on_task("BashOutput", "bash_id"), DONE)
    driver.run_turn()
    call = get_last_call(driver)
    assert (call["tool"], call["output"]["retrieval_status"]) == ("TaskOutput", "not_ready")
    assert call["input"]["block"] is False
    assert call["decision"]["by"] == "read_only"


def test_a_filter_leaves_an_unfinished_line_for_the_next_look(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    go = driver.folder / "go"
    command = f"echo error 1; echo fine; printf 'error '; {make_wait_command(go, 'echo 2')}"
    harness.api.script(
        driver.name,
        in_background(command),
        DONE,
        on_task("TaskOutput", block=False, filter="error"),
        DONE,
        on_task("TaskOutput", filter=r"^error \d$"),
        DONE,
    )
    driver.run_turn()
    driver.wait("task.output", lambda data: data["text"].endswith("error "))
    driver.run_turn("Look.")
    assert get_last_call(driver)["output"]["task"]["output"] == "error 1\n"
    go.touch()
    driver.run_turn("Look again.")
    assert get_last_call(driver)["output"]["task"]["output"] == "error 2\n"


def test_a_session_knows_nothing_of_the_tasks_of_its_neighbours(harness: Harness) -> None:
    owner = harness.open_session(in_background(make_wait_command("never")), DONE, rules=ALLOWED)
    owner.run_turn()
    task_id = owner.wait("task.started")["data"]["task"]["id"]
    other = harness.open_session(
        message(calls("TaskOutput", {"task_id": task_id}), calls("TaskStop", {"task_id": task_id})), DONE
    )
    other.run_turn()
    expected = f"<tool_use_error>There is no task '{task_id}' in this session. It has no tasks.</tool_use_error>"
    assert other.fetch_result_texts() == [expected, expected]


def test_a_task_is_stopped_with_all_that_it_started(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    command = "sleep 1000 & echo $! >pid; wait"
    harness.api.script(driver.name, in_background(command), on_task("KillShell", "shell_id"), on_task("TaskStop"), DONE)
    driver.run_turn()
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "It was stopped with TaskStop.")
    stopped, again = driver.fetch_result_texts()[1:]
    assert stopped == f"Stopped {task['id']}: {command}"
    assert again == f"<tool_use_error>{task['id']} is not running: it is killed already.</tool_use_error>"
    output = driver.list_event_data("tool.completed")[1]["call"]["output"]
    assert (output["task_id"], output["task_type"], output["command"]) == (task["id"], "local_bash", command)


def test_the_end_of_a_task_wakes_a_sleep_and_is_told_with_it(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    go = driver.folder / "go"
    harness.api.script(
        driver.name,
        in_background(make_wait_command(go)),
        message(calls("Sleep", {"seconds": 300, "reason": "the build"})),
        DONE,
    )
    driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    go.touch()
    driver.wait_for_turn_end()
    call = get_last_call(driver)
    assert (call["summary"], call["output"]["woken_by"]) == ("Sleep up to 300 s: the build", "task")
    assert call["decision"]["behavior"] == "allow"
    told = json.dumps(driver.fetch_messages()[-2]["content"])
    assert "a background task has ended." in told
    assert "is done" in told


def test_further_input_wakes_a_sleep(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Sleep", {"seconds": 300})), DONE)
    turn_id = driver.start()
    driver.wait("tool.started")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="Wake up!")
    assert driver.wait_for_turn_end()["reason"] == "completed"
    assert get_last_call(driver)["output"]["woken_by"] == "message"
    assert "Wake up!" in json.dumps(driver.fetch_messages()[-2]["content"])


def test_what_happened_while_the_model_spoke_wakes_a_sleep_at_once(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    go, ended = driver.folder / "go", driver.folder / "ended"

    def sleep(request: RecordedRequest) -> Reply:
        # The task ends now, when it is too late for this request to bring the news.
        go.touch()
        wait_until(ended.exists)
        return message(calls("Sleep", {"seconds": 300}))

    harness.api.script(driver.name, in_background(make_wait_command(go)), sleep, DONE)
    following = BackgroundThread(lambda: driver.wait("task.ended"))
    driver.start()
    following.result()
    ended.touch()
    driver.wait_for_turn_end()
    assert get_last_call(driver)["output"]["woken_by"] == "task"


def test_an_interrupt_ends_a_sleep(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Sleep", {"seconds": 300})))
    turn_id = driver.start()
    driver.wait("tool.started")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"


def test_sleeps_run_beside_each_other_without_a_process(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Sleep", {"seconds": 300}), calls("Sleep", {"seconds": 0.1})), DONE)
    turn_id = driver.start()
    driver.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#1"))
    assert [place for kind, place in driver.list_call_events() if kind == "completed"] == [1], "the longer one goes on"
    expect_no_children(harness.daemon)
    harness.daemon.call("turn/steer", turn_id=turn_id, input="Wake up!")
    driver.wait_for_turn_end(turn_id)
    assert [call["call"]["output"]["woken_by"] for call in driver.list_event_data("tool.completed")] == [
        "time",
        "message",
    ]
    assert re.fullmatch(r"Slept for \d+(\.\d)? s: nothing has happened\.", driver.fetch_result_texts()[1])


def test_in_assistant_mode_a_tick_wakes_who_sleeps(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_ASSISTANT="true", OSTLER_TURNS__TICK_SECONDS="1")
    driver, call = run_call(harness, {"seconds": 300}, "Sleep")
    assert call["output"]["woken_by"] == "tick"
    assert re.match(r"<tick>\w{3} \d{4}-\d\d-\d\d \d\d:\d\d</tick>\nWoken after ", driver.fetch_result_texts()[0])
    [sleep] = [tool for tool in driver.requests[0].body["tools"] if tool["name"] == "Sleep"]
    assert "After 1 seconds at the latest you get a `<tick>`" in sleep["description"]


def test_nothing_ticks_for_others(harness: Harness) -> None:
    driver, call = run_call(harness, {"seconds": 0.1}, "Sleep")
    assert call["output"]["woken_by"] == "time"
    [sleep] = [tool for tool in driver.requests[0].body["tools"] if tool["name"] == "Sleep"]
    assert "tick" not in sleep["description"]

"""Output that `TaskOutput` showed in a message that was discarded is shown again by the next one."""

from pathlib import Path

from tests.support.background_commands import build_wait_command, open_session_with_tasks, wait_for_output
from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE


def test_output_that_a_broken_stream_took_along_is_given_again(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, f"echo one; {build_wait_command(Path('go'))}")
    wait_for_output(harness.daemon, task, "one")
    look, gate = calls("TaskOutput", {"task_id": task["id"], "block": False}), Gate()
    harness.api.script(
        driver.name, DONE, DONE, attempts(message(look, hold(gate), cut()), message(look)), otherwise=DONE
    )
    turn_id = driver.start()
    driver.wait("tool.completed", lambda data: data["call"]["tool"] == "TaskOutput")
    gate.open()
    driver.wait_for_turn_end(turn_id)
    assert driver.list_event_data("tool.completed")[-1]["call"]["output"]["task"]["output"] == "one\n"

"""A fork has a history of its own, and one that can be sent."""

import pytest

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE


def fork_session(harness: Harness, driver: SessionDriver, message_id: str | None = None) -> SessionDriver:
    params = {} if message_id is None else {"message_id": message_id}
    session = harness.daemon.call("session/fork", session_id=driver.id, **params)
    fork = SessionDriver(
        driver.daemon,
        driver.api,
        driver.name,
        driver.folder,
        session,
        driver.daemon.follow(f"?session={session['id']}"),
    )
    harness.drivers.append(fork)
    return fork


@pytest.mark.parametrize("place", range(6))
def test_a_fork_from_any_message_can_go_on(harness: Harness, place: int) -> None:
    harness.api.may_rewrite = True  # the fork says something else where the session had spoken already
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    read = calls("Read", {"file_path": path})
    two = calls("Bash", {"command": "true"})
    harness.api.script(driver.name, message(says("I look."), read, read), message(two), otherwise=DONE)
    driver.run_turn(mode="dontAsk")
    history = driver.fetch_messages()
    assert len(history) == 6
    fork = fork_session(harness, driver, history[place]["id"])
    turn = fork.run_turn("And now something else.")
    assert (turn["reason"], turn["result_text"], turn["error"]) == ("completed", "Done.", None)
    assert [one["content"] for one in driver.fetch_messages()] == [one["content"] for one in history]
    fork.expect_usable()
    driver.expect_usable()


def test_a_fork_of_a_session_whose_calls_run_can_go_on(harness: Harness) -> None:
    harness.api.may_rewrite = True
    driver = harness.open_session()
    harness.api.script(
        driver.name, message(says("I wait."), calls("Gate", {"path": driver.get_gate_path("go")})), otherwise=DONE
    )
    turn_id = driver.start()
    driver.wait_at_gate("go")
    driver.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    fork = fork_session(harness, driver)
    assert fork.run_turn("Without waiting.")["reason"] == "completed"
    assert driver.fetch_state()["status"] == "running"
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_result_texts() == ["passed go"]
    driver.expect_usable()


def test_a_fork_of_a_session_whose_model_speaks_has_what_is_complete(harness: Harness) -> None:
    gate = Gate()
    harness.api.may_rewrite = True
    driver = harness.open_session(DONE, message(says("Slowly ", hold(gate), "now.")), otherwise=DONE)
    driver.run_turn()
    turn_id = driver.start()
    driver.wait("message.delta", lambda data: data["text"] == "Slowly ")
    fork = fork_session(harness, driver)
    assert [role for role, _ in fork.outline_messages()] == ["user", "assistant", "user"]
    gate.open()
    driver.wait_for_turn_end(turn_id)
    driver.expect_usable()

"""Input that hooks have not let pass: whatever ends the daemon or the turn meanwhile, the model is never sent it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE
from tests.support.projects import list_notices, open_session_with_calls

SUBMIT = "UserPromptSubmit"
SLOW = "touch here; until [ -e go ]; do sleep 0.02; done; cat > told; "
NO_CARDS = "if grep -q 4111 told; then echo no card numbers >&2; exit 2; fi"


def dump_sent_messages(driver: SessionDriver) -> str:
    """All that the model was ever sent."""
    return json.dumps([request.messages for request in driver.requests])


def crash_at_the_hook(harness: Harness, folder: Path) -> None:
    wait_until((folder / "here").exists)
    harness.restart()
    (folder / "go").touch()


def wait_for_turn(harness: Harness, turn_id: str) -> Json:
    turn: Json = harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)
    return turn


def test_unheard_input_is_taken_back_with_its_turn(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, SLOW + NO_CARDS)
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    turn_id = driver.start("My card is 4111.")
    crash_at_the_hook(harness, folder)
    assert wait_for_turn(harness, turn_id)["reason"] == "interrupted"
    assert driver.fetch_messages() == []
    assert driver.run_turn("Something else.")["reason"] == "completed"
    assert "4111" not in dump_sent_messages(driver)


@pytest.mark.parametrize(
    ("words", "reason", "requests"), [("My card is 4111.", "stopped_by_hook", 0), ("Good day.", "completed", 1)]
)
def test_hooks_hear_it_again_where_the_session_resumes(
    own_harness: Callable[..., Harness], words: str, reason: str, requests: int
) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, SLOW + NO_CARDS)
    driver = open_session_with_calls(harness, folder=folder, trust=True, on_restart="resume")
    turn_id = driver.start(words)
    crash_at_the_hook(harness, folder)
    assert wait_for_turn(harness, turn_id)["reason"] == reason
    assert words in (folder / "told").read_text()
    assert len(driver.requests) == requests
    driver.run_turn("Something else.")
    assert "4111" not in dump_sent_messages(driver)


def test_an_answer_about_trust_lets_no_input_pass_unheard(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, SLOW + NO_CARDS)
    driver = open_session_with_calls(harness, folder=folder, on_restart="resume")
    turn_id = driver.start("My card is 4111.")
    driver.answer(driver.wait_for_ask(), "trust")
    crash_at_the_hook(harness, folder)
    assert wait_for_turn(harness, turn_id)["reason"] == "stopped_by_hook"
    assert driver.requests == []


def test_input_that_hooks_have_let_pass_stays_after_a_crash(own_harness: Callable[..., Harness]) -> None:
    harness, gate = own_harness(), Gate()
    folder = make_project_with_hook(harness, SUBMIT, "cat >> told; echo >> told")
    driver = harness.open_session(
        attempts(message(says("So ", hold(gate), "far.")), DONE), otherwise=DONE, folder=folder, trust=True
    )
    turn_id = driver.start("Good day.")
    driver.wait("message.delta")
    harness.restart()
    assert wait_for_turn(harness, turn_id)["reason"] == "interrupted"
    assert "Good day." in str(driver.fetch_messages()[0]["content"])
    assert len((folder / "told").read_text().splitlines()) == 1


@pytest.mark.parametrize("on_restart", ["interrupt", "resume"])
def test_the_end_of_a_task_that_unheard_input_told_is_told_with_the_next(
    own_harness: Callable[..., Harness], on_restart: str
) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, SLOW + NO_CARDS)
    (folder / "go").touch()
    background = {"command": "until [ -e on ]; do sleep 0.02; done", "run_in_background": True}
    driver = open_session_with_calls(
        harness, calls("Bash", background), folder=folder, trust=True, rules={"allow": ["Bash"]}, on_restart=on_restart
    )
    driver.run_turn()
    (folder / "on").touch()
    task = driver.wait("task.ended")["data"]["task"]
    (folder / "go").unlink()
    (folder / "here").unlink()
    turn_id = driver.start("My card is 4111.")
    crash_at_the_hook(harness, folder)
    assert wait_for_turn(harness, turn_id)["reason"] == (
        "interrupted" if on_restart == "interrupt" else "stopped_by_hook"
    )
    news = f"task {task['id']} is done"
    assert news not in dump_sent_messages(driver)
    driver.run_turn("Something else.")
    assert dump_sent_messages(driver).count(news) == 1
    assert "4111" not in dump_sent_messages(driver)


def test_the_mode_that_unheard_input_told_is_told_with_the_next(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, SLOW)
    (folder / "go").touch()
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    driver.run_turn()
    (folder / "go").unlink()
    (folder / "here").unlink()
    turn_id = driver.start("My card is 4111.", mode="plan")
    crash_at_the_hook(harness, folder)
    assert wait_for_turn(harness, turn_id)["reason"] == "interrupted"
    driver.run_turn("Something else.")
    assert dump_sent_messages(driver).count("The permission mode is now plan") == 1


def test_an_interrupt_while_hooks_hear_the_input_takes_it_back(harness: Harness) -> None:
    folder = make_project_with_hook(harness, SUBMIT, SLOW)
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    turn_id = driver.start("My card is 4111.")
    wait_until((folder / "here").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    (folder / "go").touch()
    assert driver.run_turn("Something else.")["reason"] == "completed"
    assert "4111" not in dump_sent_messages(driver)
    assert "4111" not in str(driver.fetch_messages())


# Further input, while a turn runs.

NO_CARDS_AT_ONCE = f"cat > told; cat told >> all; echo >> all; {NO_CARDS}"


def start_gated_turn(harness: Harness, command: str, **session: Any) -> tuple[SessionDriver, str]:
    """A turn whose first call stands at a gate, in a folder where a hook hears of input."""
    driver = harness.open_session(folder=make_project_with_hook(harness, SUBMIT, command), trust=True, **session)
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("gate")})), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("gate")
    return driver, turn_id


def test_further_input_that_a_hook_blocks_does_not_join_and_its_client_is_told(harness: Harness) -> None:
    driver, turn_id = start_gated_turn(harness, NO_CARDS_AT_ONCE)
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="Be brief.")
    driver.open_gate("gate")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert "4111" not in dump_sent_messages(driver)
    assert "Be brief." in dump_sent_messages(driver)
    assert any("no card numbers" in text for text in list_notices(driver))
    driver.run_turn("Something else.")
    assert "4111" not in dump_sent_messages(driver)


def test_blocked_input_that_stops_the_running_calls_leaves_a_turn_that_goes_on(harness: Harness) -> None:
    driver, turn_id = start_gated_turn(harness, NO_CARDS_AT_ONCE)
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.", now=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert "4111" not in dump_sent_messages(driver)


def test_what_a_hook_says_about_further_input_joins_with_it(harness: Harness) -> None:
    driver, turn_id = start_gated_turn(harness, "cat > told; if grep -q format told; then echo we use tabs; fi")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="Please format it.")
    driver.open_gate("gate")
    driver.wait_for_turn_end(turn_id)
    texts = [block.get("text", "") for block in driver.requests[1].messages[-1]["content"]]
    assert next(text for text in texts if text) == "Please format it."
    assert "we use tabs" in texts[-1]


def test_a_turn_whose_only_further_input_is_blocked_ends_with_what_it_had_said(harness: Harness) -> None:
    gate = Gate()
    folder = make_project_with_hook(harness, SUBMIT, NO_CARDS_AT_ONCE)
    driver = harness.open_session(message(says("Done.", hold(gate))), otherwise=DONE, folder=folder, trust=True)
    turn_id = driver.start()
    driver.wait("message.delta")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    gate.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 1)


def test_a_hook_that_stops_the_work_over_further_input_ends_the_turn(harness: Harness) -> None:
    stopping = json.dumps({"continue": False, "stopReason": "that is enough"})
    driver, turn_id = start_gated_turn(harness, f"cat > told; if grep -q 4111 told; then echo '{stopping}'; fi")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    driver.open_gate("gate")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "that is enough")
    assert "4111" not in dump_sent_messages(driver)
    assert "4111" not in str(driver.fetch_messages())


def test_an_interrupt_does_not_wait_for_hooks_that_hear_further_input(harness: Harness) -> None:
    driver, turn_id = start_gated_turn(harness, "cat > told; if grep -q 4111 told; then touch here; exec sleep 50; fi")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    driver.open_gate("gate")
    wait_until((driver.folder / "here").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    # What was accepted starts the next turn, whose hooks hear it from the beginning.
    next_id = driver.wait("turn.started", lambda data: data["turn"]["id"] != turn_id)["data"]["turn"]["id"]
    harness.daemon.call("turn/interrupt", turn_id=next_id)
    driver.wait_for_turn_end(next_id)
    assert "4111" not in dump_sent_messages(driver)


def test_further_input_that_hooks_had_not_heard_at_a_crash_is_heard_afterwards(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    slow = f"cat > told; if grep -q 4111 told; then touch here; until [ -e go ]; do sleep 0.02; done; {NO_CARDS}; fi"
    driver, turn_id = start_gated_turn(harness, slow, on_restart="resume")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    driver.open_gate("gate")
    crash_at_the_hook(harness, driver.folder)
    assert wait_for_turn(harness, turn_id)["reason"] == "completed"
    assert "4111" not in dump_sent_messages(driver)

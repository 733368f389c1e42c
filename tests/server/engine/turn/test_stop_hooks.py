"""Hooks at the end of a turn hold nobody up who wants something else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver, expect_no_children
from tests.support.hooks import declare_hook, make_project_with_hook
from tests.support.messages_api.replies import message, says
from tests.support.projects import OSTLER_SETTINGS, make_project, open_session_with_calls

NEVER = "touch here; exec sleep 1000"
ONCE = "if [ ! -e here ]; then touch here; exec sleep 1000; fi; touch again"


def start_turn_at_hook(harness: Harness, folder: Path, **session: Any) -> tuple[SessionDriver, str]:
    more = message(says("And more."))
    driver = harness.open_session(message(says("Done.")), otherwise=more, folder=folder, trust=True, **session)
    turn_id = driver.start()
    wait_until((folder / "here").exists)
    return driver, turn_id


def test_an_interrupt_does_not_wait_for_a_stop_hook(harness: Harness) -> None:
    driver, turn_id = start_turn_at_hook(harness, make_project_with_hook(harness, "Stop", NEVER))
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("interrupted", "Done.")
    expect_no_children(harness.daemon)


def test_the_time_limit_does_not_wait_for_a_stop_hook(harness: Harness) -> None:
    driver = open_session_with_calls(harness, folder=make_project_with_hook(harness, "Stop", NEVER), trust=True)
    assert driver.run_turn(timeout_ms=500)["reason"] == "timeout"


def test_deleting_a_session_does_not_wait_for_its_stop_hook(harness: Harness) -> None:
    driver, _ = start_turn_at_hook(harness, make_project_with_hook(harness, "Stop", NEVER))
    harness.daemon.call("session/delete", session_id=driver.id)
    harness.drivers.remove(driver)
    driver.stream.close()


@pytest.mark.parametrize("now", [True, False])
def test_input_that_is_to_be_heard_at_once_does_not_wait_for_a_stop_hook(harness: Harness, now: bool) -> None:
    until_go = "if [ ! -e here ]; then touch here; until [ -e go ]; do sleep 0.02; done; fi"
    folder = make_project_with_hook(harness, "Stop", ONCE if now else until_go)
    driver, turn_id = start_turn_at_hook(harness, folder)
    harness.daemon.call("turn/steer", turn_id=turn_id, input="One thing more.", now=now)
    if not now:
        (folder / "go").touch()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "And more.", 2)


def test_input_of_a_turn_that_was_about_to_end_is_answered_after_a_restart(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, "Stop", ONCE)
    driver, turn_id = start_turn_at_hook(harness, folder, on_restart="resume")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="One thing more.")
    harness.restart()
    turn = harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)
    assert (turn["reason"], turn["result_text"]) == ("completed", "And more.")
    told = [block["text"] for block in driver.requests[1].messages[-1]["content"]]
    assert told[0] == "One thing more."
    assert "The daemon was restarted" in told[1]


def test_a_stop_hook_that_blocked_input_has_ended_is_asked_again(harness: Harness) -> None:
    blocks = declare_hook("UserPromptSubmit", "cat > told; if grep -q 4111 told; then echo no >&2; exit 2; fi")
    folder = make_project(
        harness, {OSTLER_SETTINGS: {"hooks": {**blocks["hooks"], **declare_hook("Stop", ONCE)["hooks"]}}}
    )
    driver, turn_id = start_turn_at_hook(harness, folder)
    harness.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.", now=True)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 1)
    assert (folder / "again").exists()

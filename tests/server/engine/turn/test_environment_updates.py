"""What changes around a session travels in the next user message, and stays news until the model has it."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ostler.storage import Snapshot
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE
from tests.support.projects import make_project

PLAN = "The permission mode is now plan"


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def make_repository(harness: Harness) -> Path:
    folder = make_project(harness)
    run_git(folder, "init", "-b", "main")
    return folder


def list_notes(driver: SessionDriver, number: int) -> list[str]:
    """The notes in the last message of a request."""
    blocks = driver.requests[number].messages[-1]["content"]
    return [str(block["text"]) for block in blocks if str(block.get("text", "")).startswith("<ostler-note>")]


def list_all_notes(driver: SessionDriver) -> list[str]:
    return [text for number in range(len(driver.requests)) for text in list_notes(driver, number)]


def set_told_date(harness: Harness, driver: SessionDriver, day: str) -> None:
    """As if the model had been told everything on that day; the daemon is not running."""
    with closing(sqlite3.connect(harness.daemon.home / "ostler.db")) as connection, connection:
        state: dict[str, Any] = Snapshot(connection).states.find(driver.session["id"])
        facts = json.loads(state["facts"])
        Snapshot(connection).states.put(driver.session["id"], {**state, "facts": json.dumps({**facts, "date": day})})


def test_a_mode_that_changes_during_a_call_is_told_with_its_result(harness: Harness) -> None:
    driver = harness.open_session()
    gate = calls("Gate", {"path": driver.get_gate_path("g")})
    harness.api.script(driver.name, message(gate), message(gate), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("g")
    harness.daemon.call("session/update", session_id=driver.id, mode="plan")
    driver.open_gate("g")
    driver.wait_for_turn_end(turn_id)
    driver.run_turn("More.")
    assert [PLAN in text for text in list_all_notes(driver)] == [True]
    assert PLAN in list_notes(driver, 1)[0]
    assert [block["type"] for block in driver.requests[1].messages[-1]["content"]] == ["tool_result", "text"]
    assert harness.api.prefix_changes == []


def test_a_branch_that_a_command_switches_is_told_with_its_result(harness: Harness) -> None:
    folder = make_repository(harness)
    switch = calls("Bash", {"command": "git checkout -q -b other"})
    driver = harness.open_session(message(switch), otherwise=DONE, folder=folder, rules={"allow": ["Bash"]})
    driver.run_turn()
    driver.run_turn("More.")
    assert ["on other" in text for text in list_all_notes(driver)] == [True]
    assert "on other" in list_notes(driver, 1)[0]


def test_a_branch_that_somebody_switches_between_turns_is_told_with_the_input(harness: Harness) -> None:
    folder = make_repository(harness)
    driver = harness.open_session(otherwise=DONE, folder=folder)
    driver.run_turn()
    run_git(folder, "checkout", "-q", "-b", "other")
    driver.run_turn("More.")
    driver.run_turn("And more.")
    assert list_notes(driver, 0) == list_notes(driver, 2) == []
    (told,) = list_notes(driver, 1)
    assert "The git repository is now on other." in told
    assert harness.api.prefix_changes == []


def test_a_new_date_is_told_with_the_input(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(otherwise=DONE)
    driver.run_turn()
    harness.daemon.kill()
    set_told_date(harness, driver, "2020-02-20")
    harness.restart()
    driver.run_turn("Good morning.")
    driver.run_turn("And more.")
    assert ["The date is now" in text for text in list_all_notes(driver)] == [True]
    assert "The date is now" in list_notes(driver, 1)[0]


def test_a_new_date_is_told_in_the_middle_of_a_turn(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(on_restart="resume")
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("g")})), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("g")
    harness.daemon.kill()
    set_told_date(harness, driver, "2020-02-20")
    harness.restart()
    harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=30_000)
    assert ["The date is now" in text for text in list_notes(driver, 1)] == [True]


def test_what_was_told_in_the_middle_of_a_turn_is_not_told_again_after_a_restart(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("g")})), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("g")
    harness.daemon.call("session/update", session_id=driver.id, mode="plan")
    driver.open_gate("g")
    driver.wait_for_turn_end(turn_id)
    harness.restart()
    driver.run_turn("More.")
    assert [PLAN in text for text in list_all_notes(driver)] == [True]


def test_news_that_came_with_input_that_a_hook_blocks_comes_with_the_next(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "UserPromptSubmit", "if grep -q 4111; then echo no card numbers >&2; exit 2; fi"
    )
    driver = harness.open_session(otherwise=DONE, folder=folder, trust=True)
    driver.run_turn()
    assert driver.run_turn("My card is 4111.", mode="plan")["reason"] == "stopped_by_hook"
    driver.run_turn("Something else.")
    driver.run_turn("More.")
    assert [PLAN in "".join(list_notes(driver, number)) for number in range(3)] == [False, True, False]


def test_news_that_came_with_input_that_was_stopped_in_its_hooks_comes_with_the_next(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, "UserPromptSubmit", "if grep -q 4111; then touch here; sleep 30; fi")
    driver = harness.open_session(otherwise=DONE, folder=folder, trust=True)
    driver.run_turn()
    turn_id = driver.start("My card is 4111.", mode="plan")
    wait_until((folder / "here").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    harness.restart()
    driver.run_turn("Something else.")
    assert [PLAN in "".join(list_notes(driver, number)) for number in range(2)] == [False, True]


def test_the_first_input_that_a_hook_blocks_leaves_what_the_prompt_says(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "UserPromptSubmit", "if grep -q 4111; then echo no card numbers >&2; exit 2; fi"
    )
    driver = harness.open_session(otherwise=DONE, folder=folder, trust=True)
    driver.run_turn("My card is 4111.")
    harness.daemon.call("session/update", session_id=driver.id, mode="plan")
    driver.run_turn("Something else.")
    assert "Permission mode: default" in driver.requests[0].body["system"][0]["text"]
    assert [PLAN in text for text in list_notes(driver, 0) if "mode" in text] == [True]


def test_the_model_is_told_the_mode_that_is_in_force(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    driver = harness.open_session(otherwise=DONE, mode="bypassPermissions")
    driver.run_turn()
    del harness.daemon.environment["OSTLER_PERMISSIONS__ALLOW_BYPASS"]
    harness.restart()
    driver.run_turn("More.")
    assert "Permission mode: bypassPermissions" in driver.requests[0].body["system"][0]["text"]
    assert ["The permission mode is now default" in text for text in list_notes(driver, 1)] == [True]


@pytest.mark.parametrize("blocks", [["Gate"], ["Gate", "Gate"]])
def test_without_changes_there_are_no_notes(harness: Harness, blocks: list[str]) -> None:
    driver = harness.open_session()
    driver.open_gate("g")
    gates = [calls(name, {"path": driver.get_gate_path("g")}) for name in blocks]
    harness.api.script(driver.name, message(*gates), otherwise=DONE)
    driver.run_turn()
    driver.run_turn("More.")
    assert list_all_notes(driver) == []

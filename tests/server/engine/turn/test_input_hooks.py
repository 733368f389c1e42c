"""Hooks around a turn: its input, its end, and the beginning of its session."""

from collections.abc import Callable

import pytest

from tests.support.driver import Harness
from tests.support.hooks import (
    build_decision,
    build_hook_command,
    declare_hook,
    dump_request,
    list_hook_runs,
    make_project_with_hook,
    read_hook_inputs,
)
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_SETTINGS,
    list_notices,
    make_project,
    open_session_with_calls,
    run_calls,
    write_settings,
)

SUBMIT = "UserPromptSubmit"


def test_words_that_a_hook_adds_to_a_prompt_reach_the_model(harness: Harness) -> None:
    folder = make_project_with_hook(harness, SUBMIT, build_decision(SUBMIT, additionalContext="we use tabs"))
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    assert driver.run_turn("Please format it.")["reason"] == "completed"
    assert read_hook_inputs(folder)[0]["prompt"] == driver.tag_input("Please format it.")
    assert "we use tabs" in dump_request(driver, 0)


def test_plain_words_of_a_hook_are_words_for_the_model(harness: Harness) -> None:
    folder = make_project_with_hook(harness, SUBMIT, "echo we use spaces")
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    driver.run_turn()
    assert "we use spaces" in dump_request(driver, 0)


def test_a_prompt_that_a_hook_blocks_never_reaches_the_model_and_the_next_turn_works(harness: Harness) -> None:
    blocking = f"{build_hook_command({})}; if grep -q 4111 told; then echo no card numbers >&2; exit 2; fi"
    folder = make_project_with_hook(harness, SUBMIT, blocking)
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    turn = driver.run_turn("My card is 4111.")
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "no card numbers")
    assert driver.requests == []
    (folder / "told").unlink()
    assert driver.run_turn("Something else.")["reason"] == "completed"
    assert "4111" not in dump_request(driver, 0)
    assert all("4111" not in str(each["content"]) for each in driver.fetch_messages())


def test_a_blocked_prompt_stays_out_after_a_restart(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project_with_hook(harness, SUBMIT, "echo no >&2; exit 2")
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    assert driver.run_turn("My card is 4111.")["reason"] == "stopped_by_hook"
    write_settings(folder, OSTLER_SETTINGS, {})
    harness.restart()
    assert driver.run_turn("Something else.")["reason"] == "completed"
    assert "4111" not in dump_request(driver, 0)


def test_a_stop_hook_makes_the_turn_go_on_and_knows_when_it_has(harness: Harness) -> None:
    command = "cat > now; cat now >> told; echo >> told; grep -q 'stop_hook_active\": *true' now && exit 0; "
    folder = make_project_with_hook(harness, "Stop", f"{command} echo run the tests first >&2; exit 2")
    driver = harness.open_session(message(says("Done.")), message(says("Now tested.")), folder=folder, trust=True)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Now tested.", 2)
    assert "run the tests first" in dump_request(driver, 1)
    assert [given["stop_hook_active"] for given in read_hook_inputs(folder)] == [False, True]


def test_a_stop_hook_that_never_lets_go_does_not_keep_the_turn_for_ever(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "Stop", {"decision": "block", "reason": "more"})
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    assert turn["model_requests"] == 11


def test_a_stop_hook_that_says_continue_false_lets_the_turn_end(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "Stop", {"decision": "block", "reason": "more", "continue": False})
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    turn = driver.run_turn()
    assert turn["model_requests"] == 1
    assert turn["reason"] in {"completed", "stopped_by_hook"}


def test_the_beginning_of_a_session_is_told_once(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "SessionStart", build_decision("SessionStart", additionalContext="the sprint ends today")
    )
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    driver.run_turn()
    driver.run_turn()
    assert [given["source"] for given in read_hook_inputs(folder)] == ["startup"]
    assert dump_request(driver, 1).count("the sprint ends today") == 1


@pytest.mark.parametrize(("method", "reason"), [("session/archive", "archive"), ("session/delete", "delete")])
def test_a_hook_hears_of_the_end_of_a_session(harness: Harness, method: str, reason: str) -> None:
    folder = make_project_with_hook(harness, "SessionEnd", {})
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    driver.run_turn()
    harness.daemon.call(method, session_id=driver.id)
    assert [(given["session_id"], given["reason"]) for given in read_hook_inputs(folder)] == [(driver.id, reason)]


def test_a_change_of_settings_can_be_refused_by_a_hook(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: declare_hook("ConfigChange", "echo leave it >&2; exit 2")})
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    write_settings(folder, OSTLER_SETTINGS, {})
    driver.run_turn()
    assert any("leave it" in text for text in list_notices(driver))


def test_hooks_of_one_moment_run_side_by_side_and_the_strictest_wins(harness: Harness) -> None:
    wait_for_each_other = "touch here-{0}; until [ -e here-{1} ]; do sleep 0.01; done; "
    entries = [
        {"type": "command", "command": wait_for_each_other.format(1, 2) + "echo '{}'"},
        {"type": "command", "command": wait_for_each_other.format(2, 1) + "echo no >&2; exit 2"},
    ]
    folder = make_project(harness, {OSTLER_SETTINGS: {"hooks": {"PreToolUse": [{"hooks": entries}]}}})
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert sorted(run["outcome"] for run in list_hook_runs(driver)) == ["denied", "passed"]
    assert driver.fetch_results()[0]["is_error"]

"""Input that a hook or the tool's own check has changed passes everything again that the first one had to pass."""

import json
import shlex
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import build_decision, declare_hook
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE
from tests.support.projects import OSTLER_SETTINGS, get_last_decision, make_project, write_settings

PRE = "PreToolUse"


def make_swap_settings(folder: Path, given: Json) -> Json:
    """Settings with a hook that gives the call at gate b another input."""
    answer = shlex.quote(json.dumps(build_decision(PRE, updatedInput=given)))
    return declare_hook(PRE, f"if grep -q {shlex.quote(str(folder / 'b'))}; then echo {answer}; fi", "Gate")


def open_two_gates_session(harness: Harness, folder: Path, **second: Any) -> SessionDriver:
    """A message with two calls that say that they are safe; the first stands at its gate."""
    driver = harness.open_session(folder=folder, trust=True)
    first = calls("Gate", {"path": str(folder / "a"), "safe": True})
    harness.api.script(
        driver.name, message(first, calls("Gate", {"path": str(folder / "b"), "safe": True, **second})), otherwise=DONE
    )
    return driver


def assert_second_waits(driver: SessionDriver, turn_id: str) -> None:
    """The second call, whose gate is c by now and open, begins when the first one is over."""
    driver.fetch_state()  # were it not held back, it would have begun by now
    driver.open_gate("a")
    driver.wait_for_turn_end(turn_id)
    assert driver.fetch_result_texts() == ["passed a", "passed c"]
    events = driver.list_call_events()
    assert events.index(("completed", 0)) < events.index(("started", 1))


def test_a_call_that_a_hook_has_made_unsafe_waits_for_those_beside_it(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "c").touch()
    write_settings(folder, OSTLER_SETTINGS, make_swap_settings(folder, {"path": str(folder / "c"), "safe": False}))
    driver = open_two_gates_session(harness, folder)
    turn_id = driver.start()
    driver.wait_at_gate("a")
    driver.wait("hook.ran", lambda data: data["run"]["call_id"].endswith("#1"))
    assert_second_waits(driver, turn_id)


def test_a_call_that_its_own_check_has_made_unsafe_waits_for_those_beside_it(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "c").touch()
    driver = open_two_gates_session(harness, folder, instead=str(folder / "c"))
    turn_id = driver.start()
    driver.wait_at_gate("a")
    assert_second_waits(driver, turn_id)


def run_redirected_call(harness: Harness, instead: Path, **session: Any) -> SessionDriver:
    """A session that has called a tool whose own check chose another input."""
    driver = harness.open_session(**session)
    harness.api.script(
        driver.name,
        message(calls("Gate", {"path": driver.get_gate_path("never"), "instead": str(instead)})),
        otherwise=DONE,
    )
    driver.run_turn()
    return driver


def test_a_call_runs_with_the_input_that_the_tools_own_check_chose(harness: Harness) -> None:
    gate = make_project(harness) / "other"
    gate.touch()
    driver = run_redirected_call(harness, gate)
    assert driver.fetch_result_texts() == ["passed other"]
    assert driver.list_event_data("tool.started")[0]["call"]["input"] == {"path": str(gate)}
    assert get_last_decision(driver)["behavior"] == "allow"


def test_the_input_that_the_tools_own_check_chose_is_validated(harness: Harness) -> None:
    driver = run_redirected_call(harness, make_project(harness) / "walled-up")
    assert "That gate is walled up." in driver.fetch_result_texts()[0]
    assert driver.list_event_data("tool.started") == []


def test_the_input_that_the_tools_own_check_chose_is_held_against_the_deny_rules(harness: Harness) -> None:
    gate = make_project(harness) / "other"
    gate.touch()
    driver = run_redirected_call(harness, gate, rules={"deny": [f"Gate({gate})"]})
    assert (get_last_decision(driver)["behavior"], get_last_decision(driver)["by"]) == ("deny", "rule")
    assert driver.list_event_data("tool.started") == []

"""A simple `sed -i` on its way through the engine: shown with its diff, bound by the rules of Edit, told as an edit."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message, says

SED = "sed -i 's/two/2/' f.txt"


def open_sed_session(harness: Harness, command: str = SED, **session: Any) -> SessionDriver:
    driver = harness.open_session(**session)
    driver.write_file("f.txt", "one\ntwo\nthree\n")
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), message(says("Done.")))
    return driver


def get_last_call(driver: SessionDriver) -> Json:
    completed: Json = driver.list_event_data("tool.completed")[-1]["call"]
    return completed


def read_file(driver: SessionDriver) -> str:
    return (driver.folder / "f.txt").read_text()


def test_a_person_sees_the_diff_and_the_file_is_written_by_us(harness: Harness) -> None:
    driver = open_sed_session(harness)
    turn = driver.start()
    ask = driver.wait_for_ask()
    assert "-two\n+2\n" in ask["diff"]
    assert ask["message"] == f"Change {driver.folder}/f.txt?"
    assert read_file(driver) == "one\ntwo\nthree\n"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn)
    assert read_file(driver) == "one\n2\nthree\n"
    assert driver.fetch_result_texts()[0].startswith(f"File updated: {driver.folder}/f.txt")
    [changed] = driver.list_event_data("file.changed")
    assert changed["path"] == f"{driver.folder}/f.txt"
    assert get_last_call(driver)["output"]["edits"][0]["kind"] == "update"
    [shown] = driver.daemon.call("session/diff", session_id=driver.id)["files"]
    assert shown["path"] == f"{driver.folder}/f.txt"


def test_a_no_leaves_the_file_alone(harness: Harness) -> None:
    driver = open_sed_session(harness)
    turn = driver.start()
    driver.answer(driver.wait_for_ask(), "deny")
    driver.wait_for_turn_end(turn)
    assert read_file(driver) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("rule", ["Edit", "Edit(./*.txt)", "Edit(f.txt)"])
def test_a_rule_that_allows_the_edit_allows_it(harness: Harness, rule: str) -> None:
    driver = open_sed_session(harness, rules={"allow": [rule]})
    driver.run_turn()
    assert read_file(driver) == "one\n2\nthree\n"
    assert (get_last_call(driver)["decision"]["by"], get_last_call(driver)["decision"]["rule"]) == ("rule", rule)


def test_a_rule_about_other_files_does_not(harness: Harness) -> None:
    driver = open_sed_session(harness, rules={"allow": ["Edit(./*.py)"]}, on_ask="deny")
    driver.run_turn()
    assert read_file(driver) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("rule", ["Edit", "Edit(f.txt)", "Edit(./*)", "Read(f.txt)", "Bash(sed:*)"])
def test_a_rule_that_denies_the_edit_denies_it_in_every_mode(harness: Harness, rule: str) -> None:
    driver = open_sed_session(harness, rules={"allow": ["Bash"], "deny": [rule]}, mode="acceptEdits")
    driver.run_turn()
    assert read_file(driver) == "one\ntwo\nthree\n"
    assert get_last_call(driver)["decision"]["rule"] == rule


def test_accept_edits_lets_it_pass(harness: Harness) -> None:
    driver = open_sed_session(harness, mode="acceptEdits")
    driver.run_turn()
    assert read_file(driver) == "one\n2\nthree\n"
    assert len(driver.list_event_data("file.changed")) == 1


def test_a_rule_for_edits_allows_no_other_command_of_sed(harness: Harness) -> None:
    driver = open_sed_session(harness, "sed -i 's/two/2/w out' f.txt", rules={"allow": ["Edit"]}, on_ask="deny")
    driver.run_turn()
    assert read_file(driver) == "one\ntwo\nthree\n"
    assert not (driver.folder / "out").exists()


def test_plan_mode_denies_it(harness: Harness) -> None:
    driver = open_sed_session(harness, rules={"allow": ["Edit"]}, mode="plan")
    driver.run_turn()
    assert read_file(driver) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("changed", [False, True])
def test_a_yes_after_a_restart_is_for_the_file_that_was_shown(
    own_harness: Callable[..., Harness], changed: bool
) -> None:
    harness = own_harness()
    driver = open_sed_session(harness, on_restart="resume")
    driver.start()
    ask = driver.wait_for_ask()
    harness.daemon.kill()
    if changed:
        driver.write_file("f.txt", "two two\n")
    harness.daemon.start()
    driver.reconnect()
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert read_file(driver) == ("two two\n" if changed else "one\n2\nthree\n")
    assert ("another one than when it was allowed" in driver.fetch_result_texts()[0]) is changed

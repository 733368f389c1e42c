"""Settings files are read again when they change, and what is wrong with them is said once."""

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash
from tests.support.projects import (
    CLAUDE_SETTINGS,
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    list_decisions,
    list_notices,
    make_project,
    run_calls,
    write_settings,
)


def test_a_rule_that_is_written_between_two_turns_counts_in_the_second(harness: Harness) -> None:
    driver = harness.open_session(message(bash("ls")), DONE, message(bash("ls")), DONE)
    driver.run_turn()
    write_settings(driver.folder, OSTLER_SETTINGS, build_rules(deny=["Bash(ls:*)"]))
    driver.run_turn()
    assert list_decisions(driver) == [("allow", "read_only"), ("deny", "rule")]


def test_a_rule_that_is_taken_away_does_not_count_any_more(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Bash(ls:*)"])})
    driver = harness.open_session(message(bash("ls")), DONE, message(bash("ls")), DONE, folder=folder)
    driver.run_turn()
    (folder / OSTLER_SETTINGS).unlink()
    driver.run_turn()
    assert list_decisions(driver) == [("deny", "rule"), ("allow", "read_only")]


def test_a_rule_that_is_written_in_the_middle_of_a_turn_counts_in_it(harness: Harness) -> None:
    driver = harness.open_session(folder=make_project(harness))
    gate = calls("Gate", {"path": driver.get_gate_path("gate")})
    harness.api.script(driver.name, message(gate), message(bash("ls")), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("gate")
    write_settings(driver.folder, OSTLER_SETTINGS, build_rules(deny=["Bash(ls:*)"]))
    _wait_until_denied(driver, "ls")
    driver.open_gate("gate")
    driver.wait_for_turn_end(turn_id)
    assert list_decisions(driver)[-1] == ("deny", "rule")


def test_the_daemon_looks_by_itself_while_a_turn_runs(harness: Harness) -> None:
    driver = harness.open_session(folder=make_project(harness))
    gate = calls("Gate", {"path": driver.get_gate_path("gate")})
    harness.api.script(driver.name, message(gate), message(bash("ls")), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("gate")
    write_settings(driver.folder, OSTLER_SETTINGS, '{"permissions": {"deny": ["Bash(ls:*)"], "alow": []}}')
    driver.wait("notice")  # that it was read, nobody else tells
    driver.open_gate("gate")
    driver.wait_for_turn_end(turn_id)
    assert list_decisions(driver)[-1] == ("deny", "rule")


def test_a_deny_rule_that_is_written_while_an_ask_is_open_beats_its_answer(harness: Harness) -> None:
    driver = harness.open_session(message(bash("touch it")), DONE, folder=make_project(harness))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    write_settings(driver.folder, OSTLER_SETTINGS, build_rules(deny=["Bash(touch:*)"]))
    _wait_until_denied(driver, "touch it")
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert list_decisions(driver) == [("deny", "rule")]
    assert not (driver.folder / "it").exists()


def _wait_until_denied(driver: SessionDriver, command: str) -> None:
    wait_until(lambda: explain_command(driver, command)["behavior"] == "deny")


@pytest.mark.parametrize("name", [OSTLER_SETTINGS, CLAUDE_SETTINGS, OSTLER_LOCAL_SETTINGS])
def test_a_broken_file_contributes_nothing_and_one_notice_says_where(harness: Harness, name: str) -> None:
    folder = make_project(harness, {name: '{\n  "permissions": {"deny": ["Bash(ls:*)"],,}\n}'})
    driver = harness.open_session(message(bash("ls")), DONE, message(bash("ls")), DONE, folder=folder)
    driver.run_turn()
    driver.run_turn()
    assert list_decisions(driver) == [("allow", "read_only")] * 2
    told = [text for text in list_notices(driver) if str(folder) in text]
    assert len(told) == 1
    assert told[0].startswith(f"{folder / name}:2:")
    problem = harness.daemon.call("rule/list", session_id=driver.id)["problems"][0]
    assert (problem["file"], problem["line"]) == (str(folder / name), 2)


def test_a_rule_that_cannot_be_read_is_said_with_its_place_and_forbids_no_less(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Bash(ls"], allow=["Bahs(ls)"])})
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert list_decisions(driver)[0][0] == "deny"
    problems = harness.daemon.call("rule/list", session_id=driver.id)["problems"]
    assert {problem["line"] for problem in problems} == {4, 7}
    assert any("Bash" in problem["message"] for problem in problems)


def test_a_file_that_is_mended_counts_again(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: "{"})
    driver = harness.open_session(message(bash("ls")), DONE, folder=folder)
    assert explain_command(driver, "ls")["behavior"] == "allow"
    write_settings(folder, OSTLER_SETTINGS, build_rules(deny=["Bash(ls)"]))
    assert explain_command(driver, "ls")["behavior"] == "deny"

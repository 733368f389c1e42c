"""A call runs only what was approved, whatever has changed between the ask and the answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.driver import Harness, SessionDriver
from tests.support.model_replies import bash, write
from tests.support.projects import OSTLER_SETTINGS, build_rules, list_decisions, make_project, open_session_with_calls


def write_script(driver: SessionDriver, words: str) -> Path:
    path = driver.folder / "build.sh"
    path.write_text(f"#!/bin/sh\n{words}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "./build.sh", "bash build.sh", "sh ./build.sh now", "env A=b ./build.sh", "bash < build.sh",
        "cat build.sh | bash", "bash *.sh", "make -f build.sh",
    ],
)  # fmt: skip
def test_a_script_that_changed_between_ask_and_answer_is_not_run(harness: Harness, command: str) -> None:
    driver = open_session_with_calls(harness, bash(command))
    write_script(driver, "touch approved")
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    write_script(driver, "touch planted")
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert not (driver.folder / "planted").exists()
    assert not (driver.folder / "approved").exists()
    assert driver.fetch_results()[0]["is_error"]


def test_an_ask_says_where_what_runs_may_change(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("make -n"), bash("./build.sh"))
    write_script(driver, "true")
    turn_id = driver.start()
    first = driver.wait_for_ask()
    driver.answer(first, "deny", message="no")
    second = driver.wait_for_ask()
    driver.answer(second, "deny", message="no")
    driver.wait_for_turn_end(turn_id)
    assert "may change before it is answered" in first["reason"]
    assert "may change" not in second["reason"]


def test_an_ask_says_where_a_line_names_more_files_than_can_be_bound(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("bash " + " ".join(f"a{number}" for number in range(1_500))))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end(turn_id)
    assert "may change before it is answered" in ask["reason"]


def test_a_script_that_did_not_change_runs(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("./build.sh"))
    write_script(driver, "touch approved")
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    assert (driver.folder / "approved").exists()


def test_a_script_that_changed_while_no_daemon_ran_is_not_run(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = open_session_with_calls(harness, bash("./build.sh"), bash("./build.sh"))
    path = write_script(driver, "touch approved")
    driver.start()
    ask = driver.wait_for_ask()
    harness.daemon.kill()
    path.write_text("#!/bin/sh\ntouch planted\n")
    harness.daemon.start()
    driver.reconnect()
    driver.answer(ask, "allow")
    again = driver.wait_for_ask()
    driver.answer(again, "deny")
    driver.wait_for_turn_end()
    assert not (driver.folder / "planted").exists()
    assert "another one than when it was allowed" in driver.fetch_result_texts()[0]


def test_a_script_that_no_crash_changed_runs_afterwards(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = open_session_with_calls(harness, bash("./build.sh"))
    write_script(driver, "touch approved")
    driver.start()
    ask = driver.wait_for_ask()
    harness.restart()
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert (driver.folder / "approved").exists()


def test_a_changed_input_is_another_script_which_is_looked_at_anew(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("./build.sh"))
    write_script(driver, "touch approved")
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow", input={"command": "touch instead"})
    driver.wait_for_turn_end(turn_id)
    assert (driver.folder / "instead").exists()
    assert not (driver.folder / "approved").exists()


def test_allow_with_another_path_is_checked_by_the_tool_again(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Edit(kept)"])})
    driver = open_session_with_calls(harness, write(folder / "a"), folder=folder)
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow", input={"file_path": str(folder / "kept"), "content": "x"})
    driver.wait_for_turn_end(turn_id)
    assert list_decisions(driver) == [("deny", "rule")]
    assert not (folder / "kept").exists()


def test_allow_with_a_path_of_the_daemons_own_is_refused_by_the_tool(harness: Harness) -> None:
    driver = open_session_with_calls(harness, write("/nowhere/a"), folder=make_project(harness))
    turn_id = driver.start()
    planted = harness.daemon.home / "planted"
    driver.answer(driver.wait_for_ask(), "allow", input={"file_path": str(planted), "content": "x"})
    driver.wait_for_turn_end(turn_id)
    assert not planted.exists()
    assert driver.fetch_results()[0]["is_error"]


def test_a_link_that_is_planted_between_ask_and_answer_leads_nowhere(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "there").mkdir()
    driver = open_session_with_calls(harness, write(folder / "here" / "new"), folder=folder)
    (folder / "here").mkdir()
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    (folder / "here").rmdir()
    (folder / "here").symlink_to("there")
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert not (folder / "there" / "new").exists()

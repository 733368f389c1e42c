"""What commands do to repositories is an event, and a pull request that they open is linked to the session."""

from collections.abc import Callable

import pytest

from tests.support.background_commands import open_session_with_tasks, wait_for_output, wait_for_task_end
from tests.support.daemon import wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message, says

URL = "https://github.com/owner/repo/pull/12"
COMMIT = "git init -q . && git -c user.name=A -c user.email=a@b.c commit --allow-empty -m x"


def run_commands(harness: Harness, *commands: str) -> SessionDriver:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    program = driver.folder / "gh"
    program.write_text(f"#!/bin/sh\necho {URL}\n")
    program.chmod(0o755)
    steps = [message(calls("Bash", {"command": command})) for command in commands]
    harness.api.script(driver.name, *steps, message(says("Done.")))
    assert driver.run_turn()["reason"] == "completed"
    return driver


def get_pull_requests(driver: SessionDriver) -> list[Json]:
    found: list[Json] = driver.fetch_state()["metadata"].get("pr", [])
    return found


def test_a_commit_is_told_to_everybody(harness: Harness) -> None:
    driver = run_commands(harness, COMMIT, "true")
    [told] = driver.list_event_data("git.changed")
    [call, _] = [data["call"] for data in driver.list_event_data("tool.completed")]
    assert told["call_id"] == call["call_id"]
    assert told["commit"]["kind"] == "committed"
    assert call["output"]["git"]["commit"] == told["commit"]
    assert (told["push"], told["branch"], told["pr"]) == (None, None, None)
    assert get_pull_requests(driver) == []


def test_what_failed_is_not_told(harness: Harness) -> None:
    driver = run_commands(harness, f"{COMMIT}; false")
    assert driver.list_event_data("git.changed") == []


def test_a_pull_request_that_was_opened_is_linked_to_the_session(harness: Harness) -> None:
    driver = run_commands(
        harness, "PATH=.:$PATH gh pr create --fill", "PATH=.:$PATH gh pr create --fill; PATH=.:$PATH gh pr edit 12"
    )
    first, second = driver.list_event_data("git.changed")
    assert first["pr"] == {"number": 12, "url": URL, "action": "created"}
    assert second["pr"]["action"] == "edited"
    assert get_pull_requests(driver) == [{"number": 12, "url": URL}], "once"
    updated = [data["session"] for data in driver.list_event_data("session.updated") if data["session"]["metadata"]]
    assert updated[0]["metadata"]["pr"] == [{"number": 12, "url": URL}]


def test_what_a_client_keeps_in_the_metadata_stays(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]}, metadata={"own": 1, "pr": "mine"})
    (driver.folder / "gh").write_text(f"#!/bin/sh\necho {URL}\n")
    (driver.folder / "gh").chmod(0o755)
    harness.api.script(
        driver.name, message(calls("Bash", {"command": "PATH=.:$PATH gh pr create --fill"})), message(says("Done."))
    )
    driver.run_turn()
    assert driver.fetch_state()["metadata"] == {"own": 1, "pr": "mine"}


# In the background.


@pytest.mark.parametrize("quietly", ["", " -q"])
def test_a_commit_of_a_task_is_told_when_it_ends(harness: Harness, quietly: str) -> None:
    driver, (task,) = open_session_with_tasks(harness, f"{COMMIT}{quietly}; until [ -e go ]; do sleep 0.02; done")
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"
    told = driver.wait("git.changed")["data"]
    assert (told["call_id"], told["commit"]["kind"]) == (task["call_id"], "committed")


def test_a_task_that_failed_is_not_told_to_have_committed(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, f"{COMMIT}; exit 3")
    assert wait_for_task_end(driver, task)["status"] == "failed"
    assert driver.run_turn()["reason"] == "completed"
    assert driver.list_event_data("git.changed") == []


def test_a_pull_request_that_a_task_opened_is_linked_to_the_session(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, f"gh() {{ echo {URL}; }}; gh pr create --fill")
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert driver.wait("git.changed")["data"]["pr"] == {"number": 12, "url": URL, "action": "created"}
    wait_until(lambda: get_pull_requests(driver) == [{"number": 12, "url": URL}])


def test_what_a_task_did_while_no_daemon_ran_is_told_by_the_next(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, (task,) = open_session_with_tasks(
        harness, f"echo begun; until [ -e go ]; do sleep 0.02; done; {COMMIT} -q; touch done"
    )
    wait_for_output(harness.daemon, task, "begun")
    harness.daemon.kill()
    (driver.folder / "go").touch()
    wait_until((driver.folder / "done").exists)
    harness.daemon.start()
    driver.reconnect(0)
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert driver.wait("git.changed")["data"]["commit"]["kind"] == "committed"

"""Placeholders for names that a sandboxed command must not create: removed with the command, whatever happens."""

import os
from collections.abc import Callable

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.background_commands import open_session_with_tasks, wait_for_output, wait_for_task_end
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message, says

SANDBOX = probe_sandbox()
pytestmark = pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")
WAITS = "echo begun >begun; cat begun; until [ -e go ]; do sleep 0.05; done"


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    return own_harness(OSTLER_SANDBOX__MODE="on")


def list_hidden(driver: SessionDriver) -> list[str]:
    """The empty folders that stand in for what must not be created."""
    return [name for name in os.listdir(driver.folder) if name.startswith(".") or name == "HEAD"]


def start_foreground_command(harness: Harness) -> SessionDriver:
    """A session whose command runs."""
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(calls("Bash", {"command": WAITS})), otherwise=message(says("Done.")))
    driver.start()
    wait_until((driver.folder / "begun").exists)
    assert len(list_hidden(driver)) > 20
    return driver


def test_a_crash_in_the_middle_of_a_command_leaves_nothing_in_the_project(harness: Harness) -> None:
    driver = start_foreground_command(harness)
    harness.restart()
    wait_until(lambda: not list_hidden(driver))
    wait_until(lambda: not os.listdir(harness.daemon.home / "tasks"))


def test_a_task_that_was_found_again_keeps_its_names_until_its_end(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, WAITS)
    wait_for_output(harness.daemon, task, "begun")
    other = start_foreground_command(harness)
    names = list_hidden(driver)
    assert harness.daemon.stop() == 0
    harness.daemon.start()
    driver.reconnect()
    wait_until(lambda: not list_hidden(other))
    assert list_hidden(driver) == names
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert list_hidden(driver) == []


def test_a_task_that_ended_without_a_daemon_leaves_nothing_in_the_project(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, WAITS)
    wait_for_output(harness.daemon, task, "begun")
    harness.daemon.kill()
    (driver.folder / "go").touch()
    harness.daemon.start()
    driver.reconnect(0)
    assert wait_for_task_end(driver, task)["status"] == "completed"
    wait_until(lambda: not list_hidden(driver))


def test_a_deleted_session_leaves_nothing_in_the_project(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, WAITS)
    wait_for_output(harness.daemon, task, "begun")
    harness.restart()
    harness.daemon.call("session/delete", session_id=driver.id)
    assert list_hidden(driver) == []
    assert os.listdir(harness.daemon.home / "tasks") == []


PLANTS = f"mkdir sub; python3 -c \"open('sub/.np' + 'mrc', 'w').write('evil')\"; {WAITS}"


@pytest.mark.parametrize("between", ["nothing", "a stop", "a crash"])
def test_a_guarded_name_that_a_background_command_made_is_set_aside_at_its_end(harness: Harness, between: str) -> None:
    driver, (task,) = open_session_with_tasks(harness, PLANTS)
    wait_for_output(harness.daemon, task, "begun")
    assert (driver.folder / "sub/.npmrc").exists()
    if between != "nothing":
        if between == "a stop":
            assert harness.daemon.stop() == 0
        else:
            harness.daemon.kill()
        harness.daemon.start()
        driver.reconnect()
    (driver.folder / "go").touch()
    assert wait_for_task_end(driver, task)["status"] == "completed"
    assert os.listdir(driver.folder / "sub") == ["set-aside.npmrc.1"]
    wait_for_output(harness.daemon, task, "set-aside.npmrc.1")


def test_a_guarded_name_that_a_command_made_before_a_crash_is_set_aside_by_the_next_daemon(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(calls("Bash", {"command": PLANTS})), otherwise=message(says("Done.")))
    driver.start()
    wait_until((driver.folder / "begun").exists)
    harness.restart()
    wait_until(lambda: os.listdir(driver.folder / "sub") == ["set-aside.npmrc.1"])


@pytest.mark.parametrize("between", ["nothing", "a stop"])
def test_a_background_command_is_ended_by_its_limit_which_is_named(
    own_harness: Callable[..., Harness], between: str
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on", OSTLER_SANDBOX__MEMORY_MB="64")
    hold = "import time; held = bytearray(150 << 20); time.sleep(60)"
    driver, (task,) = open_session_with_tasks(harness, f'{"" if between == "nothing" else WAITS}\npython3 -c "{hold}"')
    if between != "nothing":
        wait_for_output(harness.daemon, task, "begun")
        assert harness.daemon.stop() == 0
        harness.daemon.start()
        driver.reconnect()
        (driver.folder / "go").touch()
    ended = wait_for_task_end(driver, task)
    assert ended["status"] == "failed"
    assert "memory_mb" in ended["error"]

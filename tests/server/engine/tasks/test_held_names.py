"""The names that are kept from being created while a command runs in the sandbox: gone with it, whatever happens."""

import os
from collections.abc import Callable

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.background_commands import ended, printed, talk_behind
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message, says

SANDBOX = probe_sandbox()
pytestmark = pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")
WAITS = "echo begun >begun; cat begun; until [ -e go ]; do sleep 0.05; done"


@pytest.fixture
def stage(own_stage: Callable[..., Stage]) -> Stage:
    return own_stage(OSTLER_SANDBOX__MODE="on")


def hidden(talk: Talk) -> list[str]:
    """The empty folders that stand in for what must not be created."""
    return [name for name in os.listdir(talk.folder) if name.startswith(".") or name == "HEAD"]


def in_front(stage: Stage) -> Talk:
    """A session whose command runs."""
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(talk.name, message(calls("Bash", {"command": WAITS})), otherwise=message(says("Done.")))
    talk.start()
    wait_until((talk.folder / "begun").exists)
    assert len(hidden(talk)) > 20
    return talk


def test_a_crash_in_the_middle_of_a_command_leaves_nothing_in_the_project(stage: Stage) -> None:
    talk = in_front(stage)
    stage.restart()
    wait_until(lambda: not hidden(talk))
    wait_until(lambda: not os.listdir(stage.daemon.home / "tasks"))


def test_a_task_that_was_found_again_keeps_its_names_until_its_end(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, WAITS)
    printed(stage.daemon, task, "begun")
    other = in_front(stage)
    names = hidden(talk)
    assert stage.daemon.stop() == 0
    stage.daemon.start()
    talk.reconnect()
    wait_until(lambda: not hidden(other))
    assert hidden(talk) == names
    (talk.folder / "go").touch()
    assert ended(talk, task)["status"] == "completed"
    assert hidden(talk) == []


def test_a_task_that_ended_without_a_daemon_leaves_nothing_in_the_project(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, WAITS)
    printed(stage.daemon, task, "begun")
    stage.daemon.kill()
    (talk.folder / "go").touch()
    stage.daemon.start()
    talk.reconnect(0)
    assert ended(talk, task)["status"] == "completed"
    wait_until(lambda: not hidden(talk))


def test_a_deleted_session_leaves_nothing_in_the_project(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, WAITS)
    printed(stage.daemon, task, "begun")
    stage.restart()
    stage.daemon.call("session/delete", session_id=talk.id)
    assert hidden(talk) == []
    assert os.listdir(stage.daemon.home / "tasks") == []

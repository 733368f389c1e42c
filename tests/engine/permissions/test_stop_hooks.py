"""Hooks at the end of a turn hold nobody up who wants something else."""

from pathlib import Path
from typing import Any

import pytest

from tests.daemon import wait_until
from tests.engine.driver import Stage, Talk, no_children
from tests.engine.permissions.hooks import declared, hooked
from tests.engine.permissions.projects import OURS, project, talk_of
from tests.messages_api.replies import message, says

NEVER = "touch here; exec sleep 1000"
ONCE = "if [ ! -e here ]; then touch here; exec sleep 1000; fi; touch again"


def at_the_hook(stage: Stage, folder: Path, **turn: Any) -> tuple[Talk, str]:
    talk = stage.talk(message(says("Done.")), otherwise=message(says("And more.")), folder=folder, trust=True)
    turn_id = talk.start(**turn)
    wait_until((folder / "here").exists)
    return talk, turn_id


def test_an_interrupt_does_not_wait_for_a_stop_hook(stage: Stage) -> None:
    talk, turn_id = at_the_hook(stage, hooked(stage, "Stop", NEVER))
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("interrupted", "Done.")
    no_children(stage.daemon)


def test_the_time_limit_does_not_wait_for_a_stop_hook(stage: Stage) -> None:
    talk = talk_of(stage, folder=hooked(stage, "Stop", NEVER), trust=True)
    assert talk.turn(timeout_ms=500)["reason"] == "timeout"


def test_deleting_a_session_does_not_wait_for_its_stop_hook(stage: Stage) -> None:
    talk, _ = at_the_hook(stage, hooked(stage, "Stop", NEVER))
    stage.daemon.call("session/delete", session_id=talk.id)
    stage.talks.remove(talk)
    talk.stream.close()


@pytest.mark.parametrize("now", [True, False])
def test_input_that_is_to_be_heard_at_once_does_not_wait_for_a_stop_hook(stage: Stage, now: bool) -> None:
    until_go = "if [ ! -e here ]; then touch here; until [ -e go ]; do sleep 0.02; done; fi"
    folder = hooked(stage, "Stop", ONCE if now else until_go)
    talk, turn_id = at_the_hook(stage, folder)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="One thing more.", now=now)
    if not now:
        (folder / "go").touch()
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "And more.", 2)


def test_a_stop_hook_that_blocked_input_has_ended_is_asked_again(stage: Stage) -> None:
    blocks = declared("UserPromptSubmit", "cat > told; if grep -q 4111 told; then echo no >&2; exit 2; fi")
    folder = project(stage, {OURS: {"hooks": {**blocks["hooks"], **declared("Stop", ONCE)["hooks"]}}})
    talk, turn_id = at_the_hook(stage, folder)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.", now=True)
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 1)
    assert (folder / "again").exists()

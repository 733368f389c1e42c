"""Hooks at the end of a turn hold nobody up who wants something else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk, no_children
from tests.support.hooks import declared, hooked
from tests.support.messages_api.replies import message, says
from tests.support.projects import OURS, project, talk_of

NEVER = "touch here; exec sleep 1000"
ONCE = "if [ ! -e here ]; then touch here; exec sleep 1000; fi; touch again"


def at_the_hook(stage: Stage, folder: Path, **session: Any) -> tuple[Talk, str]:
    more = message(says("And more."))
    talk = stage.talk(message(says("Done.")), otherwise=more, folder=folder, trust=True, **session)
    turn_id = talk.start()
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


def test_input_of_a_turn_that_was_about_to_end_is_answered_after_a_restart(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, "Stop", ONCE)
    talk, turn_id = at_the_hook(stage, folder, on_restart="resume")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="One thing more.")
    stage.restart()
    turn = stage.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)
    assert (turn["reason"], turn["result_text"]) == ("completed", "And more.")
    told = [block["text"] for block in talk.requests[1].messages[-1]["content"]]
    assert told[0] == "One thing more."
    assert "The daemon was restarted" in told[1]


def test_a_stop_hook_that_blocked_input_has_ended_is_asked_again(stage: Stage) -> None:
    blocks = declared("UserPromptSubmit", "cat > told; if grep -q 4111 told; then echo no >&2; exit 2; fi")
    folder = project(stage, {OURS: {"hooks": {**blocks["hooks"], **declared("Stop", ONCE)["hooks"]}}})
    talk, turn_id = at_the_hook(stage, folder)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.", now=True)
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 1)
    assert (folder / "again").exists()

"""Hooks around a turn: its input, its end, and the beginning of its session."""

from collections.abc import Callable

import pytest

from tests.support.driver import Stage
from tests.support.hooks import deciding, declared, hooked, printing, request_text, runs_of, told
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import bash
from tests.support.projects import OURS, notices, project, runs, talk_of, write

SUBMIT = "UserPromptSubmit"


def test_words_that_a_hook_adds_to_a_prompt_reach_the_model(stage: Stage) -> None:
    folder = hooked(stage, SUBMIT, deciding(SUBMIT, additionalContext="we use tabs"))
    talk = talk_of(stage, folder=folder, trust=True)
    assert talk.turn("Please format it.")["reason"] == "completed"
    assert told(folder)[0]["prompt"] == talk.input("Please format it.")
    assert "we use tabs" in request_text(talk, 0)


def test_plain_words_of_a_hook_are_words_for_the_model(stage: Stage) -> None:
    folder = hooked(stage, SUBMIT, "echo we use spaces")
    talk = talk_of(stage, folder=folder, trust=True)
    talk.turn()
    assert "we use spaces" in request_text(talk, 0)


def test_a_prompt_that_a_hook_blocks_never_reaches_the_model_and_the_next_turn_works(stage: Stage) -> None:
    blocking = f"{printing({})}; if grep -q 4111 told; then echo no card numbers >&2; exit 2; fi"
    folder = hooked(stage, SUBMIT, blocking)
    talk = talk_of(stage, folder=folder, trust=True)
    turn = talk.turn("My card is 4111.")
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "no card numbers")
    assert talk.requests == []
    (folder / "told").unlink()
    assert talk.turn("Something else.")["reason"] == "completed"
    assert "4111" not in request_text(talk, 0)
    assert all("4111" not in str(each["content"]) for each in talk.messages())


def test_a_blocked_prompt_stays_out_after_a_restart(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, "echo no >&2; exit 2")
    talk = talk_of(stage, folder=folder, trust=True)
    assert talk.turn("My card is 4111.")["reason"] == "stopped_by_hook"
    write(folder, OURS, {})
    stage.restart()
    assert talk.turn("Something else.")["reason"] == "completed"
    assert "4111" not in request_text(talk, 0)


def test_a_stop_hook_makes_the_turn_go_on_and_knows_when_it_has(stage: Stage) -> None:
    command = "cat > now; cat now >> told; echo >> told; grep -q 'stop_hook_active\": *true' now && exit 0; "
    folder = hooked(stage, "Stop", f"{command} echo run the tests first >&2; exit 2")
    talk = stage.talk(message(says("Done.")), message(says("Now tested.")), folder=folder, trust=True)
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Now tested.", 2)
    assert "run the tests first" in request_text(talk, 1)
    assert [given["stop_hook_active"] for given in told(folder)] == [False, True]


def test_a_stop_hook_that_never_lets_go_does_not_keep_the_turn_for_ever(stage: Stage) -> None:
    folder = hooked(stage, "Stop", {"decision": "block", "reason": "more"})
    talk = talk_of(stage, folder=folder, trust=True)
    turn = talk.turn()
    assert turn["reason"] == "completed"
    assert turn["model_requests"] == 11


def test_a_stop_hook_that_says_continue_false_lets_the_turn_end(stage: Stage) -> None:
    folder = hooked(stage, "Stop", {"decision": "block", "reason": "more", "continue": False})
    talk = talk_of(stage, folder=folder, trust=True)
    turn = talk.turn()
    assert turn["model_requests"] == 1
    assert turn["reason"] in {"completed", "stopped_by_hook"}


def test_the_beginning_of_a_session_is_told_once(stage: Stage) -> None:
    folder = hooked(stage, "SessionStart", deciding("SessionStart", additionalContext="the sprint ends today"))
    talk = talk_of(stage, folder=folder, trust=True)
    talk.turn()
    talk.turn()
    assert [given["source"] for given in told(folder)] == ["startup"]
    assert request_text(talk, 1).count("the sprint ends today") == 1


@pytest.mark.parametrize(("method", "reason"), [("session/archive", "archive"), ("session/delete", "delete")])
def test_a_hook_hears_of_the_end_of_a_session(stage: Stage, method: str, reason: str) -> None:
    folder = hooked(stage, "SessionEnd", {})
    talk = talk_of(stage, folder=folder, trust=True)
    talk.turn()
    stage.daemon.call(method, session_id=talk.id)
    assert [(given["session_id"], given["reason"]) for given in told(folder)] == [(talk.id, reason)]


def test_a_change_of_settings_can_be_refused_by_a_hook(stage: Stage) -> None:
    folder = project(stage, {OURS: declared("ConfigChange", "echo leave it >&2; exit 2")})
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    write(folder, OURS, {})
    talk.turn()
    assert any("leave it" in text for text in notices(talk))


def test_hooks_of_one_moment_run_side_by_side_and_the_strictest_wins(stage: Stage) -> None:
    wait_for_each_other = "touch here-{0}; until [ -e here-{1} ]; do sleep 0.01; done; "
    entries = [
        {"type": "command", "command": wait_for_each_other.format(1, 2) + "echo '{}'"},
        {"type": "command", "command": wait_for_each_other.format(2, 1) + "echo no >&2; exit 2"},
    ]
    folder = project(stage, {OURS: {"hooks": {"PreToolUse": [{"hooks": entries}]}}})
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert sorted(run["outcome"] for run in runs_of(talk)) == ["denied", "passed"]
    assert talk.results()[0]["is_error"]

"""Input that hooks have not let pass: whatever ends the daemon or the turn meanwhile, the model is never sent it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import hooked
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE
from tests.support.projects import notices, talk_of

SUBMIT = "UserPromptSubmit"
SLOW = "touch here; until [ -e go ]; do sleep 0.02; done; cat > told; "
NO_CARDS = "if grep -q 4111 told; then echo no card numbers >&2; exit 2; fi"


def sent(talk: Talk) -> str:
    """All that the model was ever sent."""
    return json.dumps([request.messages for request in talk.requests])


def crash_at_the_hook(stage: Stage, folder: Path) -> None:
    wait_until((folder / "here").exists)
    stage.restart()
    (folder / "go").touch()


def rests(stage: Stage, turn_id: str) -> Json:
    turn: Json = stage.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)
    return turn


def test_unheard_input_is_taken_back_with_its_turn(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, SLOW + NO_CARDS)
    talk = talk_of(stage, folder=folder, trust=True)
    turn_id = talk.start("My card is 4111.")
    crash_at_the_hook(stage, folder)
    assert rests(stage, turn_id)["reason"] == "interrupted"
    assert talk.messages() == []
    assert talk.turn("Something else.")["reason"] == "completed"
    assert "4111" not in sent(talk)


@pytest.mark.parametrize(
    ("words", "reason", "requests"), [("My card is 4111.", "stopped_by_hook", 0), ("Good day.", "completed", 1)]
)
def test_hooks_hear_it_again_where_the_session_resumes(
    own_stage: Callable[..., Stage], words: str, reason: str, requests: int
) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, SLOW + NO_CARDS)
    talk = talk_of(stage, folder=folder, trust=True, on_restart="resume")
    turn_id = talk.start(words)
    crash_at_the_hook(stage, folder)
    assert rests(stage, turn_id)["reason"] == reason
    assert words in (folder / "told").read_text()
    assert len(talk.requests) == requests
    talk.turn("Something else.")
    assert "4111" not in sent(talk)


def test_an_answer_about_trust_lets_no_input_pass_unheard(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, SLOW + NO_CARDS)
    talk = talk_of(stage, folder=folder, on_restart="resume")
    turn_id = talk.start("My card is 4111.")
    talk.answer(talk.ask(), "trust")
    crash_at_the_hook(stage, folder)
    assert rests(stage, turn_id)["reason"] == "stopped_by_hook"
    assert talk.requests == []


def test_input_that_hooks_have_let_pass_stays_after_a_crash(own_stage: Callable[..., Stage]) -> None:
    stage, gate = own_stage(), Gate()
    folder = hooked(stage, SUBMIT, "cat >> told; echo >> told")
    talk = stage.talk(
        attempts(message(says("So ", hold(gate), "far.")), DONE), otherwise=DONE, folder=folder, trust=True
    )
    turn_id = talk.start("Good day.")
    talk.wait("message.delta")
    stage.restart()
    assert rests(stage, turn_id)["reason"] == "interrupted"
    assert "Good day." in str(talk.messages()[0]["content"])
    assert len((folder / "told").read_text().splitlines()) == 1


@pytest.mark.parametrize("on_restart", ["interrupt", "resume"])
def test_the_end_of_a_task_that_unheard_input_told_is_told_with_the_next(
    own_stage: Callable[..., Stage], on_restart: str
) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, SLOW + NO_CARDS)
    (folder / "go").touch()
    background = {"command": "until [ -e on ]; do sleep 0.02; done", "run_in_background": True}
    talk = talk_of(
        stage, calls("Bash", background), folder=folder, trust=True, rules={"allow": ["Bash"]}, on_restart=on_restart
    )
    talk.turn()
    (folder / "on").touch()
    task = talk.wait("task.ended")["data"]["task"]
    (folder / "go").unlink()
    (folder / "here").unlink()
    turn_id = talk.start("My card is 4111.")
    crash_at_the_hook(stage, folder)
    assert rests(stage, turn_id)["reason"] == ("interrupted" if on_restart == "interrupt" else "stopped_by_hook")
    news = f"task {task['id']} is done"
    assert news not in sent(talk)
    talk.turn("Something else.")
    assert sent(talk).count(news) == 1
    assert "4111" not in sent(talk)


def test_the_mode_that_unheard_input_told_is_told_with_the_next(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, SUBMIT, SLOW)
    (folder / "go").touch()
    talk = talk_of(stage, folder=folder, trust=True)
    talk.turn()
    (folder / "go").unlink()
    (folder / "here").unlink()
    turn_id = talk.start("My card is 4111.", mode="plan")
    crash_at_the_hook(stage, folder)
    assert rests(stage, turn_id)["reason"] == "interrupted"
    talk.turn("Something else.")
    assert sent(talk).count("The permission mode is now plan") == 1


def test_an_interrupt_while_hooks_hear_the_input_takes_it_back(stage: Stage) -> None:
    folder = hooked(stage, SUBMIT, SLOW)
    talk = talk_of(stage, folder=folder, trust=True)
    turn_id = talk.start("My card is 4111.")
    wait_until((folder / "here").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    (folder / "go").touch()
    assert talk.turn("Something else.")["reason"] == "completed"
    assert "4111" not in sent(talk)
    assert "4111" not in str(talk.messages())


# Further input, while a turn runs.

NO_CARDS_AT_ONCE = f"cat > told; cat told >> all; echo >> all; {NO_CARDS}"


def gated(stage: Stage, command: str, **session: Any) -> tuple[Talk, str]:
    """A turn whose first call stands at a gate, in a folder where a hook hears of input."""
    talk = stage.talk(folder=hooked(stage, SUBMIT, command), trust=True, **session)
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("gate")})), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("gate")
    return talk, turn_id


def test_further_input_that_a_hook_blocks_does_not_join_and_its_client_is_told(stage: Stage) -> None:
    talk, turn_id = gated(stage, NO_CARDS_AT_ONCE)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="Be brief.")
    talk.open_gate("gate")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert "4111" not in sent(talk)
    assert "Be brief." in sent(talk)
    assert any("no card numbers" in text for text in notices(talk))
    talk.turn("Something else.")
    assert "4111" not in sent(talk)


def test_blocked_input_that_stops_the_running_calls_leaves_a_turn_that_goes_on(stage: Stage) -> None:
    talk, turn_id = gated(stage, NO_CARDS_AT_ONCE)
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.", now=True)
    assert talk.ended(turn_id)["reason"] == "completed"
    assert "4111" not in sent(talk)


def test_what_a_hook_says_about_further_input_joins_with_it(stage: Stage) -> None:
    talk, turn_id = gated(stage, "cat > told; if grep -q format told; then echo we use tabs; fi")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="Please format it.")
    talk.open_gate("gate")
    talk.ended(turn_id)
    texts = [block.get("text", "") for block in talk.requests[1].messages[-1]["content"]]
    assert next(text for text in texts if text) == "Please format it."
    assert "we use tabs" in texts[-1]


def test_a_turn_whose_only_further_input_is_blocked_ends_with_what_it_had_said(stage: Stage) -> None:
    gate = Gate()
    folder = hooked(stage, SUBMIT, NO_CARDS_AT_ONCE)
    talk = stage.talk(message(says("Done.", hold(gate))), otherwise=DONE, folder=folder, trust=True)
    turn_id = talk.start()
    talk.wait("message.delta")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    gate.open()
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 1)


def test_a_hook_that_stops_the_work_over_further_input_ends_the_turn(stage: Stage) -> None:
    stopping = json.dumps({"continue": False, "stopReason": "that is enough"})
    talk, turn_id = gated(stage, f"cat > told; if grep -q 4111 told; then echo '{stopping}'; fi")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    talk.open_gate("gate")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "that is enough")
    assert "4111" not in sent(talk)
    assert "4111" not in str(talk.messages())


def test_an_interrupt_does_not_wait_for_hooks_that_hear_further_input(stage: Stage) -> None:
    talk, turn_id = gated(stage, "cat > told; if grep -q 4111 told; then touch here; exec sleep 50; fi")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    talk.open_gate("gate")
    wait_until((talk.folder / "here").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    # What was accepted starts the next turn, whose hooks hear it from the beginning.
    next_id = talk.wait("turn.started", lambda data: data["turn"]["id"] != turn_id)["data"]["turn"]["id"]
    stage.daemon.call("turn/interrupt", turn_id=next_id)
    talk.ended(next_id)
    assert "4111" not in sent(talk)


def test_further_input_that_hooks_had_not_heard_at_a_crash_is_heard_afterwards(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage()
    slow = f"cat > told; if grep -q 4111 told; then touch here; until [ -e go ]; do sleep 0.02; done; {NO_CARDS}; fi"
    talk, turn_id = gated(stage, slow, on_restart="resume")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="My card is 4111.")
    talk.open_gate("gate")
    crash_at_the_hook(stage, talk.folder)
    assert rests(stage, turn_id)["reason"] == "completed"
    assert "4111" not in sent(talk)

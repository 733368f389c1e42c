"""Input that hooks have not let pass: whatever ends the daemon or the turn meanwhile, the model is never sent it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon import wait_until
from tests.engine.driver import Json, Stage, Talk
from tests.engine.permissions.hooks import hooked
from tests.engine.permissions.projects import DONE, talk_of
from tests.messages_api.acts import Gate
from tests.messages_api.replies import calls, hold, message, says
from tests.messages_api.scripts import attempts

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

"""A fork has a history of its own, and one that can be sent."""

import pytest

from tests.support.driver import Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE


def fork_of(stage: Stage, talk: Talk, message_id: str | None = None) -> Talk:
    params = {} if message_id is None else {"message_id": message_id}
    session = stage.daemon.call("session/fork", session_id=talk.id, **params)
    fork = Talk(talk.daemon, talk.api, talk.name, talk.folder, session, talk.daemon.follow(f"?session={session['id']}"))
    stage.talks.append(fork)
    return fork


@pytest.mark.parametrize("place", range(6))
def test_a_fork_from_any_message_can_go_on(stage: Stage, place: int) -> None:
    stage.api.may_rewrite = True  # the fork says something else where the session had spoken already
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    read = calls("Read", {"file_path": path})
    two = calls("Bash", {"command": "true"})
    stage.api.script(talk.name, message(says("I look."), read, read), message(two), otherwise=DONE)
    talk.turn(mode="dontAsk")
    history = talk.messages()
    assert len(history) == 6
    fork = fork_of(stage, talk, history[place]["id"])
    turn = fork.turn("And now something else.")
    assert (turn["reason"], turn["result_text"], turn["error"]) == ("completed", "Done.", None)
    assert [one["content"] for one in talk.messages()] == [one["content"] for one in history]
    fork.is_usable()
    talk.is_usable()


def test_a_fork_of_a_session_whose_calls_run_can_go_on(stage: Stage) -> None:
    stage.api.may_rewrite = True
    talk = stage.talk()
    stage.api.script(talk.name, message(says("I wait."), calls("Gate", {"path": talk.gate("go")})), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("go")
    talk.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    fork = fork_of(stage, talk)
    assert fork.turn("Without waiting.")["reason"] == "completed"
    assert talk.state()["status"] == "running"
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.result_texts() == ["passed go"]
    talk.is_usable()


def test_a_fork_of_a_session_whose_model_speaks_has_what_is_complete(stage: Stage) -> None:
    gate = Gate()
    stage.api.may_rewrite = True
    talk = stage.talk(DONE, message(says("Slowly ", hold(gate), "now.")), otherwise=DONE)
    talk.turn()
    turn_id = talk.start()
    talk.wait("message.delta", lambda data: data["text"] == "Slowly ")
    fork = fork_of(stage, talk)
    assert [role for role, _ in fork.transcript()] == ["user", "assistant", "user"]
    gate.open()
    talk.ended(turn_id)
    talk.is_usable()

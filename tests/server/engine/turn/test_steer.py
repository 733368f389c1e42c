"""Words that reach a turn while it runs, and turns that wait for their turn."""

import pytest

from tests.support.driver import Json, Stage, Talk, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says

WORDS = message(says("Done."))


def steer(talk: Talk, turn_id: str, text: str, *, now: bool = False) -> Json:
    turn: Json = talk.daemon.call("turn/steer", turn_id=turn_id, input=text, now=now)
    return turn


def texts(sent: Json) -> list[str]:
    return [block["text"] for block in sent["content"] if block["type"] == "text"]


def test_a_steer_joins_at_the_next_request(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("go")})), WORDS)
    turn_id = talk.start()
    talk.at_gate("go")
    assert steer(talk, turn_id, "Mind the gap.")["id"] == turn_id
    talk.open_gate("go")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["model_requests"]) == ("completed", 2)
    assert talk.transcript()[2] == ("user", ["tool_result", "text"])
    assert texts(talk.requests[1].messages[-1]) == ["Mind the gap."]
    assert talk.result_texts() == ["passed go"]
    talk.is_usable()


def test_several_steers_join_in_their_order(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("go")})), WORDS)
    turn_id = talk.start()
    talk.at_gate("go")
    for word in ("one", "two", "three"):
        steer(talk, turn_id, word)
    talk.open_gate("go")
    talk.ended(turn_id)
    assert texts(talk.requests[1].messages[-1]) == ["one", "two", "three"]


def test_a_steer_while_the_last_message_streams_keeps_the_turn_going(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("I am ", hold(gate), "done.")), message(says("Now I am.")))
    turn_id = talk.start()
    talk.wait("message.delta")
    steer(talk, turn_id, "One more thing.")
    gate.open()
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Now I am.", 2)
    assert texts(talk.requests[1].messages[-1]) == ["One more thing."]
    assert talk.messages()[1]["content"] == [{"type": "text", "text": "I am done."}]
    talk.is_usable()


def test_a_steer_now_stops_the_running_command(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = "echo $$ > pid; exec sleep 1000"
    stage.api.script(talk.name, message(calls("Bash", {"command": command}), calls("Bash", {"command": "true"})), WORDS)
    turn_id = talk.start()
    pid = int(talk.written("pid"))
    steer(talk, turn_id, "Not that.", now=True)
    turn = talk.ended(turn_id)
    assert turn["reason"] == "completed"
    assert is_gone(pid)
    assert texts(talk.requests[1].messages[-1]) == ["Not that."]
    assert [result["is_error"] for result in talk.results()] == [True, True]
    assert all("the person said something" in text for text in talk.result_texts())
    talk.is_usable()


def test_a_steer_now_lets_calls_that_must_finish_finish(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("StubbornGate", {"path": talk.gate("go")})), WORDS)
    turn_id = talk.start()
    talk.at_gate("go")
    steer(talk, turn_id, "Hurry.", now=True)
    assert "tool.completed" not in talk.types()
    talk.open_gate("go")
    talk.ended(turn_id)
    assert talk.result_texts() == ["passed go"]
    assert texts(talk.requests[1].messages[-1]) == ["Hurry."]
    talk.is_usable()


def test_a_steer_now_while_the_model_speaks_is_heard_at_once(stage: Stage) -> None:
    talk = stage.talk(message(says("A long ", hold(Gate()), "story.")), WORDS)
    turn_id = talk.start()
    talk.wait("message.delta")
    steer(talk, turn_id, "Shorter, please.", now=True)
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert talk.requests[0].wait_until_ended() == "left"
    assert talk.messages()[1]["content"] == [{"type": "text", "text": "A long "}]
    assert texts(talk.requests[1].messages[-1]) == ["Shorter, please."]
    talk.is_usable()


def test_a_steer_now_while_an_ask_is_open_takes_the_ask_back(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn_id = talk.start()
    ask = talk.ask()
    steer(talk, turn_id, "Something else.", now=True)
    assert talk.wait("ask.resolved")["data"]["ask"]["status"] == "cancelled"
    assert talk.ended(turn_id)["reason"] == "completed"
    assert stage.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    assert talk.types("turn.updated") == ["turn.updated", "turn.updated"]
    talk.is_usable()


def test_a_steer_that_an_ended_turn_did_not_read_starts_the_next_one(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("StubbornGate", {"path": talk.gate("go")})), WORDS)
    turn_id = talk.start()
    talk.at_gate("go")
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    steer(talk, turn_id, "Then this.")
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == "interrupted"
    following = talk.ended()
    assert following["id"] != turn_id
    assert (following["reason"], following["result_text"]) == ("completed", "Done.")
    assert "Then this." in texts(talk.requests[1].messages[-1])
    assert [turn["id"] for turn in stage.daemon.call("turn/list", session_id=talk.id)["turns"]] == [
        turn_id,
        following["id"],
    ]
    talk.is_usable()


@pytest.mark.parametrize("end", ["interrupt", "max_requests"])
def test_a_steer_that_no_request_of_its_turn_carries_starts_the_next_one(stage: Stage, end: str) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("StubbornGate", {"path": talk.gate("go")})), WORDS)
    turn_id = talk.start(max_requests=1)
    talk.at_gate("go")
    steer(talk, turn_id, "Then this.")
    if end == "interrupt":
        stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == ("interrupted" if end == "interrupt" else "max_requests")
    following = talk.ended()
    assert (following["reason"], following["result_text"]) == ("completed", "Done.")
    assert str(talk.requests[1].messages).count("Then this.") == 1
    talk.is_usable()


def test_a_steer_after_the_end_is_refused(stage: Stage) -> None:
    talk = stage.talk(WORDS)
    turn_id = talk.start()
    talk.ended(turn_id)
    error = talk.refused("turn/steer", turn_id=turn_id, input="Too late.")
    assert error["data"]["code"] == "no_turn_running"
    assert len(talk.messages()) == 2
    talk.is_usable()


# Queues.


def test_a_second_turn_is_refused_while_one_runs(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Wait ", hold(gate))), WORDS)
    turn_id = talk.start()
    error = talk.refused("turn/start", session_id=talk.id, input="Me too.")
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("turn_running", turn_id)
    gate.open()
    talk.ended(turn_id)
    assert len(talk.messages()) == 2
    talk.is_usable()


def test_queued_turns_run_one_after_the_other_in_their_order(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Zero", hold(gate))), *(message(says(word)) for word in ("One", "Two", "Three")))
    first = talk.start("0")
    queued = [talk.start(str(n), queue=True) for n in (1, 2, 3)]
    assert [data["turn"]["id"] for data in (talk.wait("turn.queued")["data"] for _ in queued)] == queued
    listed = stage.daemon.call("turn/list", session_id=talk.id)["turns"]
    assert [turn["status"] for turn in listed] == ["running", "queued", "queued", "queued"]
    gate.open()
    ended = [talk.ended() for _ in range(4)]
    assert [turn["id"] for turn in ended] == [first, *queued]
    assert [turn["result_text"] for turn in ended] == ["Zero", "One", "Two", "Three"]
    assert talk.types("turn.started", "turn.ended") == ["turn.started", "turn.ended"] * 4
    asked = [one["content"][-1]["text"].split()[-1] for one in talk.messages() if one["role"] == "user"]
    assert asked == ["0", "1", "2", "3"]
    talk.is_usable()


def test_a_queued_turn_keeps_what_was_said_for_it(stage: Stage) -> None:
    gate = Gate()
    stage.api.may_rewrite = True  # another model is another prefix
    talk = stage.talk(message(says("Zero", hold(gate))), message(calls("Nothing", {})), message(calls("Nothing", {})))
    talk.start("0")
    queued = talk.start("1", queue=True, model="claude-haiku-4-5", max_requests=2, mode="plan")
    assert talk.state()["mode"] == "default"
    gate.open()
    turn = talk.ended(queued)
    assert (turn["reason"], turn["model_requests"]) == ("max_requests", 2)
    assert talk.requests[-1].body["model"] == "claude-haiku-4-5"
    assert talk.state()["mode"] == "plan"


def test_a_queued_turn_can_be_taken_back(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Zero", hold(gate))), message(says("Two")))
    first = talk.start("0")
    gone, stays = talk.start("1", queue=True), talk.start("2", queue=True)
    ended = stage.daemon.call("turn/interrupt", turn_id=gone)
    assert (ended["status"], ended["reason"]) == ("ended", "interrupted")
    assert talk.ended(gone)["started_at"] is None
    assert talk.refused("turn/interrupt", turn_id=gone)["data"]["code"] == "no_turn_running"
    gate.open()
    assert talk.ended(first)["reason"] == "completed"
    assert talk.ended(stays)["result_text"] == "Two"
    assert len(talk.messages()) == 4
    talk.is_usable()


def test_no_more_than_a_hundred_turns_and_inputs_wait(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("go")})), otherwise=WORDS)
    first = talk.start()
    talk.at_gate("go")
    for _ in range(100):
        talk.start("Later.", queue=True)
        steer(talk, first, "And.")
    for method, params in (
        ("turn/start", {"session_id": talk.id, "input": "Later.", "queue": True}),
        ("turn/steer", {"turn_id": first, "input": "And."}),
    ):
        error = talk.refused(method, **params)
        assert error["data"]["code"] == "overloaded"
        assert error["data"]["retry_after_ms"] > 0
    stage.daemon.call("session/delete", session_id=talk.id)
    assert len(talk.requests) == 1


def test_an_interrupt_goes_on_with_the_queue(stage: Stage) -> None:
    talk = stage.talk(message(says("Zero", hold(Gate()))), message(says("One")))
    first = talk.start("0")
    talk.wait("message.delta")
    queued = talk.start("1", queue=True)
    stage.daemon.call("turn/interrupt", turn_id=first)
    assert talk.ended(first)["reason"] == "interrupted"
    assert talk.ended(queued)["result_text"] == "One"
    talk.is_usable()


def test_an_unread_steer_comes_before_the_queue(stage: Stage) -> None:
    talk = stage.talk()
    call = calls("StubbornGate", {"path": talk.gate("go")})
    stage.api.script(talk.name, message(call), message(says("Steered.")), message(says("Queued.")))
    first = talk.start("0")
    talk.at_gate("go")
    queued = talk.start("1", queue=True)
    stage.daemon.call("turn/interrupt", turn_id=first)
    steer(talk, first, "Before that.")
    talk.open_gate("go")
    ended = [talk.ended() for _ in range(3)]
    assert [turn["result_text"] for turn in ended] == [None, "Steered.", "Queued."]
    assert ended[2]["id"] == queued
    talk.is_usable()

"""Stopping a turn in the middle of whatever it does."""

import pytest

from tests.support.driver import Stage, Talk, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.failures import hangs, rate_limited
from tests.support.messages_api.replies import after, calls, calls_raw, hold, message, says, thinks


def interrupt(talk: Talk, turn_id: str) -> None:
    turn = talk.daemon.call("turn/interrupt", turn_id=turn_id)
    assert turn["id"] == turn_id


def test_an_interrupt_while_the_model_speaks_keeps_what_it_said(stage: Stage) -> None:
    talk = stage.talk(message(says("First words ", hold(Gate()), "never")))
    turn_id = talk.start()
    talk.wait("message.delta")
    interrupt(talk, turn_id)
    turn = talk.ended(turn_id)
    assert (turn["status"], turn["reason"], turn["error"]) == ("ended", "interrupted", None)
    assert talk.requests[0].wait_until_ended() == "left"
    assert talk.messages()[1]["content"] == [{"type": "text", "text": "First words "}]
    assert talk.messages()[1]["stop_reason"] is None
    talk.is_usable()


def test_an_interrupt_before_the_model_says_anything_leaves_the_input(stage: Stage) -> None:
    talk = stage.talk(hangs())
    turn_id = talk.start()
    stage.api.wait_for_requests(len(stage.api.requests) + (not talk.requests))
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.transcript() == [("user", ["text"])]
    talk.is_usable()


def test_an_interrupt_while_the_model_thinks_drops_thoughts_without_signature(stage: Stage) -> None:
    talk = stage.talk(message(thinks("I wonder ", hold(Gate()))))
    turn_id = talk.start()
    talk.wait("message.delta")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.transcript() == [("user", ["text"])]
    assert talk.types().count("message.aborted") == 1
    talk.is_usable()


def test_an_interrupt_in_the_middle_of_a_call_that_is_being_written_drops_it(stage: Stage) -> None:
    talk = stage.talk(message(says("I write."), calls_raw("Write", '{"file_path": "a', hold(Gate()))))
    turn_id = talk.start()
    talk.wait("message.delta", lambda data: data["kind"] == "tool_input")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["text"])]
    talk.is_usable()


def test_an_interrupt_ends_a_running_command_with_all_its_processes(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = "sh -c 'echo $$ > inner; exec sleep 1000' & echo $$ > outer; wait"
    stage.api.script(talk.name, message(calls("Bash", {"command": command}), calls("Bash", {"command": "true"})))
    turn_id = talk.start()
    pids = [int(talk.written(name)) for name in ("inner", "outer")]
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert [is_gone(pid) for pid in pids] == [True, True]
    first, second = talk.results()
    assert (first["is_error"], second["is_error"]) == (True, True)
    assert ["Interrupted by the person" in text for text in talk.result_texts()] == [True, True]
    talk.is_usable()


def test_the_next_turn_knows_that_the_last_one_was_stopped(stage: Stage) -> None:
    talk = stage.talk(message(says("First words ", hold(Gate()))))
    turn_id = talk.start()
    talk.wait("message.delta")
    interrupt(talk, turn_id)
    talk.ended(turn_id)
    talk.is_usable()
    assert "stopped before its end" in str(talk.requests[-1].messages[-1])


def test_an_interrupt_while_calls_run_and_the_model_speaks_ends_both(stage: Stage) -> None:
    talk = stage.talk()
    gate = {"path": talk.gate("never")}
    stage.api.script(talk.name, message(calls("Gate", gate), says("And ", hold(Gate()))))
    turn_id = talk.start()
    talk.at_gate("never")
    talk.wait("message.delta", lambda data: data["kind"] == "text")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["tool_use", "text"]), ("user", ["tool_result"])]
    assert "Interrupted" in talk.result_texts()[0]
    talk.is_usable()


def test_a_call_that_must_finish_finishes_before_the_turn_ends(stage: Stage) -> None:
    talk = stage.talk()
    stubborn = calls("StubbornGate", {"path": talk.gate("go"), "safe": True})
    other = calls("Gate", {"path": talk.gate("never"), "safe": True})
    last = calls("StubbornGate", {"path": talk.gate("later")})
    stage.api.script(talk.name, message(stubborn, other, last))
    turn_id = talk.start()
    talk.at_gate("go")
    talk.at_gate("never")
    interrupt(talk, turn_id)
    talk.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#1"))
    talk.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#2"))
    assert "turn.ended" not in talk.types()
    assert talk.state()["turn"]["id"] == turn_id
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == "interrupted"
    texts = talk.result_texts()
    assert texts[0] == "passed go"
    assert "before it was finished" in texts[1]
    assert "before it started" in texts[2]
    assert talk.types("tool.started").count("tool.started") == 2
    talk.is_usable()


def test_a_write_is_never_half_done(stage: Stage) -> None:
    talk = stage.talk()
    content = "line\n" * 200_000
    given = {"file_path": f"{talk.folder}/a.txt", "content": content}
    stage.api.script(talk.name, message(calls("Write", given)), message(hold(Gate())))
    turn_id = talk.start(mode="acceptEdits")
    talk.wait("tool.started")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert (talk.folder / "a.txt").read_text() == content
    assert talk.results()[0].get("is_error", False) is False
    talk.is_usable()


def test_an_interrupt_cancels_an_open_ask(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"}), calls("Gate", {"path": "/x"})))
    turn_id = talk.start()
    ask = talk.ask()
    interrupt(talk, turn_id)
    resolved = talk.wait("ask.resolved")["data"]["ask"]
    assert (resolved["id"], resolved["status"], resolved["answer"]) == (ask["id"], "cancelled", None)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    assert (error["data"]["code"], error["data"]["ask"]["status"]) == ("ask_resolved", "cancelled")
    assert all("Interrupted" in text for text in talk.result_texts())
    assert talk.types().count("tool.started") == 0
    talk.is_usable()


def test_an_interrupt_ends_the_wait_before_a_retry(stage: Stage) -> None:
    talk = stage.talk(rate_limited(retry_after="60"))
    turn_id = talk.start()
    talk.wait("model.retrying")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert len(talk.requests) == 1
    talk.is_usable()


def test_an_interrupt_after_the_message_and_before_its_calls_are_done_delivers_every_result(stage: Stage) -> None:
    talk = stage.talk()
    gates = [calls("Gate", {"path": talk.gate(f"g{n}"), "safe": True}) for n in range(12)]
    stage.api.script(talk.name, message(*gates))
    turn_id = talk.start()
    for n in range(10):
        talk.at_gate(f"g{n}")
    talk.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    talk.open_gate("g3")
    talk.at_gate("g10")
    interrupt(talk, turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    texts = talk.result_texts()
    assert len(texts) == 12
    assert texts[3] == "passed g3"
    assert sum("Interrupted" in text for text in texts) == 11
    talk.is_usable()


def test_a_second_interrupt_finds_nothing_to_stop(stage: Stage) -> None:
    talk = stage.talk(message(says("Words.")))
    turn_id = talk.start()
    talk.ended(turn_id)
    error = talk.refused("turn/interrupt", turn_id=turn_id)
    assert error["data"]["code"] == "no_turn_running"


def test_an_interrupt_that_is_repeated_while_the_turn_stops_is_harmless(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("StubbornGate", {"path": talk.gate("go")})))
    turn_id = talk.start()
    talk.at_gate("go")
    interrupt(talk, turn_id)
    interrupt(talk, turn_id)
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.result_texts() == ["passed go"]
    talk.is_usable()


def test_an_unknown_turn_is_named(stage: Stage) -> None:
    for method in ("turn/interrupt", "turn/get", "turn/wait"):
        error = stage.daemon.error(method, turn_id="t_00000000000000000000")
        assert error["data"]["code"] == "turn_not_found"


@pytest.mark.parametrize("place", ["call", "ask"])
def test_deleting_a_session_ends_everything_of_it(stage: Stage, place: str) -> None:
    rules = {"allow": ["Bash"]} if place == "call" else {}
    talk = stage.talk(rules=rules)
    stage.api.script(talk.name, message(calls("Bash", {"command": "echo $$ > pid; exec sleep 1000"})))
    talk.start()
    if place == "call":
        pid = int(talk.written("pid"))
        stage.daemon.call("session/delete", session_id=talk.id)
        assert is_gone(pid)
    else:
        ask = talk.ask()
        stage.daemon.call("session/delete", session_id=talk.id)
        assert talk.refused("ask/get", ask_id=ask["id"])["data"]["code"] == "ask_not_found"
        error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
        assert error["data"]["code"] == "ask_not_found"
        assert stage.daemon.call("ask/list")["asks"] == []
    assert talk.refused("session/get", session_id=talk.id)["data"]["code"] == "session_not_found"
    talk.wait("session.deleted")


def test_deleting_a_session_while_the_model_speaks_leaves_the_model(stage: Stage) -> None:
    talk = stage.talk(after(message(says("First ", hold(Gate())))))
    talk.start()
    talk.wait("message.delta")
    stage.daemon.call("session/delete", session_id=talk.id)
    assert talk.requests[0].wait_until_ended() == "left"
    talk.wait("session.deleted")

"""Stopping a turn in the middle of whatever it does."""

import pytest

from tests.support.driver import Harness, SessionDriver, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.failures import hangs, rate_limited
from tests.support.messages_api.replies import after, calls, calls_raw, hold, message, says, thinks


def interrupt(driver: SessionDriver, turn_id: str) -> None:
    turn = driver.daemon.call("turn/interrupt", turn_id=turn_id)
    assert turn["id"] == turn_id


def test_an_interrupt_while_the_model_speaks_keeps_what_it_said(harness: Harness) -> None:
    driver = harness.open_session(message(says("First words ", hold(Gate()), "never")))
    turn_id = driver.start()
    driver.wait("message.delta")
    interrupt(driver, turn_id)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["status"], turn["reason"], turn["error"]) == ("ended", "interrupted", None)
    assert driver.requests[0].wait_until_ended() == "left"
    assert driver.fetch_messages()[1]["content"] == [{"type": "text", "text": "First words "}]
    assert driver.fetch_messages()[1]["stop_reason"] is None
    driver.expect_usable()


def test_an_interrupt_before_the_model_says_anything_leaves_the_input(harness: Harness) -> None:
    driver = harness.open_session(hangs())
    turn_id = driver.start()
    harness.api.wait_for_requests(len(harness.api.requests) + (not driver.requests))
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_an_interrupt_while_the_model_thinks_drops_thoughts_without_signature(harness: Harness) -> None:
    driver = harness.open_session(message(thinks("I wonder ", hold(Gate()))))
    turn_id = driver.start()
    driver.wait("message.delta")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.outline_messages() == [("user", ["text"])]
    assert driver.list_event_types().count("message.aborted") == 1
    driver.expect_usable()


def test_an_interrupt_in_the_middle_of_a_call_that_is_being_written_drops_it(harness: Harness) -> None:
    driver = harness.open_session(message(says("I write."), calls_raw("Write", '{"file_path": "a', hold(Gate()))))
    turn_id = driver.start()
    driver.wait("message.delta", lambda data: data["kind"] == "tool_input")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    driver.expect_usable()


def test_an_interrupt_ends_a_running_command_with_all_its_processes(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = "sh -c 'echo $$ > inner; exec sleep 1000' & echo $$ > outer; wait"
    harness.api.script(driver.name, message(calls("Bash", {"command": command}), calls("Bash", {"command": "true"})))
    turn_id = driver.start()
    pids = [int(driver.wait_for_file(name)) for name in ("inner", "outer")]
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert [is_gone(pid) for pid in pids] == [True, True]
    first, second = driver.fetch_results()
    assert (first["is_error"], second["is_error"]) == (True, True)
    assert ["Interrupted by the person" in text for text in driver.fetch_result_texts()] == [True, True]
    driver.expect_usable()


def test_the_next_turn_knows_that_the_last_one_was_stopped(harness: Harness) -> None:
    driver = harness.open_session(message(says("First words ", hold(Gate()))))
    turn_id = driver.start()
    driver.wait("message.delta")
    interrupt(driver, turn_id)
    driver.wait_for_turn_end(turn_id)
    driver.expect_usable()
    assert "stopped before its end" in str(driver.requests[-1].messages[-1])


def test_an_interrupt_while_calls_run_and_the_model_speaks_ends_both(harness: Harness) -> None:
    driver = harness.open_session()
    gate = {"path": driver.get_gate_path("never")}
    harness.api.script(driver.name, message(calls("Gate", gate), says("And ", hold(Gate()))))
    turn_id = driver.start()
    driver.wait_at_gate("never")
    driver.wait("message.delta", lambda data: data["kind"] == "text")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.outline_messages() == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "text"]),
        ("user", ["tool_result"]),
    ]
    assert "Interrupted" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_a_call_that_must_finish_finishes_before_the_turn_ends(harness: Harness) -> None:
    driver = harness.open_session()
    stubborn = calls("StubbornGate", {"path": driver.get_gate_path("go"), "safe": True})
    other = calls("Gate", {"path": driver.get_gate_path("never"), "safe": True})
    last = calls("StubbornGate", {"path": driver.get_gate_path("later")})
    harness.api.script(driver.name, message(stubborn, other, last))
    turn_id = driver.start()
    driver.wait_at_gate("go")
    driver.wait_at_gate("never")
    interrupt(driver, turn_id)
    driver.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#1"))
    driver.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#2"))
    assert "turn.ended" not in driver.list_event_types()
    assert driver.fetch_state()["turn"]["id"] == turn_id
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    texts = driver.fetch_result_texts()
    assert texts[0] == "passed go"
    assert "before it was finished" in texts[1]
    assert "before it started" in texts[2]
    assert driver.list_event_types("tool.started").count("tool.started") == 2
    driver.expect_usable()


def test_a_write_is_never_half_done(harness: Harness) -> None:
    driver = harness.open_session()
    content = "line\n" * 200_000
    given = {"file_path": f"{driver.folder}/a.txt", "content": content}
    harness.api.script(driver.name, message(calls("Write", given)), message(hold(Gate())))
    turn_id = driver.start(mode="acceptEdits")
    driver.wait("tool.started")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert (driver.folder / "a.txt").read_text() == content
    assert driver.fetch_results()[0].get("is_error", False) is False
    driver.expect_usable()


def test_an_interrupt_cancels_an_open_ask(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"}), calls("Gate", {"path": "/x"})))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    interrupt(driver, turn_id)
    resolved = driver.wait("ask.resolved")["data"]["ask"]
    assert (resolved["id"], resolved["status"], resolved["answer"]) == (ask["id"], "cancelled", None)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    assert (error["data"]["code"], error["data"]["ask"]["status"]) == ("ask_resolved", "cancelled")
    assert all("Interrupted" in text for text in driver.fetch_result_texts())
    assert driver.list_event_types().count("tool.started") == 0
    driver.expect_usable()


def test_an_interrupt_ends_the_wait_before_a_retry(harness: Harness) -> None:
    driver = harness.open_session(rate_limited(retry_after="60"))
    turn_id = driver.start()
    driver.wait("model.retrying")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert len(driver.requests) == 1
    driver.expect_usable()


def test_an_interrupt_after_the_message_and_before_its_calls_are_done_delivers_every_result(harness: Harness) -> None:
    driver = harness.open_session()
    gates = [calls("Gate", {"path": driver.get_gate_path(f"g{n}"), "safe": True}) for n in range(12)]
    harness.api.script(driver.name, message(*gates))
    turn_id = driver.start()
    for n in range(10):
        driver.wait_at_gate(f"g{n}")
    driver.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    driver.open_gate("g3")
    driver.wait_at_gate("g10")
    interrupt(driver, turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    texts = driver.fetch_result_texts()
    assert len(texts) == 12
    assert texts[3] == "passed g3"
    assert sum("Interrupted" in text for text in texts) == 11
    driver.expect_usable()


def test_a_second_interrupt_finds_nothing_to_stop(harness: Harness) -> None:
    driver = harness.open_session(message(says("Words.")))
    turn_id = driver.start()
    driver.wait_for_turn_end(turn_id)
    error = driver.expect_error("turn/interrupt", turn_id=turn_id)
    assert error["data"]["code"] == "no_turn_running"


def test_an_interrupt_that_is_repeated_while_the_turn_stops_is_harmless(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("StubbornGate", {"path": driver.get_gate_path("go")})))
    turn_id = driver.start()
    driver.wait_at_gate("go")
    interrupt(driver, turn_id)
    interrupt(driver, turn_id)
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.fetch_result_texts() == ["passed go"]
    driver.expect_usable()


def test_an_unknown_turn_is_named(harness: Harness) -> None:
    for method in ("turn/interrupt", "turn/get", "turn/wait"):
        error = harness.daemon.expect_error(method, turn_id="t_00000000000000000000")
        assert error["data"]["code"] == "turn_not_found"


@pytest.mark.parametrize("place", ["call", "ask"])
def test_deleting_a_session_ends_everything_of_it(harness: Harness, place: str) -> None:
    rules = {"allow": ["Bash"]} if place == "call" else {}
    driver = harness.open_session(rules=rules)
    harness.api.script(driver.name, message(calls("Bash", {"command": "echo $$ > pid; exec sleep 1000"})))
    driver.start()
    if place == "call":
        pid = int(driver.wait_for_file("pid"))
        harness.daemon.call("session/delete", session_id=driver.id)
        assert is_gone(pid)
    else:
        ask = driver.wait_for_ask()
        harness.daemon.call("session/delete", session_id=driver.id)
        assert driver.expect_error("ask/get", ask_id=ask["id"])["data"]["code"] == "ask_not_found"
        error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
        assert error["data"]["code"] == "ask_not_found"
        assert harness.daemon.call("ask/list")["asks"] == []
    assert driver.expect_error("session/get", session_id=driver.id)["data"]["code"] == "session_not_found"
    driver.wait("session.deleted")


def test_deleting_a_session_while_the_model_speaks_leaves_the_model(harness: Harness) -> None:
    driver = harness.open_session(after(message(says("First ", hold(Gate())))))
    driver.start()
    driver.wait("message.delta")
    harness.daemon.call("session/delete", session_id=driver.id)
    assert driver.requests[0].wait_until_ended() == "left"
    driver.wait("session.deleted")

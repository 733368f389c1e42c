"""Words that reach a turn while it runs, and turns that wait for their turn."""

import pytest

from tests.support.driver import Harness, Json, SessionDriver, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says

WORDS = message(says("Done."))


def steer(driver: SessionDriver, turn_id: str, text: str, *, now: bool = False) -> Json:
    turn: Json = driver.daemon.call("turn/steer", turn_id=turn_id, input=text, now=now)
    return turn


def list_texts(sent: Json) -> list[str]:
    return [block["text"] for block in sent["content"] if block["type"] == "text"]


def test_a_steer_joins_at_the_next_request(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("go")})), WORDS)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    assert steer(driver, turn_id, "Mind the gap.")["id"] == turn_id
    driver.open_gate("go")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["model_requests"]) == ("completed", 2)
    assert driver.outline_messages()[2] == ("user", ["tool_result", "text"])
    assert list_texts(driver.requests[1].messages[-1]) == ["Mind the gap."]
    assert driver.fetch_result_texts() == ["passed go"]
    driver.expect_usable()


def test_several_steers_join_in_their_order(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("go")})), WORDS)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    for word in ("one", "two", "three"):
        steer(driver, turn_id, word)
    driver.open_gate("go")
    driver.wait_for_turn_end(turn_id)
    assert list_texts(driver.requests[1].messages[-1]) == ["one", "two", "three"]


def test_a_steer_while_the_last_message_streams_keeps_the_turn_going(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("I am ", hold(gate), "done.")), message(says("Now I am.")))
    turn_id = driver.start()
    driver.wait("message.delta")
    steer(driver, turn_id, "One more thing.")
    gate.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Now I am.", 2)
    assert list_texts(driver.requests[1].messages[-1]) == ["One more thing."]
    assert driver.fetch_messages()[1]["content"] == [{"type": "text", "text": "I am done."}]
    driver.expect_usable()


def test_a_steer_now_stops_the_running_command(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = "echo $$ > pid; exec sleep 1000"
    harness.api.script(
        driver.name, message(calls("Bash", {"command": command}), calls("Bash", {"command": "true"})), WORDS
    )
    turn_id = driver.start()
    pid = int(driver.wait_for_file("pid"))
    steer(driver, turn_id, "Not that.", now=True)
    turn = driver.wait_for_turn_end(turn_id)
    assert turn["reason"] == "completed"
    assert is_gone(pid)
    assert list_texts(driver.requests[1].messages[-1]) == ["Not that."]
    assert [result["is_error"] for result in driver.fetch_results()] == [True, True]
    assert all("the person said something" in text for text in driver.fetch_result_texts())
    driver.expect_usable()


def test_a_steer_now_lets_calls_that_must_finish_finish(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("StubbornGate", {"path": driver.get_gate_path("go")})), WORDS)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    steer(driver, turn_id, "Hurry.", now=True)
    assert "tool.completed" not in driver.list_event_types()
    driver.open_gate("go")
    driver.wait_for_turn_end(turn_id)
    assert driver.fetch_result_texts() == ["passed go"]
    assert list_texts(driver.requests[1].messages[-1]) == ["Hurry."]
    driver.expect_usable()


def test_a_steer_now_while_the_model_speaks_is_heard_at_once(harness: Harness) -> None:
    driver = harness.open_session(message(says("A long ", hold(Gate()), "story.")), WORDS)
    turn_id = driver.start()
    driver.wait("message.delta")
    steer(driver, turn_id, "Shorter, please.", now=True)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert driver.requests[0].wait_until_ended() == "left"
    assert driver.fetch_messages()[1]["content"] == [{"type": "text", "text": "A long "}]
    assert list_texts(driver.requests[1].messages[-1]) == ["Shorter, please."]
    driver.expect_usable()


def test_a_steer_now_while_an_ask_is_open_takes_the_ask_back(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    steer(driver, turn_id, "Something else.", now=True)
    assert driver.wait("ask.resolved")["data"]["ask"]["status"] == "cancelled"
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert harness.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    assert driver.list_event_types("turn.updated") == ["turn.updated", "turn.updated"]
    driver.expect_usable()


def test_a_steer_that_an_ended_turn_did_not_read_starts_the_next_one(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("StubbornGate", {"path": driver.get_gate_path("go")})), WORDS)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    steer(driver, turn_id, "Then this.")
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    following = driver.wait_for_turn_end()
    assert following["id"] != turn_id
    assert (following["reason"], following["result_text"]) == ("completed", "Done.")
    assert "Then this." in list_texts(driver.requests[1].messages[-1])
    assert [turn["id"] for turn in harness.daemon.call("turn/list", session_id=driver.id)["turns"]] == [
        turn_id,
        following["id"],
    ]
    driver.expect_usable()


@pytest.mark.parametrize("end", ["interrupt", "max_requests"])
def test_a_steer_that_no_request_of_its_turn_carries_starts_the_next_one(harness: Harness, end: str) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("StubbornGate", {"path": driver.get_gate_path("go")})), WORDS)
    turn_id = driver.start(max_requests=1)
    driver.wait_at_gate("go")
    steer(driver, turn_id, "Then this.")
    if end == "interrupt":
        harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == ("interrupted" if end == "interrupt" else "max_requests")
    following = driver.wait_for_turn_end()
    assert (following["reason"], following["result_text"]) == ("completed", "Done.")
    assert str(driver.requests[1].messages).count("Then this.") == 1
    driver.expect_usable()


def test_a_steer_after_the_end_is_refused(harness: Harness) -> None:
    driver = harness.open_session(WORDS)
    turn_id = driver.start()
    driver.wait_for_turn_end(turn_id)
    error = driver.expect_error("turn/steer", turn_id=turn_id, input="Too late.")
    assert error["data"]["code"] == "no_turn_running"
    assert len(driver.fetch_messages()) == 2
    driver.expect_usable()


# Queues.


def test_a_second_turn_is_refused_while_one_runs(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Wait ", hold(gate))), WORDS)
    turn_id = driver.start()
    error = driver.expect_error("turn/start", session_id=driver.id, input="Me too.")
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("turn_running", turn_id)
    gate.open()
    driver.wait_for_turn_end(turn_id)
    assert len(driver.fetch_messages()) == 2
    driver.expect_usable()


def test_queued_turns_run_one_after_the_other_in_their_order(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(
        message(says("Zero", hold(gate))), *(message(says(word)) for word in ("One", "Two", "Three"))
    )
    first = driver.start("0")
    queued = [driver.start(str(n), queue=True) for n in (1, 2, 3)]
    assert [data["turn"]["id"] for data in (driver.wait("turn.queued")["data"] for _ in queued)] == queued
    listed = harness.daemon.call("turn/list", session_id=driver.id)["turns"]
    assert [turn["status"] for turn in listed] == ["running", "queued", "queued", "queued"]
    gate.open()
    ended = [driver.wait_for_turn_end() for _ in range(4)]
    assert [turn["id"] for turn in ended] == [first, *queued]
    assert [turn["result_text"] for turn in ended] == ["Zero", "One", "Two", "Three"]
    assert driver.list_event_types("turn.started", "turn.ended") == ["turn.started", "turn.ended"] * 4
    asked = [one["content"][-1]["text"].split()[-1] for one in driver.fetch_messages() if one["role"] == "user"]
    assert asked == ["0", "1", "2", "3"]
    driver.expect_usable()


def test_a_queued_turn_keeps_what_was_said_for_it(harness: Harness) -> None:
    gate = Gate()
    harness.api.may_rewrite = True  # another model is another prefix
    driver = harness.open_session(
        message(says("Zero", hold(gate))), message(calls("Nothing", {})), message(calls("Nothing", {}))
    )
    driver.start("0")
    queued = driver.start("1", queue=True, model="claude-haiku-4-5", max_requests=2, mode="plan")
    assert driver.fetch_state()["mode"] == "default"
    gate.open()
    turn = driver.wait_for_turn_end(queued)
    assert (turn["reason"], turn["model_requests"]) == ("max_requests", 2)
    assert driver.requests[-1].body["model"] == "claude-haiku-4-5"
    assert driver.fetch_state()["mode"] == "plan"


def test_a_queued_turn_can_be_taken_back(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Zero", hold(gate))), message(says("Two")))
    first = driver.start("0")
    gone, stays = driver.start("1", queue=True), driver.start("2", queue=True)
    ended = harness.daemon.call("turn/interrupt", turn_id=gone)
    assert (ended["status"], ended["reason"]) == ("ended", "interrupted")
    assert driver.wait_for_turn_end(gone)["started_at"] is None
    assert driver.expect_error("turn/interrupt", turn_id=gone)["data"]["code"] == "no_turn_running"
    gate.open()
    assert driver.wait_for_turn_end(first)["reason"] == "completed"
    assert driver.wait_for_turn_end(stays)["result_text"] == "Two"
    assert len(driver.fetch_messages()) == 4
    driver.expect_usable()


def test_no_more_than_a_hundred_turns_and_inputs_wait(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("go")})), otherwise=WORDS)
    first = driver.start()
    driver.wait_at_gate("go")
    for _ in range(100):
        driver.start("Later.", queue=True)
        steer(driver, first, "And.")
    for method, params in (
        ("turn/start", {"session_id": driver.id, "input": "Later.", "queue": True}),
        ("turn/steer", {"turn_id": first, "input": "And."}),
    ):
        error = driver.expect_error(method, **params)
        assert error["data"]["code"] == "overloaded"
        assert error["data"]["retry_after_ms"] > 0
    harness.daemon.call("session/delete", session_id=driver.id)
    assert len(driver.requests) == 1


def test_an_interrupt_goes_on_with_the_queue(harness: Harness) -> None:
    driver = harness.open_session(message(says("Zero", hold(Gate()))), message(says("One")))
    first = driver.start("0")
    driver.wait("message.delta")
    queued = driver.start("1", queue=True)
    harness.daemon.call("turn/interrupt", turn_id=first)
    assert driver.wait_for_turn_end(first)["reason"] == "interrupted"
    assert driver.wait_for_turn_end(queued)["result_text"] == "One"
    driver.expect_usable()


def test_an_interrupt_gives_back_what_waits_and_nothing_starts(harness: Harness) -> None:
    driver = harness.open_session()
    call = calls("StubbornGate", {"path": driver.get_gate_path("go")})
    harness.api.script(driver.name, message(call), otherwise=message(says("Too much.")))
    first = driver.start("0")
    driver.wait_at_gate("go")
    steer(driver, first, "And this.")
    queued = [driver.start("1", queue=True), driver.start("2", queue=True)]
    alone = harness.daemon.call("turn/interrupt", turn_id=queued[1], give_back=True)
    assert (alone["status"], [one["turn_id"] for one in alone["given_back"]]) == ("ended", [queued[1]])
    stopped = harness.daemon.call("turn/interrupt", turn_id=first, give_back=True)
    texts = [(one["turn_id"], [block["text"] for block in one["input"]]) for one in stopped["given_back"]]
    assert texts == [(first, ["And this."]), (queued[0], [driver.tag_input("1")])]
    assert harness.daemon.call("turn/interrupt", turn_id=first, give_back=True)["given_back"] == []
    driver.open_gate("go")
    assert [driver.wait_for_turn_end(one)["reason"] for one in (*queued, first)] == ["interrupted"] * 3
    # What is given back is an input as turn/start takes it.
    again = harness.daemon.call("turn/start", session_id=driver.id, input=stopped["given_back"][0]["input"])
    assert driver.wait_for_turn_end(again["id"])["reason"] == "completed"
    assert len(driver.requests) == 2
    assert [turn["id"] for turn in harness.daemon.call("turn/list", session_id=driver.id)["turns"]] == [
        first,
        *queued,
        again["id"],
    ]


def test_an_unread_steer_comes_before_the_queue(harness: Harness) -> None:
    driver = harness.open_session()
    call = calls("StubbornGate", {"path": driver.get_gate_path("go")})
    harness.api.script(driver.name, message(call), message(says("Steered.")), message(says("Queued.")))
    first = driver.start("0")
    driver.wait_at_gate("go")
    queued = driver.start("1", queue=True)
    harness.daemon.call("turn/interrupt", turn_id=first)
    steer(driver, first, "Before that.")
    driver.open_gate("go")
    ended = [driver.wait_for_turn_end() for _ in range(3)]
    assert [turn["result_text"] for turn in ended] == [None, "Steered.", "Queued."]
    assert ended[2]["id"] == queued
    driver.expect_usable()

"""A model that cannot be reached, refuses, or breaks off."""

from collections.abc import Callable

import pytest

from tests.support.driver import Harness, Json, SessionDriver, measure_seconds
from tests.support.messages_api.behaviors import Gate, Reply, Usage
from tests.support.messages_api.failures import (
    fails,
    hangs,
    html,
    overloaded,
    rate_limited,
    resets,
    too_large,
    too_long,
    wrong_key,
)
from tests.support.messages_api.replies import (
    broken_event,
    calls,
    calls_raw,
    cut,
    cut_after,
    ends_after,
    error_event,
    hang,
    hold,
    message,
    reset_after,
    says,
    speaks_for_ever,
)
from tests.support.messages_api.scripts import attempts

WORDS = message(says("All ", "is ", "well."))


def list_retries(driver: SessionDriver) -> list[Json]:
    return driver.list_event_data("model.retrying")


PASSING = {
    "rate limit": rate_limited(),
    "overload": overloaded(),
    "server error": fails(500),
    "bad gateway": fails(502),
    "gateway time-out": fails(504),
    "reset": resets(),
    "page": html(502),
    "cut in the middle": cut_after(WORDS, 4),
    "reset in the middle": reset_after(WORDS, 4),
    "end without message_stop": ends_after(WORDS, 5),
    "error in the middle": message(says("All ", error_event())),
    "rubbish in the middle": message(says("All ", broken_event())),
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
def test_a_passing_failure_is_tried_again_and_clients_are_told(harness: Harness, failure: Reply) -> None:
    driver = harness.open_session(attempts(failure, WORDS))
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert len(driver.requests) == 2
    most = 1 if list_retries(driver)[0]["error"]["kind"] == "garbage" else 2
    assert [(one["attempt"], one["max_retries"], one["error"]["code"]) for one in list_retries(driver)] == [
        (1, most, "model_error")
    ]
    assert list_retries(driver)[0]["error"]["message"]
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    assert driver.list_event_types("message.started").count("message.started") == 1 + driver.list_event_types().count(
        "message.aborted"
    )
    driver.expect_usable()


def test_a_failure_that_stays_fails_the_turn_with_status_and_request_id(harness: Harness) -> None:
    driver = harness.open_session(fails(529, "Overloaded", request_id="req_one"))
    turn = driver.run_turn()
    assert (turn["status"], turn["reason"]) == ("ended", "failed")
    error = turn["error"]
    assert (error["code"], error["kind"], error["status"], error["request_id"]) == (
        "model_error",
        "overloaded",
        529,
        "req_one",
    )
    assert [one["attempt"] for one in list_retries(driver)] == [1, 2]
    assert len(driver.requests) == 3
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_the_wait_before_a_retry_is_at_least_what_the_provider_asks_for(harness: Harness) -> None:
    driver = harness.open_session(attempts(rate_limited(retry_after="0.4"), WORDS))
    took = measure_seconds(driver.run_turn)
    [retry] = list_retries(driver)
    assert retry["wait_ms"] == 400
    assert retry["error"]["retry_after_ms"] == 400
    first, second = driver.requests
    assert second.began - first.last_sent >= 0.4
    assert took >= 0.4


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [(wrong_key(), 401, "access"), (fails(403), 403, "access"), (fails(404, "no such page"), 404, "bad_request")],
    ids=["401", "403", "404"],
)
def test_a_failure_that_does_not_pass_fails_the_turn_at_once(
    harness: Harness, failure: Reply, status: int, kind: str
) -> None:
    driver = harness.open_session(failure)
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["code"], turn["error"]["status"], turn["error"]["kind"]) == (
        "failed",
        "model_error",
        status,
        kind,
    )
    assert len(driver.requests) == 1
    assert list_retries(driver) == []
    assert "key-for-tests" not in str(turn)
    driver.expect_usable()


def test_a_page_in_the_place_of_an_answer_is_a_clear_failure(harness: Harness) -> None:
    driver = harness.open_session(html(200))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert "ANTHROPIC_BASE_URL" in turn["error"]["message"]
    assert len(driver.requests) == 2
    driver.expect_usable()


def test_an_answer_without_end_is_asked_for_once_more_and_not_again(harness: Harness) -> None:
    driver = harness.open_session(message(*(says(letter * 6_000_000) for letter in "xyz")))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert len(driver.requests) == 2
    assert [(one["attempt"], one["max_retries"]) for one in list_retries(driver)] == [(1, 1)]
    driver.expect_usable()


@pytest.mark.parametrize("failure", [too_long(), too_large()], ids=["tokens", "bytes"])
def test_a_conversation_that_is_too_long_fails_with_advice(harness: Harness, failure: Reply) -> None:
    driver = harness.open_session(failure)
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["code"], turn["error"]["kind"]) == ("failed", "model_error", "too_long")
    assert ". Fork the session" in turn["error"]["message"]
    assert len(driver.requests) == 1
    driver.expect_usable()


def test_an_endpoint_that_hangs_counts_as_dropped_after_the_silence_limit(impatient_harness: Harness) -> None:
    driver = impatient_harness.open_session(attempts(hangs(), WORDS))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]) == ("completed", None)
    assert [one["error"]["kind"] for one in list_retries(driver)] == ["timeout"]
    assert driver.requests[0].wait_until_ended() == "left"
    driver.expect_usable()


def test_a_stream_that_falls_silent_counts_as_dropped(impatient_harness: Harness) -> None:
    driver = impatient_harness.open_session(attempts(message(says("All ", hang())), WORDS))
    assert driver.run_turn()["result_text"] == "All is well."
    assert [one["error"]["kind"] for one in list_retries(driver)] == ["timeout"]
    driver.expect_usable()


def test_a_model_that_speaks_for_ever_is_stopped(impatient_harness: Harness) -> None:
    driver = impatient_harness.open_session(attempts(speaks_for_ever(seconds=0.02)))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert "still writing" in turn["error"]["message"]
    assert all(request.wait_until_ended() == "left" for request in driver.requests)
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_the_fallback_model_takes_over_for_the_rest_of_the_turn(impatient_harness: Harness) -> None:
    impatient_harness.api.may_rewrite = True  # another model is another prefix
    driver = impatient_harness.open_session(attempts(overloaded(), overloaded(), message(calls("Nothing", {}))), WORDS)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    models = [request.body["model"] for request in driver.requests]
    assert models == ["claude-sonnet-5", "claude-sonnet-5", "claude-haiku-4-5", "claude-haiku-4-5"]
    assert any("claude-haiku-4-5" in notice["text"] for notice in driver.list_event_data("notice"))
    driver.expect_usable()
    assert driver.requests[-1].body["model"] == "claude-sonnet-5"


def test_a_request_that_another_takes_the_place_of_is_not_counted(impatient_harness: Harness) -> None:
    impatient_harness.api.may_rewrite = True  # another model is another prefix
    driver = impatient_harness.open_session(attempts(overloaded(), overloaded(), message(calls("Nothing", {}))))
    turn = driver.run_turn(max_requests=1, tool_choice={"type": "any"})
    assert (turn["reason"], turn["model_requests"]) == ("max_requests", 1)
    asked = [(request.body["model"], "tool_choice" in request.body) for request in driver.requests]
    assert asked == [("claude-sonnet-5", True), ("claude-sonnet-5", True), ("claude-haiku-4-5", True)]


def test_the_fallback_model_is_not_asked_where_the_budget_is_used_up(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__FALLBACK="claude-haiku-4-5", OSTLER_MODEL__MAX_RETRIES="0")
    dear = message(says("All ", error_event("overloaded_error")), usage=Usage(1_000_000, 20))
    driver = harness.open_session(dear)
    turn = driver.run_turn(max_budget_usd="0.01")
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "overloaded")
    assert [request.body["model"] for request in driver.requests] == ["claude-sonnet-5"]


def test_the_fallback_model_is_not_asked_where_the_first_one_refuses(impatient_harness: Harness) -> None:
    driver = impatient_harness.open_session(fails(500))
    assert driver.run_turn()["error"]["status"] == 500
    assert {request.body["model"] for request in driver.requests} == {"claude-sonnet-5"}


# A stream that breaks after a call was complete.


def test_a_broken_stream_is_taken_back_with_its_reads(harness: Harness) -> None:
    driver, gate = harness.open_session(), Gate()
    read = calls("Read", {"file_path": driver.write_file("a.txt", "alpha\n")})
    still = calls("Gate", {"path": driver.get_gate_path("never"), "safe": True, "reads": True})
    harness.api.script(driver.name, attempts(message(read, still, hold(gate), cut()), message(read)), WORDS)
    turn_id = driver.start()
    read_call = driver.wait("tool.completed")["data"]["call"]
    assert (read_call["tool"], read_call["is_error"]) == ("Read", False)
    driver.wait_at_gate("never")
    gate.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert [one["attempt"] for one in list_retries(driver)] == [1]
    # The read of the stream that broke is out of the history; the one that ran was ended.
    assert [kinds for _, kinds in driver.outline_messages()] == [["text"], ["tool_use"], ["tool_result"], ["text"]]
    [dropped] = (data["message"]["id"] for data in driver.list_event_data("message.aborted"))
    ends = {data["call"]["call_id"]: data["call"] for data in driver.list_event_data("tool.completed")}
    assert read_call["call_id"] == f"{dropped}#0"
    assert ends[f"{dropped}#1"]["is_error"] is True
    assert driver.list_event_types().count("tool.queued") == driver.list_event_types().count("tool.completed") == 3
    driver.expect_usable()


def test_calls_of_a_broken_stream_that_wait_never_start(harness: Harness) -> None:
    driver, gate = harness.open_session(), Gate()
    reading = calls("Gate", {"path": driver.get_gate_path("never"), "reads": True})
    changing = calls("Gate", {"path": driver.get_gate_path("change")})
    harness.api.script(driver.name, attempts(message(reading, changing, hold(gate), cut()), WORDS))
    turn_id = driver.start()
    driver.wait_at_gate("never")
    driver.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#1"))
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert not (driver.folder / "change.here").exists()
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    driver.expect_usable()


def test_a_broken_stream_stays_where_a_call_of_it_changed_something(harness: Harness) -> None:
    driver = harness.open_session()
    path, gate = driver.get_gate_path("go"), Gate()
    harness.api.script(
        driver.name,
        message(says("I do it."), calls("Gate", {"path": path}), calls_raw("Gate", '{"path": "x', hold(gate), cut())),
        WORDS,
    )
    turn_id = driver.start()
    driver.wait_at_gate("go")
    gate.open()
    driver.requests[0].wait_until_ended()
    driver.open_gate("go")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "All is well.", 2)
    assert [(one["attempt"], one["max_retries"], one["error"]["kind"]) for one in list_retries(driver)] == [
        (1, 2, "connection")
    ]
    # The call that was not complete is dropped; the one that ran keeps its result.
    assert driver.outline_messages() == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]
    assert driver.fetch_result_texts() == ["passed go"]
    driver.expect_usable()


def test_a_broken_stream_keeps_its_text_where_it_stays(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session()
    call = calls("Gate", {"path": driver.write_file("go")})
    harness.api.script(driver.name, message(call, says("and then ", hold(gate), cut())), WORDS)
    turn_id = driver.start()
    driver.wait("tool.completed")
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_messages()[1]["content"][1] == {"type": "text", "text": "and then "}
    assert driver.fetch_messages()[1]["stop_reason"] is None
    driver.expect_usable()


def breaking_off(driver: SessionDriver, gate: Gate) -> Reply:
    """An answer that breaks off when the gate opens, after a call of it has changed something."""
    return message(calls("Gate", {"path": driver.write_file("go")}), hold(gate), cut())


def test_a_model_that_breaks_off_again_and_again_is_given_up(harness: Harness) -> None:
    driver, gates = harness.open_session(), [Gate() for _ in range(3)]
    harness.api.script(driver.name, *(breaking_off(driver, gate) for gate in gates))
    turn_id = driver.start()
    for gate in gates:
        driver.wait("tool.completed")
        gate.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"]["kind"], turn["model_requests"]) == ("failed", "connection", 3)
    assert [one["attempt"] for one in list_retries(driver)] == [1, 2]
    assert driver.fetch_result_texts() == ["passed go"] * 3
    driver.expect_usable()


def test_an_answer_that_comes_whole_makes_up_for_those_that_broke_off(harness: Harness) -> None:
    driver, gates = harness.open_session(), [Gate() for _ in range(4)]
    whole = message(calls("Gate", {"path": driver.write_file("go")}))
    broken = [breaking_off(driver, gate) for gate in gates]
    harness.api.script(driver.name, *broken[:2], whole, *broken[2:], WORDS)
    turn_id = driver.start()
    for gate in (*gates[:2], None, *gates[2:]):
        driver.wait("tool.completed")
        if gate is not None:
            gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [one["attempt"] for one in list_retries(driver)] == [1, 2, 1, 2]


@pytest.mark.parametrize("how", ["interrupt", "steer"])
def test_nobody_waits_behind_the_pause_after_an_answer_that_broke_off(
    own_harness: Callable[..., Harness], how: str
) -> None:
    harness = own_harness(OSTLER_MODEL__FIRST_WAIT_SECONDS="60")
    driver, gate = harness.open_session(), Gate()
    harness.api.script(driver.name, breaking_off(driver, gate), WORDS)
    turn_id = driver.start()
    driver.wait("tool.completed")
    gate.open()
    driver.wait("model.retrying")
    if how == "interrupt":
        harness.daemon.call("turn/interrupt", turn_id=turn_id)
    else:
        harness.daemon.call("turn/steer", turn_id=turn_id, input="Now.", now=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == ("interrupted" if how == "interrupt" else "completed")


def test_requests_that_broke_off_are_paid_for(harness: Harness) -> None:
    broken = cut_after(message(says("All ", "is "), usage=Usage(input_tokens=1000)), 4)
    driver = harness.open_session(attempts(broken, message(says("Well."), usage=Usage(100, 20))))
    turn = driver.run_turn()
    assert turn["usage"]["input_tokens"] == 1100

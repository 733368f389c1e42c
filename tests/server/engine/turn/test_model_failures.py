"""A model that cannot be reached, refuses, or breaks off."""

from collections.abc import Callable

import pytest

from tests.support.driver import Json, Stage, Talk, seconds_of
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


def retries(talk: Talk) -> list[Json]:
    return talk.all("model.retrying")


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
def test_a_passing_failure_is_tried_again_and_clients_are_told(stage: Stage, failure: Reply) -> None:
    talk = stage.talk(attempts(failure, WORDS))
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert len(talk.requests) == 2
    most = 1 if retries(talk)[0]["error"]["kind"] == "garbage" else 2
    assert [(one["attempt"], one["max_retries"], one["error"]["code"]) for one in retries(talk)] == [
        (1, most, "model_error")
    ]
    assert retries(talk)[0]["error"]["message"]
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["text"])]
    assert talk.types("message.started").count("message.started") == 1 + talk.types().count("message.aborted")
    talk.is_usable()


def test_a_failure_that_stays_fails_the_turn_with_status_and_request_id(stage: Stage) -> None:
    talk = stage.talk(fails(529, "Overloaded", request_id="req_one"))
    turn = talk.turn()
    assert (turn["status"], turn["reason"]) == ("ended", "failed")
    error = turn["error"]
    assert (error["code"], error["kind"], error["status"], error["request_id"]) == (
        "model_error",
        "overloaded",
        529,
        "req_one",
    )
    assert [one["attempt"] for one in retries(talk)] == [1, 2]
    assert len(talk.requests) == 3
    assert talk.transcript() == [("user", ["text"])]
    talk.is_usable()


def test_the_wait_before_a_retry_is_at_least_what_the_provider_asks_for(stage: Stage) -> None:
    talk = stage.talk(attempts(rate_limited(retry_after="0.4"), WORDS))
    took = seconds_of(talk.turn)
    [retry] = retries(talk)
    assert retry["wait_ms"] == 400
    assert retry["error"]["retry_after_ms"] == 400
    first, second = talk.requests
    assert second.began - first.last_sent >= 0.4
    assert took >= 0.4


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [(wrong_key(), 401, "access"), (fails(403), 403, "access"), (fails(404, "no such model"), 404, "bad_request")],
    ids=["401", "403", "404"],
)
def test_a_failure_that_does_not_pass_fails_the_turn_at_once(
    stage: Stage, failure: Reply, status: int, kind: str
) -> None:
    talk = stage.talk(failure)
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["code"], turn["error"]["status"], turn["error"]["kind"]) == (
        "failed",
        "model_error",
        status,
        kind,
    )
    assert len(talk.requests) == 1
    assert retries(talk) == []
    assert "key-for-tests" not in str(turn)
    talk.is_usable()


def test_a_page_in_the_place_of_an_answer_is_a_clear_failure(stage: Stage) -> None:
    talk = stage.talk(html(200))
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert "ANTHROPIC_BASE_URL" in turn["error"]["message"]
    assert len(talk.requests) == 2
    talk.is_usable()


def test_an_answer_without_end_is_asked_for_once_more_and_not_again(stage: Stage) -> None:
    talk = stage.talk(message(*(says(letter * 6_000_000) for letter in "xyz")))
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert len(talk.requests) == 2
    assert [(one["attempt"], one["max_retries"]) for one in retries(talk)] == [(1, 1)]
    talk.is_usable()


@pytest.mark.parametrize("failure", [too_long(), too_large()], ids=["tokens", "bytes"])
def test_a_conversation_that_is_too_long_fails_with_advice(stage: Stage, failure: Reply) -> None:
    talk = stage.talk(failure)
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["code"], turn["error"]["kind"]) == ("failed", "model_error", "too_long")
    assert ". Fork the session" in turn["error"]["message"]
    assert len(talk.requests) == 1
    talk.is_usable()


def test_an_endpoint_that_hangs_counts_as_dropped_after_the_silence_limit(impatient_stage: Stage) -> None:
    talk = impatient_stage.talk(attempts(hangs(), WORDS))
    turn = talk.turn()
    assert (turn["reason"], turn["error"]) == ("completed", None)
    assert [one["error"]["kind"] for one in retries(talk)] == ["timeout"]
    assert talk.requests[0].wait_until_ended() == "left"
    talk.is_usable()


def test_a_stream_that_falls_silent_counts_as_dropped(impatient_stage: Stage) -> None:
    talk = impatient_stage.talk(attempts(message(says("All ", hang())), WORDS))
    assert talk.turn()["result_text"] == "All is well."
    assert [one["error"]["kind"] for one in retries(talk)] == ["timeout"]
    talk.is_usable()


def test_a_model_that_speaks_for_ever_is_stopped(impatient_stage: Stage) -> None:
    talk = impatient_stage.talk(attempts(speaks_for_ever(seconds=0.02)))
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert "still writing" in turn["error"]["message"]
    assert all(request.wait_until_ended() == "left" for request in talk.requests)
    assert talk.transcript() == [("user", ["text"])]
    talk.is_usable()


def test_the_fallback_model_takes_over_for_the_rest_of_the_turn(impatient_stage: Stage) -> None:
    impatient_stage.api.may_rewrite = True  # another model is another prefix
    talk = impatient_stage.talk(attempts(overloaded(), overloaded(), message(calls("Nothing", {}))), WORDS)
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    models = [request.body["model"] for request in talk.requests]
    assert models == ["claude-sonnet-5", "claude-sonnet-5", "claude-haiku-4-5", "claude-haiku-4-5"]
    assert any("claude-haiku-4-5" in notice["text"] for notice in talk.all("notice"))
    talk.is_usable()
    assert talk.requests[-1].body["model"] == "claude-sonnet-5"


def test_a_request_that_another_takes_the_place_of_is_not_counted(impatient_stage: Stage) -> None:
    impatient_stage.api.may_rewrite = True  # another model is another prefix
    talk = impatient_stage.talk(attempts(overloaded(), overloaded(), message(calls("Nothing", {}))))
    turn = talk.turn(max_requests=1, tool_choice={"type": "any"})
    assert (turn["reason"], turn["model_requests"]) == ("max_requests", 1)
    asked = [(request.body["model"], "tool_choice" in request.body) for request in talk.requests]
    assert asked == [("claude-sonnet-5", True), ("claude-sonnet-5", True), ("claude-haiku-4-5", True)]


def test_the_fallback_model_is_not_asked_where_the_budget_is_used_up(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_MODEL__FALLBACK="claude-haiku-4-5", OSTLER_MODEL__MAX_RETRIES="0")
    dear = message(says("All ", error_event("overloaded_error")), usage=Usage(1_000_000, 20))
    talk = stage.talk(dear)
    turn = talk.turn(max_budget_usd="0.01")
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "overloaded")
    assert [request.body["model"] for request in talk.requests] == ["claude-sonnet-5"]


def test_the_fallback_model_is_not_asked_where_the_first_one_refuses(impatient_stage: Stage) -> None:
    talk = impatient_stage.talk(fails(500))
    assert talk.turn()["error"]["status"] == 500
    assert {request.body["model"] for request in talk.requests} == {"claude-sonnet-5"}


# A stream that breaks after a call was complete.


def test_a_broken_stream_is_taken_back_with_its_reads(stage: Stage) -> None:
    talk, gate = stage.talk(), Gate()
    read = calls("Read", {"file_path": talk.file("a.txt", "alpha\n")})
    still = calls("Gate", {"path": talk.gate("never"), "safe": True, "reads": True})
    stage.api.script(talk.name, attempts(message(read, still, hold(gate), cut()), message(read)), WORDS)
    turn_id = talk.start()
    read_call = talk.wait("tool.completed")["data"]["call"]
    assert (read_call["tool"], read_call["is_error"]) == ("Read", False)
    talk.at_gate("never")
    gate.open()
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert [one["attempt"] for one in retries(talk)] == [1]
    # The read of the stream that broke is out of the history; the one that ran was ended.
    assert [kinds for _, kinds in talk.transcript()] == [["text"], ["tool_use"], ["tool_result"], ["text"]]
    [dropped] = (data["message"]["id"] for data in talk.all("message.aborted"))
    ends = {data["call"]["call_id"]: data["call"] for data in talk.all("tool.completed")}
    assert read_call["call_id"] == f"{dropped}#0"
    assert ends[f"{dropped}#1"]["is_error"] is True
    assert talk.types().count("tool.queued") == talk.types().count("tool.completed") == 3
    talk.is_usable()


def test_calls_of_a_broken_stream_that_wait_never_start(stage: Stage) -> None:
    talk, gate = stage.talk(), Gate()
    reading = calls("Gate", {"path": talk.gate("never"), "reads": True})
    changing = calls("Gate", {"path": talk.gate("change")})
    stage.api.script(talk.name, attempts(message(reading, changing, hold(gate), cut()), WORDS))
    turn_id = talk.start()
    talk.at_gate("never")
    talk.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#1"))
    gate.open()
    assert talk.ended(turn_id)["reason"] == "completed"
    assert not (talk.folder / "change.here").exists()
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["text"])]
    talk.is_usable()


def test_a_broken_stream_stays_where_a_call_of_it_changed_something(stage: Stage) -> None:
    talk = stage.talk()
    path, gate = talk.gate("go"), Gate()
    stage.api.script(
        talk.name,
        message(says("I do it."), calls("Gate", {"path": path}), calls_raw("Gate", '{"path": "x', hold(gate), cut())),
        WORDS,
    )
    turn_id = talk.start()
    talk.at_gate("go")
    gate.open()
    talk.requests[0].wait_until_ended()
    talk.open_gate("go")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "All is well.", 2)
    assert [(one["attempt"], one["max_retries"], one["error"]["kind"]) for one in retries(talk)] == [
        (1, 2, "connection")
    ]
    # The call that was not complete is dropped; the one that ran keeps its result.
    assert talk.transcript() == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]
    assert talk.result_texts() == ["passed go"]
    talk.is_usable()


def test_a_broken_stream_keeps_its_text_where_it_stays(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk()
    call = calls("Gate", {"path": talk.file("go")})
    stage.api.script(talk.name, message(call, says("and then ", hold(gate), cut())), WORDS)
    turn_id = talk.start()
    talk.wait("tool.completed")
    gate.open()
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.messages()[1]["content"][1] == {"type": "text", "text": "and then "}
    assert talk.messages()[1]["stop_reason"] is None
    talk.is_usable()


def breaking_off(talk: Talk, gate: Gate) -> Reply:
    """An answer that breaks off when the gate opens, after a call of it has changed something."""
    return message(calls("Gate", {"path": talk.file("go")}), hold(gate), cut())


def test_a_model_that_breaks_off_again_and_again_is_given_up(stage: Stage) -> None:
    talk, gates = stage.talk(), [Gate() for _ in range(3)]
    stage.api.script(talk.name, *(breaking_off(talk, gate) for gate in gates))
    turn_id = talk.start()
    for gate in gates:
        talk.wait("tool.completed")
        gate.open()
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["error"]["kind"], turn["model_requests"]) == ("failed", "connection", 3)
    assert [one["attempt"] for one in retries(talk)] == [1, 2]
    assert talk.result_texts() == ["passed go"] * 3
    talk.is_usable()


def test_an_answer_that_comes_whole_makes_up_for_those_that_broke_off(stage: Stage) -> None:
    talk, gates = stage.talk(), [Gate() for _ in range(4)]
    whole = message(calls("Gate", {"path": talk.file("go")}))
    broken = [breaking_off(talk, gate) for gate in gates]
    stage.api.script(talk.name, *broken[:2], whole, *broken[2:], WORDS)
    turn_id = talk.start()
    for gate in (*gates[:2], None, *gates[2:]):
        talk.wait("tool.completed")
        if gate is not None:
            gate.open()
    assert talk.ended(turn_id)["reason"] == "completed"
    assert [one["attempt"] for one in retries(talk)] == [1, 2, 1, 2]


@pytest.mark.parametrize("how", ["interrupt", "steer"])
def test_nobody_waits_behind_the_pause_after_an_answer_that_broke_off(
    own_stage: Callable[..., Stage], how: str
) -> None:
    stage = own_stage(OSTLER_MODEL__FIRST_WAIT_SECONDS="60")
    talk, gate = stage.talk(), Gate()
    stage.api.script(talk.name, breaking_off(talk, gate), WORDS)
    turn_id = talk.start()
    talk.wait("tool.completed")
    gate.open()
    talk.wait("model.retrying")
    if how == "interrupt":
        stage.daemon.call("turn/interrupt", turn_id=turn_id)
    else:
        stage.daemon.call("turn/steer", turn_id=turn_id, input="Now.", now=True)
    assert talk.ended(turn_id)["reason"] == ("interrupted" if how == "interrupt" else "completed")


def test_requests_that_broke_off_are_paid_for(stage: Stage) -> None:
    broken = cut_after(message(says("All ", "is "), usage=Usage(input_tokens=1000)), 4)
    talk = stage.talk(attempts(broken, message(says("Well."), usage=Usage(100, 20))))
    turn = talk.turn()
    assert turn["usage"]["input_tokens"] == 1100

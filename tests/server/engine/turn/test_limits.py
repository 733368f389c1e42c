"""Limits of a turn, what it costs, and what can be said for one turn only."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.driver import Stage
from tests.support.messages_api.behaviors import Gate, Usage
from tests.support.messages_api.replies import calls, hold, message, says

AGAIN = message(calls("Nothing", {}), usage=Usage(1000, 100))
WORDS = message(says("Done."), usage=Usage(1000, 100))


def test_a_turn_ends_after_so_many_requests(stage: Stage) -> None:
    talk = stage.talk(otherwise=AGAIN)
    turn = talk.turn(max_requests=3)
    assert (turn["reason"], turn["model_requests"], turn["error"]) == ("max_requests", 3, None)
    assert len(talk.requests) == 3
    assert talk.transcript()[-1] == ("user", ["tool_result"])
    talk.is_usable()


def test_no_turn_may_ask_more_often_than_the_configuration_says(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_TURNS__MAX_REQUESTS="2")
    talk = stage.talk(otherwise=message(calls("Nothing", {})))
    turn = talk.turn(max_requests=5)
    assert (turn["reason"], turn["model_requests"], len(talk.requests)) == ("max_requests", 2, 2)


def test_no_model_is_asked_for_more_than_it_can_write(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_MODEL__MAX_OUTPUT_TOKENS="1000000")
    talk = stage.talk(otherwise=message(says("Done.")))
    stage.api.may_rewrite = True  # another model is another prefix
    talk.turn(model="claude-haiku-4-5")
    talk.turn(model="claude-sonnet-5")
    assert [request.body["max_tokens"] for request in talk.requests] == [64_000, 128_000]


def test_a_turn_ends_when_its_budget_is_used_up(stage: Stage) -> None:
    talk = stage.talk(otherwise=AGAIN)
    turn = talk.turn(max_budget_usd="0.008")
    # 1,000 tokens in and 100 out cost 0.004 dollars with the default model; checked before each request.
    assert (turn["reason"], turn["error"]["code"]) == ("budget", "budget_exceeded")
    assert turn["model_requests"] >= 2
    assert float(turn["usage"]["cost_usd"]) >= 0.008
    assert float(turn["usage"]["cost_usd"]) - float(turn["usage"]["cost_usd"]) / turn["model_requests"] < 0.008
    talk.is_usable()


def test_the_budget_of_a_session_holds_over_its_turns(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS, max_budget_usd="0.005")
    reasons = [talk.turn()["reason"] for _ in range(4)]
    assert reasons[0] == "completed"
    assert reasons[-1] == "budget"
    assert reasons == sorted(reasons, reverse=True)
    assert len(talk.requests) == reasons.count("completed")
    # No message is told of that will not come.
    started = [data["message"]["id"] for data in talk.all("message.started")]
    assert len(started) == len(talk.requests)


def test_a_budget_for_a_model_without_a_price_is_an_error_at_the_start(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    error = talk.refused(
        "turn/start", session_id=talk.id, input=talk.input("Go."), model="some-local-model", max_budget_usd="1"
    )
    assert error["data"]["code"] == "budget_exceeded"
    assert "some-local-model" in error["message"]
    assert talk.requests == []
    talk.is_usable()


def test_a_model_without_a_price_costs_nobody_knows_what(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS, model="some-local-model")
    turn = talk.turn()
    assert turn["usage"]["cost_usd"] is None
    assert turn["usage"]["input_tokens"] == 1000
    assert talk.state()["usage"]["cost_usd"] is None


def test_a_price_in_the_configuration_counts(stage: Stage) -> None:
    stage.daemon.call("config/set", key="model.prices", value={"a-priced-model": {"input": "10", "output": "100"}})
    talk = stage.talk(otherwise=WORDS, model="a-priced-model")
    assert talk.turn(max_budget_usd="1")["usage"]["cost_usd"] == "0.02"


def test_a_turn_ends_when_its_time_is_over(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("I think ", hold(gate))))
    turn = talk.turn(timeout_ms=200)
    assert turn["reason"] == "timeout"
    assert talk.requests[0].wait_until_ended() == "left"
    talk.is_usable()


def test_the_time_of_a_turn_stops_its_command(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    fifo = talk.gate("never")
    command = calls("Bash", {"command": f"mkfifo {fifo}; cat {fifo}"})
    stage.api.script(talk.name, message(command, calls("Bash", {"command": "true"})))
    turn = talk.turn(timeout_ms=300)
    assert turn["reason"] == "timeout"
    assert [result["is_error"] for result in talk.results()] == [True, True]
    running, waiting = talk.result_texts()
    assert "Stopped by the turn's time limit before it was finished." in running
    assert "Stopped by the turn's time limit before it started." in waiting
    talk.is_usable()


def test_usage_and_cost_are_summed_per_turn_and_session(stage: Stage) -> None:
    first = Usage(100, 10, cache_read_input_tokens=1000, cache_creation_input_tokens=50)
    talk = stage.talk(
        message(calls("Nothing", {}), usage=first), message(says("Done."), usage=Usage(5, 7)), message(says("Yes."))
    )
    one, two = talk.turn(), talk.turn()
    assert {key: one["usage"][key] for key in one["usage"] if key != "cost_usd"} == {
        "input_tokens": 105,
        "output_tokens": 17,
        "cache_read_tokens": 1000,
        "cache_write_tokens": 50,
    }
    assert two["usage"]["input_tokens"] == 100
    session = talk.state()["usage"]
    assert (session["input_tokens"], session["output_tokens"]) == (205, 37)
    assert float(session["cost_usd"]) == pytest.approx(
        float(one["usage"]["cost_usd"]) + float(two["usage"]["cost_usd"])
    )
    updates = talk.all("usage.updated")
    assert [update["request"]["input_tokens"] for update in updates] == [100, 5, 100]
    assert [update["turn"]["input_tokens"] for update in updates] == [100, 105, 100]
    assert [update["session"]["input_tokens"] for update in updates] == [100, 105, 205]
    assert sum(float(update["request"]["cost_usd"]) for update in updates) == pytest.approx(float(session["cost_usd"]))


def test_usage_is_stored_by_model_and_turn(stage: Stage) -> None:
    stage.api.may_rewrite = True  # another model is another prefix
    talk = stage.talk(otherwise=WORDS)
    turns = [talk.turn(), talk.turn(model="claude-haiku-4-5")]
    with closing(sqlite3.connect(f"file:{stage.daemon.home / 'ostler.db'}?mode=ro", uri=True)) as database:
        query = (
            "SELECT turn_id, model, input_tokens, output_tokens, cost_usd FROM usage WHERE session_id = ? ORDER BY id"
        )
        rows = database.execute(query, (talk.id,)).fetchall()
    models = [talk.session["model"], "claude-haiku-4-5"]
    assert rows == [
        (turn["id"], model, 1000, 100, turn["usage"]["cost_usd"]) for turn, model in zip(turns, models, strict=True)
    ]
    assert [data["model"] for data in talk.all("usage.updated")] == models


def test_a_price_that_is_not_known_any_more_ends_a_turn_with_a_budget(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    stage.daemon.call("config/set", key="model.prices", value={"priced-for-now": {"input": "1", "output": "1"}})
    talk = stage.talk(model="priced-for-now")
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("g")})), otherwise=WORDS)
    turn_id = talk.start(max_budget_usd="1")
    talk.at_gate("g")
    stage.daemon.call("config/set", key="model.prices", value={})
    talk.open_gate("g")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["error"]["code"], len(talk.requests)) == ("budget", "budget_exceeded", 1)
    assert "a price is not known" in turn["error"]["message"]


def test_a_model_for_one_turn_is_for_that_turn_only(stage: Stage) -> None:
    stage.api.may_rewrite = True  # another model is another prefix
    talk = stage.talk(otherwise=WORDS)
    talk.turn(model="claude-haiku-4-5")
    talk.turn()
    assert [request.body["model"] for request in talk.requests] == ["claude-haiku-4-5", "claude-sonnet-5"]
    assert [one["model"] for one in talk.messages() if one["role"] == "assistant"] == [
        "claude-haiku-4-5",
        "claude-sonnet-5",
    ]
    assert [update["model"] for update in talk.all("usage.updated")] == ["claude-haiku-4-5", "claude-sonnet-5"]
    assert talk.state()["model"] == "claude-sonnet-5"


def test_a_mode_given_with_a_turn_holds_from_then_on(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    talk.turn(mode="plan")
    assert talk.state()["mode"] == "plan"
    assert talk.all("session.updated")[0]["session"]["mode"] == "plan"


def test_a_mode_that_is_forbidden_starts_nothing(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    error = talk.refused("turn/start", session_id=talk.id, input=talk.input("Go."), mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"
    assert talk.state()["mode"] == "default"
    talk.is_usable()


def test_a_choice_of_tool_is_for_the_first_request_only(stage: Stage) -> None:
    talk = stage.talk(AGAIN, WORDS)
    talk.turn(tool_choice={"type": "any"})
    assert [request.body.get("tool_choice") for request in talk.requests] == [{"type": "any"}, None]


def test_bad_params_of_a_turn_name_each_field(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    error = talk.refused("turn/start", session_id=talk.id, input="", max_requests=0, timeout_ms=-1, speed=3)
    assert error["code"] == -32602
    fields = {one["path"].split(".")[0] for one in error["data"]["errors"]}
    assert {"input", "max_requests", "timeout_ms", "speed"} <= fields
    talk.is_usable()


def test_input_of_blanks_is_refused(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    assert talk.refused("turn/start", session_id=talk.id, input=" \n ")["code"] == -32602
    talk.is_usable()


def test_a_file_in_the_input_is_given_to_the_model(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    talk.file("notes.txt", "one\ntwo\nthree\n")
    blocks = [{"type": "text", "text": talk.input("See.")}, {"type": "file", "path": "notes.txt", "start_line": 2}]
    turn = stage.daemon.call("turn/start", session_id=talk.id, input=blocks)
    talk.ended(turn["id"])
    sent = str(talk.requests[0].messages[0])
    assert "three" in sent
    assert "one" not in sent.replace("Done", "")


def test_a_turn_in_an_archived_session_is_refused(stage: Stage) -> None:
    talk = stage.talk(otherwise=WORDS)
    talk.turn()
    stage.daemon.call("session/archive", session_id=talk.id)
    assert talk.refused("turn/start", session_id=talk.id, input="Go.")["data"]["code"] == "conflict"
    assert len(talk.requests) == 1
    stage.daemon.call("session/archive", session_id=talk.id, archived=False)
    talk.is_usable()


def test_a_turn_in_a_folder_that_is_gone_is_a_clear_state(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "true"})), WORDS, rules={"allow": ["Bash"]})
    talk.folder.rmdir()
    turn = talk.turn()
    assert turn["reason"] == "completed"
    assert "does not exist any more" in talk.result_texts()[0]
    talk.folder.mkdir()
    talk.is_usable()


def test_an_unknown_session_is_named(stage: Stage) -> None:
    error = stage.daemon.error("turn/start", session_id="s_000000000000000000000", input="Go.")
    assert error["data"]["code"] == "session_not_found"

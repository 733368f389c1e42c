"""Limits of a turn, what it costs, and what can be said for one turn only."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Gate, Usage
from tests.support.messages_api.replies import calls, hold, message, says

AGAIN = message(calls("Nothing", {}), usage=Usage(1000, 100))
WORDS = message(says("Done."), usage=Usage(1000, 100))


def test_a_turn_ends_after_so_many_requests(harness: Harness) -> None:
    driver = harness.open_session(otherwise=AGAIN)
    turn = driver.run_turn(max_requests=3)
    assert (turn["reason"], turn["model_requests"], turn["error"]) == ("max_requests", 3, None)
    assert len(driver.requests) == 3
    assert driver.outline_messages()[-1] == ("user", ["tool_result"])
    driver.expect_usable()


def test_no_turn_may_ask_more_often_than_the_configuration_says(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_TURNS__MAX_REQUESTS="2")
    driver = harness.open_session(otherwise=message(calls("Nothing", {})))
    turn = driver.run_turn(max_requests=5)
    assert (turn["reason"], turn["model_requests"], len(driver.requests)) == ("max_requests", 2, 2)


def test_no_model_is_asked_for_more_than_it_can_write(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__MAX_OUTPUT_TOKENS="1000000")
    driver = harness.open_session(otherwise=message(says("Done.")))
    harness.api.may_rewrite = True  # another model is another prefix
    driver.run_turn(model="claude-haiku-4-5")
    driver.run_turn(model="claude-sonnet-5")
    assert [request.body["max_tokens"] for request in driver.requests] == [64_000, 128_000]


def test_a_turn_ends_when_its_budget_is_used_up(harness: Harness) -> None:
    driver = harness.open_session(otherwise=AGAIN)
    turn = driver.run_turn(max_budget_usd="0.008")
    # 1,000 tokens in and 100 out cost 0.004 dollars with the default model; checked before each request.
    assert (turn["reason"], turn["error"]["code"]) == ("budget", "budget_exceeded")
    assert turn["model_requests"] >= 2
    assert float(turn["usage"]["cost_usd"]) >= 0.008
    assert float(turn["usage"]["cost_usd"]) - float(turn["usage"]["cost_usd"]) / turn["model_requests"] < 0.008
    driver.expect_usable()


def test_the_budget_of_a_session_holds_over_its_turns(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS, max_budget_usd="0.005")
    reasons = [driver.run_turn()["reason"] for _ in range(4)]
    assert reasons[0] == "completed"
    assert reasons[-1] == "budget"
    assert reasons == sorted(reasons, reverse=True)
    assert len(driver.requests) == reasons.count("completed")
    # No message is told of that will not come.
    started = [data["message"]["id"] for data in driver.list_event_data("message.started")]
    assert len(started) == len(driver.requests)


def test_a_budget_for_a_model_without_a_price_is_an_error_at_the_start(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    error = driver.expect_error(
        "turn/start", session_id=driver.id, input=driver.tag_input("Go."), model="some-local-model", max_budget_usd="1"
    )
    assert error["data"]["code"] == "budget_exceeded"
    assert "some-local-model" in error["message"]
    assert driver.requests == []
    driver.expect_usable()


def test_a_model_without_a_price_costs_nobody_knows_what(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS, model="some-local-model")
    turn = driver.run_turn()
    assert turn["usage"]["cost_usd"] is None
    assert turn["usage"]["input_tokens"] == 1000
    assert driver.fetch_state()["usage"]["cost_usd"] is None


def test_a_price_in_the_configuration_counts(harness: Harness) -> None:
    harness.daemon.call("config/set", key="model.prices", value={"a-priced-model": {"input": "10", "output": "100"}})
    driver = harness.open_session(otherwise=WORDS, model="a-priced-model")
    assert driver.run_turn(max_budget_usd="1")["usage"]["cost_usd"] == "0.02"


def test_a_turn_ends_when_its_time_is_over(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("I think ", hold(gate))))
    turn = driver.run_turn(timeout_ms=200)
    assert turn["reason"] == "timeout"
    assert driver.requests[0].wait_until_ended() == "left"
    driver.expect_usable()


def test_the_time_of_a_turn_stops_its_command(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    fifo = driver.get_gate_path("never")
    command = calls("Bash", {"command": f"mkfifo {fifo}; cat {fifo}"})
    harness.api.script(driver.name, message(command, calls("Bash", {"command": "true"})))
    turn = driver.run_turn(timeout_ms=300)
    assert turn["reason"] == "timeout"
    assert [result["is_error"] for result in driver.fetch_results()] == [True, True]
    running, waiting = driver.fetch_result_texts()
    assert "Stopped by the turn's time limit before it was finished." in running
    assert "Stopped by the turn's time limit before it started." in waiting
    driver.expect_usable()


def test_usage_and_cost_are_summed_per_turn_and_session(harness: Harness) -> None:
    first = Usage(100, 10, cache_read_input_tokens=1000, cache_creation_input_tokens=50)
    driver = harness.open_session(
        message(calls("Nothing", {}), usage=first), message(says("Done."), usage=Usage(5, 7)), message(says("Yes."))
    )
    one, two = driver.run_turn(), driver.run_turn()
    assert {key: one["usage"][key] for key in one["usage"] if key != "cost_usd"} == {
        "input_tokens": 105,
        "output_tokens": 17,
        "cache_read_tokens": 1000,
        "cache_write_tokens": 50,
    }
    assert two["usage"]["input_tokens"] == 100
    session = driver.fetch_state()["usage"]
    assert (session["input_tokens"], session["output_tokens"]) == (205, 37)
    assert float(session["cost_usd"]) == pytest.approx(
        float(one["usage"]["cost_usd"]) + float(two["usage"]["cost_usd"])
    )
    updates = driver.list_event_data("usage.updated")
    assert [update["request"]["input_tokens"] for update in updates] == [100, 5, 100]
    assert [update["turn"]["input_tokens"] for update in updates] == [100, 105, 100]
    assert [update["session"]["input_tokens"] for update in updates] == [100, 105, 205]
    assert sum(float(update["request"]["cost_usd"]) for update in updates) == pytest.approx(float(session["cost_usd"]))


def test_usage_is_stored_by_model_and_turn(harness: Harness) -> None:
    harness.api.may_rewrite = True  # another model is another prefix
    driver = harness.open_session(otherwise=WORDS)
    turns = [driver.run_turn(), driver.run_turn(model="claude-haiku-4-5")]
    with closing(sqlite3.connect(f"file:{harness.daemon.home / 'ostler.db'}?mode=ro", uri=True)) as database:
        query = (
            "SELECT turn_id, model, input_tokens, output_tokens, cost_usd FROM usage WHERE session_id = ? ORDER BY id"
        )
        rows = database.execute(query, (driver.id,)).fetchall()
    models = [driver.session["model"], "claude-haiku-4-5"]
    assert rows == [
        (turn["id"], model, 1000, 100, turn["usage"]["cost_usd"]) for turn, model in zip(turns, models, strict=True)
    ]
    assert [data["model"] for data in driver.list_event_data("usage.updated")] == models


def test_a_price_that_is_not_known_any_more_ends_a_turn_with_a_budget(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    harness.daemon.call("config/set", key="model.prices", value={"priced-for-now": {"input": "1", "output": "1"}})
    driver = harness.open_session(model="priced-for-now")
    harness.api.script(driver.name, message(calls("Gate", {"path": driver.get_gate_path("g")})), otherwise=WORDS)
    turn_id = driver.start(max_budget_usd="1")
    driver.wait_at_gate("g")
    harness.daemon.call("config/set", key="model.prices", value={})
    driver.open_gate("g")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"]["code"], len(driver.requests)) == ("budget", "budget_exceeded", 1)
    assert "a price is not known" in turn["error"]["message"]


def test_a_model_for_one_turn_is_for_that_turn_only(harness: Harness) -> None:
    harness.api.may_rewrite = True  # another model is another prefix
    driver = harness.open_session(otherwise=WORDS)
    driver.run_turn(model="claude-haiku-4-5")
    driver.run_turn()
    assert [request.body["model"] for request in driver.requests] == ["claude-haiku-4-5", "claude-sonnet-5"]
    assert [one["model"] for one in driver.fetch_messages() if one["role"] == "assistant"] == [
        "claude-haiku-4-5",
        "claude-sonnet-5",
    ]
    assert [update["model"] for update in driver.list_event_data("usage.updated")] == [
        "claude-haiku-4-5",
        "claude-sonnet-5",
    ]
    assert driver.fetch_state()["model"] == "claude-sonnet-5"


def test_a_mode_given_with_a_turn_holds_from_then_on(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    driver.run_turn(mode="plan")
    assert driver.fetch_state()["mode"] == "plan"
    assert driver.list_event_data("session.updated")[0]["session"]["mode"] == "plan"


def test_a_mode_that_is_forbidden_starts_nothing(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    error = driver.expect_error(
        "turn/start", session_id=driver.id, input=driver.tag_input("Go."), mode="bypassPermissions"
    )
    assert error["data"]["code"] == "mode_forbidden"
    assert driver.fetch_state()["mode"] == "default"
    driver.expect_usable()


def test_a_choice_of_tool_is_for_the_first_request_only(harness: Harness) -> None:
    driver = harness.open_session(AGAIN, WORDS)
    driver.run_turn(tool_choice={"type": "any"})
    assert [request.body.get("tool_choice") for request in driver.requests] == [{"type": "any"}, None]


def test_bad_params_of_a_turn_name_each_field(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    error = driver.expect_error("turn/start", session_id=driver.id, input="", max_requests=0, timeout_ms=-1, speed=3)
    assert error["code"] == -32602
    fields = {one["path"].split(".")[0] for one in error["data"]["errors"]}
    assert {"input", "max_requests", "timeout_ms", "speed"} <= fields
    driver.expect_usable()


def test_input_of_blanks_is_refused(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    assert driver.expect_error("turn/start", session_id=driver.id, input=" \n ")["code"] == -32602
    driver.expect_usable()


def test_a_file_in_the_input_is_given_to_the_model(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    driver.write_file("notes.txt", "one\ntwo\nthree\n")
    blocks = [
        {"type": "text", "text": driver.tag_input("See.")},
        {"type": "file", "path": "notes.txt", "start_line": 2},
    ]
    turn = harness.daemon.call("turn/start", session_id=driver.id, input=blocks)
    driver.wait_for_turn_end(turn["id"])
    sent = str(driver.requests[0].messages[0])
    assert "three" in sent
    assert "one" not in sent.replace("Done", "")


def test_a_turn_in_an_archived_session_is_refused(harness: Harness) -> None:
    driver = harness.open_session(otherwise=WORDS)
    driver.run_turn()
    harness.daemon.call("session/archive", session_id=driver.id)
    assert driver.expect_error("turn/start", session_id=driver.id, input="Go.")["data"]["code"] == "conflict"
    assert len(driver.requests) == 1
    harness.daemon.call("session/archive", session_id=driver.id, archived=False)
    driver.expect_usable()


def test_a_turn_in_a_folder_that_is_gone_is_a_clear_state(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "true"})), WORDS, rules={"allow": ["Bash"]})
    driver.folder.rmdir()
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    assert "does not exist any more" in driver.fetch_result_texts()[0]
    driver.folder.mkdir()
    driver.expect_usable()


def test_an_unknown_session_is_named(harness: Harness) -> None:
    error = harness.daemon.expect_error("turn/start", session_id="s_000000000000000000000", input="Go.")
    assert error["data"]["code"] == "session_not_found"

"""A turn whose answer has to fit a JSON schema."""

import json

import pytest

from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}
OSLO = {"city": "Oslo", "people": 700_000}


@pytest.fixture(autouse=True)
def _other_tools(harness: Harness) -> None:
    harness.api.may_rewrite = True  # the first turn with a form adds its tool


def test_the_answer_in_its_form_ends_the_turn(harness: Harness) -> None:
    driver = harness.open_session(message(says("Here."), calls("StructuredOutput", OSLO)), otherwise=DONE)
    turn = driver.run_turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["error"]) == ("completed", OSLO, None)
    assert len(driver.requests) == 1
    sent = {tool["name"]: tool for tool in driver.requests[0].body["tools"]}
    assert sent["StructuredOutput"]["input_schema"] == {"type": "object"}
    assert json.dumps(FORM, separators=(",", ":")) in str(driver.requests[0].messages[0])
    assert driver.outline_messages()[-1] == ("user", ["tool_result"])
    driver.expect_usable()
    assert driver.requests[-1].body["tools"] == driver.requests[0].body["tools"]


def test_the_tools_that_were_sent_stay_as_they_are_before_and_after_a_turn_with_a_form(harness: Harness) -> None:
    driver = harness.open_session(DONE, message(calls("StructuredOutput", OSLO)), DONE)
    driver.run_turn()
    driver.run_turn(output_schema=FORM)
    driver.run_turn()
    before, during, after = (request.body["tools"] for request in driver.requests)
    assert during[:-1] == before
    assert during[-1]["name"] == "StructuredOutput"
    assert after == during


def test_a_form_that_nobody_asked_for_is_not_taken(harness: Harness) -> None:
    given = message(calls("StructuredOutput", OSLO))
    driver = harness.open_session(given, given, DONE)
    driver.run_turn(output_schema=FORM)
    turn = driver.run_turn()
    assert (turn["structured_output"], turn["result_text"]) == (None, "Done.")
    assert "Answer in words" in driver.fetch_result_texts()[-1]


def test_an_answer_that_does_not_fit_is_explained_and_given_again(harness: Harness) -> None:
    driver = harness.open_session(
        message(calls("StructuredOutput", {"people": -1, "colour": "red"})), message(calls("StructuredOutput", OSLO))
    )
    turn = driver.run_turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["model_requests"]) == ("completed", OSLO, 2)
    told = driver.fetch_result_texts()[0]
    assert "does not fit the schema" in told
    assert "people" in told
    assert "city" in told
    driver.expect_usable()


def test_words_are_answered_with_a_nudge_and_then_with_the_end(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(says("It is Oslo.")))
    turn = driver.run_turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["result_text"]) == ("schema", None, "It is Oslo.")
    assert turn["error"]["message"]
    assert turn["model_requests"] == 3
    assert "StructuredOutput" in str(driver.requests[1].messages[-1])
    driver.expect_usable()


def test_a_nudge_is_enough_where_it_helps(harness: Harness) -> None:
    driver = harness.open_session(message(says("It is Oslo.")), message(calls("StructuredOutput", OSLO)))
    assert driver.run_turn(output_schema=FORM)["structured_output"] == OSLO
    driver.expect_usable()


def test_an_answer_that_is_cut_again_and_again_does_not_meet_its_form(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(says("on and on "), stop_reason="max_tokens"))
    assert driver.run_turn(output_schema=FORM)["reason"] == "schema"
    driver.expect_usable()


def test_a_steer_beside_the_answer_starts_the_next_turn(harness: Harness) -> None:
    driver = harness.open_session()
    gate = calls("Gate", {"path": driver.get_gate_path("go")})
    harness.api.script(driver.name, message(gate, calls("StructuredOutput", OSLO)), otherwise=DONE)
    turn_id = driver.start(output_schema=FORM)
    driver.wait_at_gate("go")
    harness.daemon.call("turn/steer", turn_id=turn_id, input="And Bergen?")
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["structured_output"] == OSLO
    following = driver.wait_for_turn_end()
    assert following["result_text"] == "Done."
    assert "And Bergen?" in str(driver.requests[1].messages[-1])
    driver.expect_usable()


@pytest.mark.parametrize(
    "form",
    [{"type": "string"}, {}, {"type": "object", "properties": 5}, {"type": "object", "$ref": "http://127.0.0.1:1/x"}],
    ids=str,
)
def test_a_form_that_cannot_be_used_starts_nothing(harness: Harness, form: dict[str, object]) -> None:
    driver = harness.open_session(attempts(DONE))
    error = driver.expect_error("turn/start", session_id=driver.id, input=driver.tag_input("Go."), output_schema=form)
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "output_schema"
    assert driver.requests == []
    driver.expect_usable()

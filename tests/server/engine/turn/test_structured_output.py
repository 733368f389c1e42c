"""A turn whose answer has a form."""

import pytest

from tests.support.driver import Stage
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
def _other_tools(stage: Stage) -> None:
    stage.api.may_rewrite = True  # a form is a tool of its turn, and the next turn has it no more


def test_the_answer_in_its_form_ends_the_turn(stage: Stage) -> None:
    talk = stage.talk(message(says("Here."), calls("StructuredOutput", OSLO)), otherwise=DONE)
    turn = talk.turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["error"]) == ("completed", OSLO, None)
    assert len(talk.requests) == 1
    sent = {tool["name"]: tool for tool in talk.requests[0].body["tools"]}
    assert sent["StructuredOutput"]["input_schema"] == FORM
    assert talk.transcript()[-1] == ("user", ["tool_result"])
    talk.is_usable()
    assert "StructuredOutput" not in {tool["name"] for tool in talk.requests[-1].body["tools"]}


def test_an_answer_that_does_not_fit_is_explained_and_given_again(stage: Stage) -> None:
    talk = stage.talk(
        message(calls("StructuredOutput", {"people": -1, "colour": "red"})), message(calls("StructuredOutput", OSLO))
    )
    turn = talk.turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["model_requests"]) == ("completed", OSLO, 2)
    told = talk.result_texts()[0]
    assert "does not fit the schema" in told
    assert "people" in told
    assert "city" in told
    talk.is_usable()


def test_words_are_answered_with_a_nudge_and_then_with_the_end(stage: Stage) -> None:
    talk = stage.talk(otherwise=message(says("It is Oslo.")))
    turn = talk.turn(output_schema=FORM)
    assert (turn["reason"], turn["structured_output"], turn["result_text"]) == ("schema", None, "It is Oslo.")
    assert turn["error"]["message"]
    assert turn["model_requests"] == 3
    assert "StructuredOutput" in str(talk.requests[1].messages[-1])
    talk.is_usable()


def test_a_nudge_is_enough_where_it_helps(stage: Stage) -> None:
    talk = stage.talk(message(says("It is Oslo.")), message(calls("StructuredOutput", OSLO)))
    assert talk.turn(output_schema=FORM)["structured_output"] == OSLO
    talk.is_usable()


def test_an_answer_that_is_cut_again_and_again_does_not_meet_its_form(stage: Stage) -> None:
    talk = stage.talk(otherwise=message(says("on and on "), stop_reason="max_tokens"))
    assert talk.turn(output_schema=FORM)["reason"] == "schema"
    talk.is_usable()


def test_a_steer_beside_the_answer_starts_the_next_turn(stage: Stage) -> None:
    talk = stage.talk()
    gate = calls("Gate", {"path": talk.gate("go")})
    stage.api.script(talk.name, message(gate, calls("StructuredOutput", OSLO)), otherwise=DONE)
    turn_id = talk.start(output_schema=FORM)
    talk.at_gate("go")
    stage.daemon.call("turn/steer", turn_id=turn_id, input="And Bergen?")
    talk.open_gate("go")
    assert talk.ended(turn_id)["structured_output"] == OSLO
    following = talk.ended()
    assert following["result_text"] == "Done."
    assert "And Bergen?" in str(talk.requests[1].messages[-1])
    talk.is_usable()


@pytest.mark.parametrize(
    "form",
    [{"type": "string"}, {}, {"type": "object", "properties": 5}, {"type": "object", "$ref": "http://127.0.0.1:1/x"}],
    ids=str,
)
def test_a_form_that_cannot_be_used_starts_nothing(stage: Stage, form: dict[str, object]) -> None:
    talk = stage.talk(attempts(DONE))
    error = talk.refused("turn/start", session_id=talk.id, input=talk.input("Go."), output_schema=form)
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "output_schema"
    assert talk.requests == []
    talk.is_usable()

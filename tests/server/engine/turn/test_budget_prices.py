"""A budget can only be held against a model whose price is known."""

from collections.abc import Callable

from tests.support.driver import Stage
from tests.support.messages_api.failures import fails
from tests.support.model_replies import DONE


def test_a_budget_with_a_model_without_a_price_is_an_error_at_the_start(stage: Stage) -> None:
    talk = stage.talk(otherwise=DONE, model="a-model-without-a-price", max_budget_usd="1")
    error = stage.daemon.error("turn/start", session_id=talk.id, input=talk.input("Go on."))
    assert error["data"]["code"] == "budget_exceeded"
    assert talk.requests == []


def test_a_turn_with_a_budget_does_not_fall_back_to_a_model_without_a_price(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_MODEL__FALLBACK="a-model-without-a-price", OSTLER_MODEL__MAX_RETRIES="0")
    overloaded = fails(529, "Overloaded")
    talk = stage.talk(otherwise=overloaded)
    turn = talk.turn(max_budget_usd="1")
    assert turn["reason"] == "failed"
    assert {request.body["model"] for request in talk.requests} == {talk.session["model"]}


def test_without_a_budget_it_does(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_MODEL__FALLBACK="a-model-without-a-price", OSTLER_MODEL__MAX_RETRIES="0")
    talk = stage.talk(
        otherwise=lambda request: DONE if "without" in request.body["model"] else fails(529, "Overloaded")
    )
    stage.api.may_rewrite = True
    assert talk.turn()["reason"] == "completed"

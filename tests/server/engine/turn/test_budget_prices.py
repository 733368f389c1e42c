"""A budget needs a model whose price is known."""

from collections.abc import Callable

from tests.support.driver import Harness
from tests.support.messages_api.failures import fails
from tests.support.model_replies import DONE


def test_a_budget_with_a_model_without_a_price_is_an_error_at_the_start(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE, model="a-model-without-a-price", max_budget_usd="1")
    error = harness.daemon.expect_error("turn/start", session_id=driver.id, input=driver.tag_input("Go on."))
    assert error["data"]["code"] == "budget_exceeded"
    assert driver.requests == []


def test_a_turn_with_a_budget_does_not_fall_back_to_a_model_without_a_price(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_MODEL__FALLBACK="a-model-without-a-price", OSTLER_MODEL__MAX_RETRIES="0")
    overloaded = fails(529, "Overloaded")
    driver = harness.open_session(otherwise=overloaded)
    turn = driver.run_turn(max_budget_usd="1")
    assert turn["reason"] == "failed"
    assert {request.body["model"] for request in driver.requests} == {driver.session["model"]}


def test_without_a_budget_it_does(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__FALLBACK="a-model-without-a-price", OSTLER_MODEL__MAX_RETRIES="0")
    driver = harness.open_session(
        otherwise=lambda request: DONE if "without" in request.body["model"] else fails(529, "Overloaded")
    )
    harness.api.may_rewrite = True
    assert driver.run_turn()["reason"] == "completed"

"""`strict` and examples of tools: sent to who takes them, and never a reason for a turn to fail."""

from collections.abc import Callable

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.failures import fails
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE

ALWAYS = {"OSTLER_MODEL__TOOL_EXTRAS": "always"}


def get_sent_tools(driver: SessionDriver, request: int = -1) -> dict[str, Json]:
    return {tool["name"]: tool for tool in driver.requests[request].body["tools"]}


def list_strict_tools(driver: SessionDriver, request: int = -1) -> set[str]:
    return {name for name, tool in get_sent_tools(driver, request).items() if "strict" in tool}


def test_a_server_that_only_speaks_like_the_maker_gets_plain_tools(harness: Harness) -> None:
    driver = harness.open_session(DONE)
    driver.run_turn()
    assert list_strict_tools(driver) == set()


def test_tools_that_say_so_are_strict_where_the_provider_takes_it(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(**ALWAYS)
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(driver.name, message(calls("Read", {"file_path": path})), DONE)
    driver.run_turn()
    assert list_strict_tools(driver) == {"Edit", "Grep", "Read", "Write"}
    assert get_sent_tools(driver)["Read"]["input_schema"]["properties"]["limit"]["type"] == "integer"
    assert get_sent_tools(driver)["Glob"]["input_schema"]["properties"]["path"]["type"] == "string"
    assert [request.body["tools"] for request in driver.requests] == [driver.requests[0].body["tools"]] * 2
    assert driver.fetch_result_texts() == ["     1\talpha"]


REFUSALS = {
    "unknown": fails(400, "tools.0.custom.strict: Extra inputs are not permitted"),
    "too many": fails(400, "Schemas contains too many optional parameters (31), which would make it slow (limit: 24)."),
    "too large": fails(400, "The compiled grammar is too large, which would cause performance issues."),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_provider_that_refuses_them_is_asked_without_and_not_bothered_again(
    own_harness: Callable[..., Harness], refusal: Reply
) -> None:
    harness = own_harness(**ALWAYS)
    harness.api.may_rewrite = True
    driver = harness.open_session(attempts(refusal, DONE), otherwise=message(says("Again.")))
    assert driver.run_turn()["result_text"] == "Done."
    assert [bool(list_strict_tools(driver, at)) for at in range(2)] == [True, False]
    assert [notice["level"] for notice in driver.list_event_data("notice")] == ["warning"]
    driver.run_turn()
    assert len(driver.requests) == 3
    assert list_strict_tools(driver) == set()


def test_such_a_refusal_of_plain_tools_is_a_failure(harness: Harness) -> None:
    driver = harness.open_session(attempts(fails(400, "grammar: too large"), DONE))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "extras")
    assert len(driver.requests) == 1
    assert driver.run_turn()["reason"] == "completed"

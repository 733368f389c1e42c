"""`strict` and examples of tools: sent to who takes them, and never a reason for a turn to fail."""

from collections.abc import Callable

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.failures import fails
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE

ALWAYS = {"OSTLER_MODEL__TOOL_EXTRAS": "always"}


def sent(talk: Talk, request: int = -1) -> dict[str, Json]:
    return {tool["name"]: tool for tool in talk.requests[request].body["tools"]}


def strict(talk: Talk, request: int = -1) -> set[str]:
    return {name for name, tool in sent(talk, request).items() if "strict" in tool}


def test_a_server_that_only_speaks_like_the_maker_gets_plain_tools(stage: Stage) -> None:
    talk = stage.talk(DONE)
    talk.turn()
    assert strict(talk) == set()


def test_tools_that_say_so_are_strict_where_the_provider_takes_it(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(**ALWAYS)
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(talk.name, message(calls("Read", {"file_path": path})), DONE)
    talk.turn()
    assert strict(talk) == {"Edit", "Grep", "Read", "Write"}
    assert sent(talk)["Read"]["input_schema"]["properties"]["limit"]["type"] == "integer"
    assert "anyOf" in sent(talk)["Glob"]["input_schema"]["properties"]["path"]
    assert [request.body["tools"] for request in talk.requests] == [talk.requests[0].body["tools"]] * 2
    assert talk.result_texts() == ["     1\talpha"]


REFUSALS = {
    "unknown": fails(400, "tools.0.custom.strict: Extra inputs are not permitted"),
    "too many": fails(400, "Schemas contains too many optional parameters (31), which would make it slow (limit: 24)."),
    "too large": fails(400, "The compiled grammar is too large, which would cause performance issues."),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_provider_that_refuses_them_is_asked_without_and_not_bothered_again(
    own_stage: Callable[..., Stage], refusal: Reply
) -> None:
    stage = own_stage(**ALWAYS)
    stage.api.may_rewrite = True
    talk = stage.talk(attempts(refusal, DONE), otherwise=message(says("Again.")))
    assert talk.turn()["result_text"] == "Done."
    assert [bool(strict(talk, at)) for at in range(2)] == [True, False]
    assert [notice["level"] for notice in talk.all("notice")] == ["warning"]
    talk.turn()
    assert len(talk.requests) == 3
    assert strict(talk) == set()


def test_such_a_refusal_of_plain_tools_is_a_failure(stage: Stage) -> None:
    talk = stage.talk(attempts(fails(400, "grammar: too large"), DONE))
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "extras")
    assert len(talk.requests) == 1
    assert talk.turn()["reason"] == "completed"

"""The scripted server refuses what the real API refuses, and notices what breaks its cache."""

import pytest

from tests.support.messages_api.replies import message, says
from tests.support.messages_api.requests import HEADERS, Json, assistant, body, post, result, text_block, use, user
from tests.support.messages_api.server import ScriptedApi

TOOL = {"name": "Read", "input_schema": {"type": "object"}}
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
PAIR = (user("a"), assistant(use()), user(result()))
THOUGHT = {"type": "thinking", "thinking": "x", "signature": "s"}

REFUSED = {
    "no model": body(model=""),
    "max_tokens": body(max_tokens=0),
    "a stream that is neither": body(stream="no"),
    "unknown field": body(colour="red"),
    "no messages": {"model": "m", "max_tokens": 1, "stream": True, "messages": []},
    "messages missing": {"model": "m", "max_tokens": 1, "stream": True},
    "assistant first": body(assistant("a"), user("b")),
    "user twice": body(user("a"), user("b")),
    "assistant twice": body(user("a"), assistant("b"), assistant("c"), user("d")),
    "assistant last": body(user("a"), assistant("b")),
    "system role": body({"role": "system", "content": "a"}),
    "extra field in a message": body({"role": "user", "content": "a", "id": "m_1"}),
    "empty content": body(user()),
    "empty string": body({"role": "user", "content": ""}),
    "empty text": body(user("")),
    "blank text": body(user(" \n")),
    "blank text in a result": body(user("a"), assistant(use()), user({**result(), "content": [text_block(" ")]})),
    "unknown block": body(user({"type": "poem"})),
    "call in a user message": body(user(use())),
    "thinking in a user message": body(user(THOUGHT)),
    "unsigned thinking": body(user("a"), assistant({**THOUGHT, "signature": ""}), user("b")),
    "marked thinking": body(user("a"), assistant({**THOUGHT, "cache_control": {}}), user("b")),
    "call without result": body(user("a"), assistant(use()), user("b")),
    "call without anything": body(user("a"), assistant("b", use())),
    "result without call": body(user("a", result())),
    "second result": body(*PAIR[:2], user(result(), result())),
    "result too late": body(*PAIR, assistant("x"), user(result())),
    "result of another call": body(*PAIR[:2], user(result(), result("toolu_2"))),
    "results in another order": body(user("a"), assistant(use("t1"), use("t2")), user(result("t2"), result("t1"))),
    "text before results": body(*PAIR[:2], user("b", result())),
    "duplicate ids": body(user("a"), assistant(use(), use()), user(result())),
    "input that is no object": body(user("a"), assistant({**use(), "input": []}), user(result())),
    "five breakpoints": body(
        user(*([MARKED] * 2)), system=[MARKED, MARKED], tools=[{**TOOL, "cache_control": {"type": "ephemeral"}}]
    ),
    "two tools of one name": body(tools=[TOOL, TOOL]),
    "schema of another type": body(tools=[{"name": "Read", "input_schema": {"type": "array"}}]),
    "no schema": body(tools=[{"name": "Read"}]),
    "blank system text": body(system=[text_block(" ")]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_request_that_the_real_api_refuses_is_refused_and_remembered(api: ScriptedApi, name: str) -> None:
    api.may_refuse = True
    api.always(otherwise=message(says("accepted")))
    response = post(api, REFUSED[name])
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"] == api.violations[0].text
    assert api.violations[0].request == 0


ACCEPTED = {
    "plain text": body({"role": "user", "content": "a"}),
    "calls and results": body(*PAIR, assistant(use("t2"), use("t3")), user(result("t2"), result("t3"), "and now")),
    "thinking": body(user("a"), assistant(THOUGHT, {"type": "redacted_thinking", "data": "x"}, "b"), user("c")),
    "four breakpoints": body(user(MARKED, MARKED), system=[MARKED], tools=[{**TOOL, "cache_control": {}}]),
    "empty result": body(*PAIR[:2], user({"type": "tool_result", "tool_use_id": "toolu_1"})),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_request_that_the_real_api_takes_is_taken(api: ScriptedApi, name: str) -> None:
    api.always(otherwise=message(says("accepted")))
    assert post(api, ACCEPTED[name]).status_code == 200


@pytest.mark.parametrize("lacking", HEADERS)
def test_header_that_the_real_api_needs_is_demanded(api: ScriptedApi, lacking: str) -> None:
    api.may_refuse = True
    assert post(api, headers={name: value for name, value in HEADERS.items() if name != lacking}).status_code == 400
    assert lacking in api.violations[0].text


def test_assistant_may_have_the_last_word_where_it_was_paused(api: ScriptedApi) -> None:
    api.always(message(says("wait"), stop_reason="pause_turn"), message(says("done")))
    post(api, body(user("a")))
    assert "done" in post(api, body(user("a"), assistant("wait"))).text


def test_conversation_that_only_grows_keeps_its_prefix(api: ScriptedApi) -> None:
    api.always(otherwise=message(says("x")))
    post(api, body(user(MARKED), system=[MARKED]))
    post(api, body(user(text_block("x"), "steered"), system=[text_block("x")]))
    post(api, body(user("x", "steered"), assistant("y"), user("z"), system=[text_block("x")]))
    assert not api.prefix_changes


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        (body(user("[c] other"), assistant("b"), user("c")), "messages.0"),
        (body(user("[c] a"), assistant("other"), user("c")), "messages.1"),
        (body(user("[c] a"), assistant("b"), user("other")), "messages.2"),
        (body(user("[c] a")), "messages.1"),
        (body(user("[c] a"), assistant("b"), user("c"), system=[text_block("new")]), "system"),
        (body(user("[c] a"), assistant("b"), user("c"), tools=[TOOL]), "tools"),
        (body(user("[c] a"), assistant("b"), user("c"), model="n"), "model"),
    ],
)
def test_changed_prefix_is_noticed(api: ScriptedApi, changed: Json, place: str) -> None:
    api.may_rewrite = True
    api.script("c", otherwise=message(says("x")))
    post(api, body(user("[c] a"), assistant("b"), user("c")))
    post(api, changed)
    assert api.prefix_changes[0].place == place

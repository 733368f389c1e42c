"""What a tool returns can carry further user messages: they follow the results, are stored, and survive a crash."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from ostler.protocol.config import Results
from ostler.server.engine.calls.render import limit_messages
from ostler.tools.files.read import Read
from ostler.tools.search.grep import Grep
from ostler.tools.tool import text_block
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _gate(driver: SessionDriver, name: str, *tells: str, tool: str = "Gate", **more: Any) -> Any:
    return calls(tool, {"path": driver.get_gate_path(name), "tells": list(tells), **more})


def _list_given(driver: SessionDriver) -> list[tuple[int, str]]:
    """The messages that calls gave: the block of the call, and the words."""
    return [
        (int(one["source_call_id"].rpartition("#")[2]), one["content"][0]["text"])
        for one in driver.fetch_messages()
        if one["source_call_id"] is not None
    ]


def test_messages_of_calls_follow_all_results_in_the_order_of_the_calls(harness: Harness) -> None:
    driver = harness.open_session()
    driver.open_gate("one")
    first = _gate(driver, "one", "Mind the step.", "And the beam.", safe=True)
    harness.api.script(driver.name, message(first, _gate(driver, "one", "It creaks.", safe=True)), DONE)
    assert driver.run_turn()["reason"] == "completed"
    given = [(0, "Mind the step."), (0, "And the beam."), (1, "It creaks.")]
    assert _list_given(driver) == given
    outline = driver.outline_messages()
    assert outline[2] == ("user", ["tool_result", "tool_result"])
    assert outline[3:6] == [("user", ["text"])] * 3
    # For the API neighbours of one role are one message: the results stand first in it.
    (sent,) = [each for each in driver.requests[-1].messages if each["role"] == "user"][-1:]
    assert [block["type"] for block in sent["content"]] == ["tool_result"] * 2 + ["text"] * 3
    told = [one["message"] for one in driver.list_event_data("message.completed")]
    calls_told = {one["call"]["call_id"] for one in driver.list_event_data("tool.completed")}
    assert {one["source_call_id"] for one in told if one["source_call_id"]} == calls_told
    assert {one["role"] for one in told if one["source_call_id"]} == {"user"}
    exported = harness.daemon.send_http("GET", f"/sessions/{driver.id}/export?format=markdown").body.decode()
    assert "## Tool\n\nMind the step.\n" in exported
    driver.expect_usable()


def test_messages_of_a_call_that_is_completed_survive_a_crash_and_come_once(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    asked, running = harness.open_session(), harness.open_session()
    for driver, second in ((asked, _gate(asked, "two", tool="AskingGate")), (running, _gate(running, "two"))):
        driver.open_gate("one")
        harness.api.script(driver.name, message(_gate(driver, "one", "Mind the step."), second), DONE)
    asked_turn, running_turn = asked.start(), running.start()
    running.wait_at_gate("two")
    ask = asked.wait_for_ask()
    harness.daemon.kill()
    harness.daemon.start()
    for driver in (asked, running):
        driver.reconnect("now")
    assert harness.daemon.call("turn/wait", turn_id=running_turn)["reason"] == "interrupted"
    assert _list_given(running) == [(0, "Mind the step.")]
    assert _list_given(asked) == []
    asked.open_gate("two")
    asked.answer(ask, "allow")
    assert harness.daemon.call("turn/wait", turn_id=asked_turn)["reason"] == "completed"
    assert _list_given(asked) == [(0, "Mind the step.")]
    for driver in (asked, running):
        driver.expect_usable()
        sent = "".join(map(str, driver.requests[-1].messages))
        assert sent.count("'text': 'Mind the step.'") == 1


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([[text_block("  \n")], []], []),
        ([[text_block("Yes."), text_block("")]], [[text_block("Yes.")]]),
        (
            [[{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]],
            [[text_block("(A block of type 'tool_use' was left out: a tool's messages hold text, image, document.)")]],
        ),
        (
            [[{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": _PNG}}]],
            [[{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}}]],
        ),
    ],
    ids=["nothing", "an empty text", "a call", "a picture under a wrong name"],
)
def test_what_the_api_would_refuse_in_a_message_never_gets_there(
    given: list[list[Json]], sent: list[list[Json]]
) -> None:
    assert [each.blocks for each in limit_messages(Grep(), given, Results())] == sent


def test_a_message_that_is_longer_than_a_result_may_be_is_persisted_as_one() -> None:
    (limited,) = limit_messages(Grep(), [[text_block("word " * 10_000)]], Results())
    assert limited.result_id is not None
    assert limited.whole == "word " * 10_000
    assert f"result://{limited.result_id}" in limited.blocks[0]["text"]
    (whole,) = limit_messages(Read(), [[text_block("word " * 10_000)]], Results())
    assert whole.result_id is None

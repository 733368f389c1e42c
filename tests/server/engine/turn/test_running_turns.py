"""How many turns run at once in a daemon: further ones are queued, and who only waits holds no place."""

from collections.abc import Callable

import pytest

from tests.server.engine.agents.test_agent_tool import agent
from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import hold, message, says
from tests.support.model_replies import DONE, bash


@pytest.fixture
def narrow(own_harness: Callable[..., Harness]) -> Harness:
    """A daemon in which one turn runs at a time."""
    return own_harness(OSTLER_LIMITS__RUNNING_TURNS="1")


def test_further_turns_are_queued_and_begin_in_order(narrow: Harness) -> None:
    gate = Gate()
    first = narrow.open_session(message(says(hold(gate), "First.")), otherwise=DONE)
    others = [narrow.open_session(otherwise=DONE) for _ in range(3)]
    running = first.start()
    behind = narrow.daemon.call("turn/start", session_id=first.id, input=first.tag_input("And then."), queue=True)
    queued = [narrow.daemon.call("turn/start", session_id=one.id, input=one.tag_input("Go.")) for one in others]
    assert [turn["status"] for turn in (behind, *queued)] == ["queued"] * 4
    again = narrow.daemon.call("turn/start", session_id=others[0].id, input=others[0].tag_input("More."))
    assert again["status"] == "queued"
    dropped = narrow.daemon.call("turn/interrupt", turn_id=queued[1]["id"])
    assert (dropped["status"], dropped["reason"]) == ("ended", "interrupted")
    assert others[0].fetch_state()["status"] == "idle"
    gate.open()
    assert first.wait_for_turn_end(running)["result_text"] == "First."
    ended = [others[0].wait_for_turn_end(queued[0]["id"]), others[2].wait_for_turn_end(queued[2]["id"])]
    ended.append(others[0].wait_for_turn_end(again["id"]))
    ended.append(first.wait_for_turn_end(behind["id"]))
    assert [turn["reason"] for turn in ended] == ["completed"] * 4
    begun = [turn["started_at"] for turn in ended]
    assert begun[0] <= begun[1] <= max(begun[2:])
    assert len(others[1].requests) == 0
    for driver in (first, *others):
        driver.expect_usable()


def test_one_that_waits_for_an_ask_or_an_agent_holds_no_place(narrow: Harness) -> None:
    gate = Gate()
    asking = narrow.open_session(message(bash("touch it")), otherwise=DONE)
    leading = narrow.open_session(message(agent(narrow, message(says(hold(gate), "Led.")))), otherwise=DONE)
    other = narrow.open_session(otherwise=DONE)
    asked, led = asking.start(), None
    ask = asking.wait_for_ask()
    led = leading.start()
    leading.wait("turn.started", lambda data: data["turn"]["session_id"] != leading.id)
    assert other.run_turn()["reason"] == "completed"
    asking.answer(ask, "allow")
    assert asking.wait_for_turn_end(asked)["reason"] == "completed"
    gate.open()
    assert leading.wait_for_turn_end(led)["reason"] == "completed"


def test_after_a_kill_what_was_queued_begins(narrow: Harness) -> None:
    asking = narrow.open_session(message(says("Hm.", hold(Gate()))), otherwise=DONE, on_restart="resume")
    other = narrow.open_session(otherwise=DONE)
    running = asking.start()
    asking.wait("message.delta")
    queued = narrow.daemon.call("turn/start", session_id=other.id, input=other.tag_input("Go."))
    narrow.api.script(asking.name, otherwise=DONE)
    narrow.restart()
    for driver, turn_id in ((asking, running), (other, queued["id"])):
        driver.reconnect(after=0)
        assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert other.run_turn()["reason"] == "completed"

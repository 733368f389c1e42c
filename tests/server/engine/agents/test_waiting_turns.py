"""Turns that nobody sits in front of: they end after their agents in the background, and leave none behind."""

from typing import Any

import pytest

from tests.server.engine.agents.test_agent_tool import agent, report
from tests.server.engine.agents.test_background_agents import list_notes
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE, bash

LASTING = "tail -f /dev/null"


def open_waiting(harness: Harness, *blocks: Any, allow: str = "Bash(tail:*)", **session: Any) -> SessionDriver:
    return harness.open_session(
        message(*blocks), message(says("Sent.")), otherwise=DONE, rules={"allow": [allow]}, **session
    )


def lasting_agent(harness: Harness, *steps: Any, **given: Any) -> Any:
    return agent(harness, *(steps or (message(bash(LASTING)),)), run_in_background=True, **given)


def list_running(harness: Harness, driver: SessionDriver) -> list[Json]:
    tasks: list[Json] = harness.daemon.call("task/list", session_id=driver.id, status="running")["tasks"]
    return tasks


def test_run_ends_after_its_agents_and_the_model_is_told_of_them_once(harness: Harness) -> None:
    first, second = Gate(), Gate()
    driver = open_waiting(
        harness,
        *(lasting_agent(harness, message(says(hold(gate), "Found."))) for gate in (first, second)),
    )
    turn_id = driver.start(wait_for_agents=True)
    driver.wait("message.completed", lambda data: "Sent." in str(data["message"]["content"]))
    first.open()
    driver.wait("task.ended")
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    second.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Done.", 3)
    assert len([line for note in list_notes(driver) for line in note.split("\n") if "is done" in line]) == 2
    assert list_running(harness, driver) == []


def test_the_method_run_waits_and_counts_what_was_refused_to_an_agent(harness: Harness) -> None:
    driver = open_waiting(harness, lasting_agent(harness, message(bash("touch it")), report(), name="scout"))
    ran = harness.daemon.call("run", session_id=driver.id, input=f"[{driver.name}] Go.")
    assert (ran["turn"]["reason"], ran["turn"]["result_text"]) == ("completed", "Done.")
    (denial,) = ran["turn"]["denials"]
    assert (denial["tool"], denial["agent"]["name"]) == ("Bash", "scout")


@pytest.mark.parametrize("how", ["timeout", "interrupted"])
def test_a_turn_that_is_stopped_leaves_no_agent_at_work(harness: Harness, how: str) -> None:
    driver = open_waiting(harness, lasting_agent(harness))
    limits: dict[str, Any] = {"timeout_ms": 1500} if how == "timeout" else {}
    turn_id = driver.start(wait_for_agents=True, **limits)
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Bash")
    driver.wait("message.completed", lambda data: "Sent." in str(data["message"]["content"]))
    if how == "interrupted":
        harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == how
    assert driver.wait("task.ended")["data"]["task"]["status"] == "killed"
    assert list_running(harness, driver) == []
    driver.expect_usable()


def test_further_input_is_read_while_the_agents_go_on(harness: Harness) -> None:
    gate = Gate()
    driver = open_waiting(harness, lasting_agent(harness, message(says(hold(gate), "Found."))))
    turn_id = driver.start(wait_for_agents=True)
    driver.wait("message.completed", lambda data: "Sent." in str(data["message"]["content"]))
    harness.daemon.call("turn/steer", turn_id=turn_id, input="One more thing.")
    driver.wait("message.completed", lambda data: "Done." in str(data["message"]["content"]))
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["model_requests"] == 4


def test_an_answer_in_a_schema_comes_after_the_agents(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(
        message(lasting_agent(harness, message(says(hold(gate), "Found.")))),
        message(calls("StructuredOutput", {"n": 1})),
    )
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    turn_id = driver.start(wait_for_agents=True, output_schema=schema)
    driver.wait("tool.completed", lambda data: data["call"]["tool"] == "StructuredOutput")
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["structured_output"] == {"n": 1}
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"

"""Agents that make no progress are named to people and to the model, and can be ended; nothing ends them by itself."""

from collections.abc import Callable

import pytest

from tests.server.engine.agents.test_agent_tool import agent, last_output, open_with, report
from tests.support.driver import Harness, Json
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE, bash, write

SILENT = message(says("On it."), bash("tail -f /dev/null"))


@pytest.fixture
def impatient(own_harness: Callable[..., Harness]) -> Harness:
    return own_harness(OSTLER_AGENTS__STALL_SECONDS="0.5")


def is_stall(data: Json) -> bool:
    return "has made no progress for" in data["text"]


def test_one_in_the_background_is_named_to_all_and_the_model_ends_it(impatient: Harness) -> None:
    driver = open_with(
        impatient,
        agent(impatient, SILENT, run_in_background=True, name="mole"),
        rules={"allow": ["Bash(tail:*)"]},
        wake_on_task_end="agents",
    )
    driver.run_turn()
    output = last_output(driver)
    stop = message(calls("TaskStop", {"task_id": output["task_id"]}))
    impatient.api.script(driver.name, DONE, DONE, stop, otherwise=DONE)
    notice = driver.wait("notice", is_stall)
    assert notice["session_id"] == driver.id
    assert f"The agent 'mole' ({output['agent_id']}) has made no progress" in notice["data"]["text"]
    assert "It runs: tail -f /dev/null" in notice["data"]["text"]
    assert driver.wait("task.ended")["data"]["task"]["status"] == "killed"
    told = [block["text"] for one in driver.fetch_messages() for block in one["content"] if "no progress" in str(block)]
    assert len(told) == 1
    assert f"Its task is {output['task_id']}. TaskStop ends it" in told[0]


def test_one_that_a_call_waits_for_is_named_and_ended_by_people(impatient: Harness) -> None:
    driver = open_with(impatient, agent(impatient, SILENT), rules={"allow": ["Bash(tail:*)"]}, on_ask="deny")
    turn_id = driver.start()
    notice = driver.wait("notice", is_stall)["data"]["text"]
    stalled = driver.wait("tool.progress", lambda data: data["data"].get("status") == "stalled")["data"]["data"]
    child = impatient.daemon.call("session/get", session_id=stalled["agent_id"])
    assert child["turn"]["id"] in notice
    impatient.daemon.call("turn/interrupt", turn_id=child["turn"]["id"])
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert last_output(driver)["status"] == "interrupted"
    assert "What it has so far:\nOn it." in driver.fetch_result_texts()[0]


def test_one_that_waits_for_a_person_is_not_named(impatient: Harness) -> None:
    driver = open_with(
        impatient,
        agent(impatient, message(write(str(impatient.folder / "it"), "x")), report(), name="asks"),
        agent(impatient, SILENT, name="mole"),
        rules={"allow": ["Bash"]},
        on_ask="ask",
    )
    turn_id = driver.start()
    driver.wait_for_ask()
    driver.wait("notice", is_stall)
    impatient.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    named = [data["text"] for data in driver.list_event_data("notice") if is_stall(data)]
    assert [text.startswith("The agent 'mole'") for text in named] == [True]

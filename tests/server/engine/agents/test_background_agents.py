"""Agents in the background: launched, told of once, stopped, and there after a restart."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.engine.agents.test_agent_tool import agent, find_child, last_output, open_with, report
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE, bash


def launch(harness: Harness, *steps: Any, **session: Any) -> tuple[SessionDriver, Json]:
    """A session that has launched an agent, and whose turn is over; and what the call gave."""
    driver = open_with(harness, agent(harness, *steps, run_in_background=True), **session)
    assert driver.run_turn()["reason"] == "completed"
    return driver, last_output(driver)


def list_notes(driver: SessionDriver) -> list[str]:
    return [
        block["text"]
        for one in driver.fetch_messages()
        for block in one["content"]
        if one["role"] == "user" and block["type"] == "text" and "background task" in block["text"]
    ]


def test_one_is_launched_and_its_end_is_told_once(harness: Harness) -> None:
    gate = Gate()
    driver, output = launch(harness, message(says("All ", hold(gate), "found.")))
    assert (output["status"], output["description"]) == ("async_launched", "Look around")
    assert output["task_id"].startswith("a")
    task = driver.wait("task.started")["data"]["task"]
    assert (task["type"], task["agent_id"], task["status"]) == ("local_agent", output["agent_id"], "running")
    assert find_child(driver)["id"] == output["agent_id"]
    gate.open()
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["error"]) == (output["task_id"], "completed", None)
    harness.api.script(driver.name, otherwise=DONE)
    driver.run_turn()
    driver.run_turn()
    (note,) = list_notes(driver)
    assert f"The background task {output['task_id']} is done: Look around" in note
    assert len(driver.list_event_data("task.ended")) == 1


def test_its_report_is_read_with_task_output(harness: Harness) -> None:
    driver, output = launch(harness, report("It is in a.py:3."))
    driver.wait("task.ended")
    block = calls("AgentOutput", {"agentId": output["task_id"]})
    harness.api.script(driver.name, DONE, DONE, message(block), otherwise=DONE)
    driver.run_turn()
    assert "It is in a.py:3." in driver.fetch_result_texts()[-1]
    assert f"{output['task_id']} completed" in driver.fetch_result_texts()[-1]


def test_it_is_stopped_and_ends_with_what_it_has(harness: Harness) -> None:
    driver, output = launch(harness, message(says("So far."), bash("tail -f /dev/null")), rules={"allow": ["Bash"]})
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Bash")
    stopped = harness.daemon.call("task/stop", task_id=output["task_id"])
    assert stopped["status"] == "killed"
    ended = driver.wait("turn.ended", lambda data: data["turn"]["session_id"] == output["agent_id"])["data"]["turn"]
    assert (ended["reason"], ended["result_text"]) == ("interrupted", "So far.")
    harness.api.script(driver.name, otherwise=DONE)
    driver.expect_usable()


def test_one_that_fails_is_a_task_that_failed(harness: Harness) -> None:
    driver, _ = launch(harness, message(says(" ")))
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["error"]) == ("failed", "It ended without a word.")


def test_interrupting_the_turn_with_its_tasks_stops_it(harness: Harness) -> None:
    blocks = [
        message(agent(harness, message(bash("tail -f /dev/null")), run_in_background=True)),
        message(calls("Sleep", {"seconds": 60})),
    ]
    driver = harness.open_session(*blocks, otherwise=DONE, rules={"allow": ["Bash"]})
    turn_id = driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Bash")
    harness.daemon.call("turn/interrupt", turn_id=turn_id, tasks=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.wait("task.ended")["data"]["task"]["status"] == "killed"


def test_it_has_only_what_needs_nobody_beside_it(harness: Harness) -> None:
    harness.api.script("agent-safe", report())
    block = calls("Agent", {"description": "a", "prompt": "[agent-safe] Go.", "run_in_background": True})
    driver = open_with(harness, block)
    driver.run_turn()
    driver.wait("task.ended")
    given = {tool["name"] for tool in harness.api.list_requests("agent-safe")[0].body["tools"]}
    assert {"Bash", "Read", "Edit", "Write", "Grep", "Glob"} <= given
    assert not given & {"Agent", "Monitor", "Sleep", "TaskOutput", "TaskStop", "AskingGate"}


def test_its_ask_reaches_the_root_whose_turn_is_over(harness: Harness) -> None:
    driver, output = launch(harness, message(bash("touch it")), report())
    ask = driver.wait_for_ask()
    assert (ask["session_id"], ask["root_id"]) == (output["agent_id"], driver.id)
    assert driver.fetch_state()["status"] == "idle"
    driver.answer(ask, "allow")
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    assert (driver.folder / "it").exists()


@pytest.mark.parametrize("wanted", ["agents", "all", True])
def test_its_end_wakes_the_session_where_that_is_wanted(harness: Harness, wanted: Any) -> None:
    gate = Gate()
    driver, _ = launch(harness, message(says(hold(gate), "Found.")), wake_on_task_end=wanted)
    gate.open()
    woken = driver.wait("turn.started", lambda data: data["turn"]["session_id"] == driver.id)
    woken = driver.wait("turn.started", lambda data: data["turn"]["session_id"] == driver.id)
    driver.wait_for_turn_end(woken["data"]["turn"]["id"])
    assert len(list_notes(driver)) == 1


def test_without_a_setting_it_wakes_where_somebody_can_answer_and_nowhere_else(harness: Harness) -> None:
    gate, second_gate = Gate(), Gate()
    calls_of_both = message(
        agent(harness, message(says(hold(gate), "Found.")), run_in_background=True),
        agent(harness, message(says(hold(second_gate), "Found.")), run_in_background=True),
    )
    driver = harness.open_session(calls_of_both, otherwise=DONE)
    driver.run_turn()
    gate.open()
    driver.wait("task.ended")
    # Who only watches does not count; the second end comes after a chat has attached.
    client = {"name": "chat", "version": "1", "kind": "terminal"}
    chat = harness.daemon.call("initialize", client=client, capabilities={"answers": ["permission"]})["client_id"]
    with harness.daemon.follow(f"?session={driver.id}&after=now", headers={"Ostler-Client": chat}) as stream:
        stream.wait_for("client.attached")
        second_gate.open()
        first, woken = (driver.wait("turn.started", lambda data: data["turn"]["session_id"] == driver.id) for _ in "ab")
    driver.wait_for_turn_end(woken["data"]["turn"]["id"])
    assert (first != woken, len(list_notes(driver))) == (True, 2), "both are told now"


def test_the_end_of_a_command_wakes_nobody_who_waits_for_agents(harness: Harness) -> None:
    gate = Gate()
    first = message(
        bash("true", run_in_background=True),
        agent(harness, message(says(hold(gate), "Found.")), run_in_background=True),
    )
    driver = harness.open_session(first, otherwise=DONE, rules={"allow": ["Bash"]}, wake_on_task_end="agents")
    driver.run_turn()
    driver.wait("task.ended", lambda data: data["task"]["type"] == "local_bash")
    started = [one["turn"] for one in driver.list_event_data("turn.started")]
    assert [turn["session_id"] for turn in started].count(driver.id) == 1
    gate.open()
    driver.wait("task.ended", lambda data: data["task"]["type"] == "local_agent")
    driver.wait("turn.started", lambda data: data["turn"]["session_id"] == driver.id)
    woken = driver.wait("turn.started", lambda data: data["turn"]["session_id"] == driver.id)
    driver.wait_for_turn_end(woken["data"]["turn"]["id"])
    assert len(list_notes(driver)) == 2 or "is done" in list_notes(driver)[0]


def test_after_a_kill_it_goes_on_and_its_end_is_told_once(own_harness: Callable[..., Harness]) -> None:
    harness, gate = own_harness(), Gate()
    steps = [message(says("On it."), bash("touch started; tail -f /dev/null"))]
    driver = open_with(
        harness,
        agent(harness, *steps, otherwise=message(says(hold(gate), "Done after all.")), run_in_background=True),
        rules={"allow": ["Bash"]},
    )
    driver.run_turn()
    output = last_output(driver)
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Bash")
    harness.restart()
    driver.reconnect(after=0)
    gate.open()
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"]) == (output["task_id"], "completed")
    shown = harness.daemon.call("task/output", task_id=output["task_id"])["output"]
    assert "Done after all." in shown
    harness.api.script(driver.name, otherwise=DONE)
    driver.run_turn()
    driver.run_turn()
    assert len(list_notes(driver)) == 1
    result = harness.daemon.call("session/messages", session_id=output["agent_id"])["messages"][2]["content"][0]
    assert "outcome unknown" in result["content"][0]["text"]


def test_one_that_takes_long_goes_to_the_background_but_not_where_nobody_is_asked(
    own_harness: Callable[..., Harness],
) -> None:
    harness, gate, headless = own_harness(OSTLER_AGENTS__BACKGROUND_SECONDS="0.2"), Gate(), Gate()
    driver = open_with(harness, agent(harness, message(says(hold(gate), "Found."))))
    assert driver.run_turn()["reason"] == "completed"
    output = last_output(driver)
    assert output["status"] == "async_launched"
    gate.open()
    assert driver.wait("task.ended")["data"]["task"]["id"] == output["task_id"]
    alone = open_with(harness, agent(harness, message(says(hold(headless), "Found."))), on_ask="deny")
    turn_id = alone.start()
    progress = alone.wait("tool.progress")
    assert (progress["data"]["kind"], progress["session_id"]) == ("agent", alone.id)
    headless.open()
    assert alone.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert last_output(alone)["status"] == "completed"

"""Agents when the daemon is killed: nobody is started twice, every call hears of its agent once, none is left alone."""

from collections.abc import Callable
from typing import Any

from tests.server.engine.agents.test_agent_tool import agent, find_child, last_output, open_with, report
from tests.server.engine.agents.test_background_agents import list_notes
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE, bash

MakeHarness = Callable[..., Harness]


def list_children(driver: SessionDriver) -> list[str]:
    created = [data["session"] for data in driver.list_event_data("session.created")]
    return [session["id"] for session in created if session["parent_id"] is not None]


def restart(harness: Harness, driver: SessionDriver) -> None:
    harness.restart()
    driver.seen.clear()
    driver._returned.clear()
    driver.reconnect(after=0)


def test_an_ask_of_an_agent_stays_open_and_its_call_takes_the_outcome(own_harness: MakeHarness) -> None:
    harness = own_harness()
    driver = open_with(harness, agent(harness, message(says("So far."), bash("touch it")), report("Touched.")))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    restart(harness, driver)
    state = driver.fetch_state()
    assert (state["turn"]["id"], state["status"], [one["id"] for one in state["asks"]]) == (
        turn_id,
        "waiting",
        [ask["id"]],
    )
    assert [(one["agent_id"], one["status"]) for one in state["agents"]] == [(ask["session_id"], "waiting")]
    driver.answer(ask, "allow")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert (driver.folder / "it").exists()
    assert driver.fetch_result_texts() == [f"Touched.\n\n(agent {ask['session_id']})"]
    assert list_children(driver) == [ask["session_id"]]
    kinds = [event["type"] for event in driver.seen if event["session_id"] == driver.id]
    assert (kinds.count("tool.started"), kinds.count("tool.completed")) == (1, 1)
    driver.expect_usable()


def test_one_that_is_cut_off_ends_with_what_it_has_and_its_call_says_so(own_harness: MakeHarness) -> None:
    harness, gate = own_harness(), Gate()
    driver = open_with(
        harness,
        agent(harness, message(says("So far."), bash("true")), message(says("Never", hold(gate)))),
        rules={"allow": ["Bash"]},
    )
    turn_id = driver.start()
    driver.wait("tool.completed", lambda data: data["call"]["tool"] == "Bash")
    restart(harness, driver)
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    (child,) = [one["agent_id"] for one in harness.daemon.call("agent/list", session_id=driver.id)["agents"]]
    (text,) = driver.fetch_result_texts()
    assert text == f"The agent {child} did not complete: it was stopped before its end.\nWhat it has so far:\nSo far."
    output = last_output(driver)
    assert (output["status"], output["agent_id"], output["result"]) == ("interrupted", child, "So far.")
    driver.expect_usable()


def test_one_that_had_ended_gives_its_words_also_to_a_call_that_never_heard_of_it(own_harness: MakeHarness) -> None:
    """Where its turn goes on by itself, the tree goes on with it; each level takes the outcome of the next."""
    harness, gate = own_harness(), Gate()
    folder = harness.folder / "nesting"
    (folder / ".ostler" / "agents").mkdir(parents=True)
    (folder / ".ostler" / "agents" / "leader.md").write_text(
        "---\nname: leader\ndescription: Leads others\ntools: Agent, Bash\n---\nYou lead.\n"
    )
    below = agent(harness, otherwise=message(says(hold(gate), "Below.")))
    leader = agent(harness, message(below), otherwise=report("Led."), subagent_type="leader")
    driver = harness.open_session(message(leader), otherwise=DONE, folder=folder, trust=True, on_restart="resume")
    turn_id = driver.start()
    for _ in range(2):
        driver.wait("turn.started", lambda data: data["turn"]["session_id"] != driver.id)
    restart(harness, driver)
    assert len(driver.fetch_state()["agents"]) == 2
    gate.open()
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert driver.fetch_result_texts()[0].startswith("Led.")
    assert len(list_children(driver)) == 2


def test_the_place_of_one_that_goes_on_is_taken(own_harness: MakeHarness) -> None:
    harness, first, second = own_harness(OSTLER_AGENTS__MAX_RUNNING="1"), Gate(), Gate()
    background = agent(harness, otherwise=message(says(hold(first), "First.")), run_in_background=True, name="first")
    driver = open_with(harness, background)
    driver.run_turn()
    restart(harness, driver)
    harness.api.script(
        driver.name,
        DONE,
        DONE,
        message(agent(harness, message(says(hold(second), "Second.")), name="second")),
        otherwise=DONE,
    )
    turn_id = driver.start()
    queued = driver.wait("tool.progress", lambda data: data["data"]["status"] == "queued")
    assert queued["session_id"] == driver.id
    first.open()
    second.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_result_texts()[-1].startswith("Second.")


def test_no_agent_is_without_its_task_and_its_call_knows_it(own_harness: MakeHarness) -> None:
    """Killed while a call of the same message runs: the message of the results is not stored yet."""
    harness, gate = own_harness(), Gate()
    background = agent(harness, otherwise=message(says(hold(gate), "Found.")), run_in_background=True)
    driver = open_with(harness, background, calls("Sleep", {"seconds": 60}))
    driver.start()
    driver.wait("task.started")
    restart(harness, driver)
    child, (task,) = find_started(driver), harness.daemon.call("task/list", session_id=driver.id)["tasks"]
    assert (task["agent_id"], task["status"]) == (child, "running")
    gate.open()
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    first, second = driver.fetch_result_texts()
    assert first.startswith(f"Running in background as {task['id']} (agent {child}).")
    assert "outcome unknown" in second
    harness.api.script(driver.name, otherwise=DONE)
    driver.run_turn()
    driver.run_turn()
    assert len(list_notes(driver)) == 1


def find_started(driver: SessionDriver) -> Any:
    driver.wait("session.created", lambda data: data["session"]["parent_id"] is not None)
    return find_child(driver)["id"]


def test_one_goes_on_in_the_background_with_what_it_knew(own_harness: MakeHarness) -> None:
    harness, gate = own_harness(), Gate()
    harness.api.script(
        "agent-known",
        report("One."),
        message(calls("Sleep", {"seconds": 60})),
        otherwise=message(says(hold(gate), "Two.")),
    )
    driver = open_with(harness, calls("Agent", {"description": "a", "prompt": "[agent-known] Go."}))
    driver.run_turn()
    child = find_child(driver)["id"]
    block = calls("Agent", {"description": "b", "prompt": "More.", "resume": child, "run_in_background": True})
    harness.api.script(driver.name, DONE, DONE, message(block), otherwise=DONE)
    driver.run_turn()
    output = last_output(driver)
    assert (output["status"], output["agent_id"]) == ("async_launched", child)
    restart(harness, driver)
    gate.open()
    driver.wait("message.started", lambda data: data["message"]["session_id"] == child)
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    assert "Two." in harness.daemon.call("task/output", task_id=output["task_id"])["output"]
    last = harness.api.list_requests("agent-known")[-1].body["messages"]
    assert [one["role"] for one in last] == ["user", "assistant"] * 2 + ["user"]
    assert "The tool Sleep is not for you" in str(last)

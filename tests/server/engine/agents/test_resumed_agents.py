"""An agent that goes on with a further prompt."""

from tests.server.engine.agents.test_agent_tool import agent, find_child, last_output, open_with, report
from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def resume(agent_id: str, **more: object) -> dict[str, object]:
    return {"description": "Go on", "prompt": "And the tests?", "resume": agent_id, **more}


def test_it_goes_on_with_what_it_knew(harness: Harness) -> None:
    harness.api.script("agent-known", report("One."), report("Two."))
    driver = open_with(harness, calls("Agent", {"description": "a", "prompt": "[agent-known] Go."}))
    driver.run_turn()
    child = find_child(driver)["id"]
    harness.api.script(driver.name, DONE, DONE, message(calls("Agent", resume(child))), otherwise=DONE)
    driver.run_turn()
    output = last_output(driver)
    assert (output["agent_id"], output["status"], output["result"]) == (child, "completed", "Two.")
    _, second = harness.api.list_requests("agent-known")
    assert [one["role"] for one in second.body["messages"]] == ["user", "assistant", "user"]
    assert "And the tests?" in str(second.body["messages"][-1])


def test_of_two_calls_at_once_the_refused_one_takes_nothing_of_the_other(harness: Harness) -> None:
    harness.api.script("agent-wanted-twice", report("One."), report("Two."))
    driver = open_with(harness, calls("Agent", {"description": "a", "prompt": "[agent-wanted-twice] Go."}))
    driver.run_turn()
    child = find_child(driver)["id"]
    both = (calls("Agent", resume(child)), calls("Agent", resume(child)))
    harness.api.script(driver.name, DONE, DONE, message(*both), otherwise=DONE)
    driver.run_turn()
    ended = [data["call"] for data in driver.list_event_data("tool.completed")][1:]
    (done,) = [call["call_id"] for call in ended if not call["is_error"]]
    assert [("is at work" in str(call["content"])) for call in ended if call["is_error"]] == [True]
    (listed,) = harness.daemon.call("agent/list", session_id=driver.id)["agents"]
    assert listed["call_id"] == done, "after a crash, it would be looked for by this"


def test_only_ones_own_that_are_at_rest_and_as_they_are(harness: Harness) -> None:
    other = open_with(harness, agent(harness, report()))
    other.run_turn()
    strange = find_child(other)["id"]
    driver = harness.open_session()
    blocks = [
        calls("Agent", resume(strange)),
        calls("Agent", resume(driver.id)),
        calls("Agent", resume("s_none")),
        calls("Agent", resume(strange, mode="plan", isolation="worktree")),
    ]
    harness.api.script(driver.name, message(*blocks), otherwise=DONE)
    driver.run_turn()
    *unknown, unfit = driver.fetch_result_texts()
    assert all("is no agent of this session" in text for text in unknown)
    assert "resume does not go with isolation, mode" in unfit


def test_one_that_is_at_work_is_not_resumed(harness: Harness) -> None:
    gateless = agent(harness, message(calls("Bash", {"command": "touch it"})), report(), run_in_background=True)
    driver = open_with(harness, gateless)
    driver.run_turn()
    ask = driver.wait_for_ask()
    block = calls("Agent", resume(ask["session_id"]))
    harness.api.script(driver.name, DONE, DONE, message(block), otherwise=DONE)
    driver.run_turn()
    assert "is at work" in driver.fetch_result_texts()[-1]
    driver.answer(ask, "deny")
    driver.wait("task.ended")

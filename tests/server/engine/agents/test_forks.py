"""Forks: agents that begin with all that their parent has sent to the model."""

from collections.abc import Callable
from typing import Any

from tests.server.engine.agents.test_agent_recovery import restart
from tests.server.engine.agents.test_agent_tool import find_child, last_output
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate, Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import Block, calls, hold, message, says
from tests.support.model_replies import DONE, read


def fork(prompt: str = "Find it.", **given: Any) -> Block:
    return calls("Agent", {"description": "Look", "prompt": prompt, "subagent_type": "fork", **given})


def is_fork(request: RecordedRequest) -> bool:
    return "You are a fork of this session" in str(request.messages)


def either(of_the_fork: Reply, of_the_parent: Reply) -> Callable[[RecordedRequest], Reply]:
    """A step for both: they have one conversation in common, and the model cannot tell them apart by it."""
    return lambda request: of_the_fork if is_fork(request) else of_the_parent


def strip(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the marks for the cache, which move with each request."""
    blocks = [{**one, "content": [{**block} for block in one["content"]]} for one in messages]
    for one in blocks:
        for block in one["content"]:
            block.pop("cache_control", None)
    return blocks


def open_forking(harness: Harness, *steps: Any, otherwise: Any = DONE, **session: Any) -> SessionDriver:
    harness.api.may_rewrite = True  # two sessions go on from one conversation
    return harness.open_session(*steps, otherwise=otherwise, **session)


def test_its_first_request_begins_with_the_bytes_of_its_parents(harness: Harness) -> None:
    driver = open_forking(harness)
    path = driver.write_file("a.txt", "hello\n")
    harness.api.script(
        driver.name,
        message(read(path)),
        either(message(says("It says hello.")), message(says("I send a fork."), fork())),
        otherwise=DONE,
    )
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    _, before, forked, after = driver.requests
    assert forked.body["system"] == before.body["system"]
    assert forked.body["tools"] == before.body["tools"] == after.body["tools"]
    assert {name: forked.body.get(name) for name in ("model", "thinking", "max_tokens")} == {
        name: before.body.get(name) for name in ("model", "thinking", "max_tokens")
    }
    *earlier, last = strip(forked.messages)
    *expected, theirs = strip(before.messages)
    assert earlier == expected
    assert last["content"][: len(theirs["content"])] == theirs["content"]
    (added,) = last["content"][len(theirs["content"]) :]
    assert added["text"].startswith("You are a fork of this session")
    assert added["text"].endswith("Find it.")
    output = last_output(driver)
    assert (output["status"], output["result"]) == ("completed", "It says hello.")
    child = find_child(driver)
    assert child["agent"] == {"name": "Look", "kind": "fork"}
    assert driver.fetch_result_texts()[-1] == f"It says hello.\n\n(agent {child['id']})"


def test_it_may_use_what_agents_may_and_knows_what_was_read(harness: Harness) -> None:
    driver = open_forking(harness, mode="acceptEdits")
    path = driver.write_file("a.txt", "hello\n")
    work = message(
        calls("Edit", {"file_path": path, "old_string": "hello", "new_string": "bye"}),
        calls("AskUserQuestion", {"questions": []}),
        fork(),
        calls("EnterPlanMode", {}),
    )
    harness.api.script(
        driver.name,
        message(read(path)),
        either(work, message(fork(name="twin"))),
        either(message(says("Changed.")), DONE),
        otherwise=DONE,
    )
    driver.run_turn()
    child = find_child(driver)["id"]
    results = harness.daemon.call("session/messages", session_id=child)["messages"][-2]["content"]
    edited, *refused = [result["content"][0]["text"] for result in results]
    assert (driver.folder / "a.txt").read_text() == "bye\n", edited
    names = ("AskUserQuestion", "Agent", "EnterPlanMode")
    assert [f"The tool {name} is not for you" in text for name, text in zip(names, refused, strict=True)] == [True] * 3
    assert driver.list_event_data("ask.opened") == []


def test_one_in_the_background_goes_on_after_a_kill_and_may_be_resumed(own_harness: Callable[..., Harness]) -> None:
    harness, gate = own_harness(), Gate()
    slow = message(says(hold(gate), "Found."))
    driver = open_forking(harness)
    harness.api.script(driver.name, either(slow, message(fork(run_in_background=True))), otherwise=either(DONE, DONE))
    driver.run_turn()
    child = last_output(driver)["agent_id"]
    restart(harness, driver)
    gate.open()
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    block = calls("Agent", {"description": "b", "prompt": "And then?", "resume": child})
    more = message(says("More."))
    harness.api.script(driver.name, DONE, either(more, DONE), either(more, message(block)), otherwise=DONE)
    driver.run_turn()
    assert last_output(driver)["result"] == "More."
    forked = [request for request in driver.requests if is_fork(request)]
    assert {str(request.body["tools"]) for request in forked} == {str(driver.requests[0].body["tools"])}
    assert [one["role"] for one in forked[-1].messages] == ["user", "assistant", "user"]


def test_another_model_is_refused(harness: Harness) -> None:
    driver = open_forking(harness, message(fork(model="haiku")))
    driver.run_turn()
    assert "leave `model` out" in driver.fetch_result_texts()[0]
    assert [one for one in driver.list_event_data("session.created") if one["session"]["parent_id"]] == []

"""How many agents work at once, and how deep they stand."""

from collections.abc import Callable
from pathlib import Path

from tests.server.engine.agents.test_agent_tool import agent, open_with, report
from tests.support.driver import Harness, Json
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE, bash

NESTING = "---\nname: leader\ndescription: Leads others\ntools: Agent, Bash\n---\nYou lead.\n"


def is_child(data: Json) -> bool:
    return data["session"]["parent_id"] is not None


def test_more_than_may_work_at_once_wait_in_order(own_harness: Callable[..., Harness]) -> None:
    harness, gates = own_harness(OSTLER_AGENTS__MAX_RUNNING="1"), [Gate(), Gate(), Gate()]
    names = ["first", "second", "third"]
    driver = open_with(
        harness,
        *(agent(harness, message(says(hold(gate), name)), name=name) for gate, name in zip(gates, names, strict=True)),
    )
    turn_id = driver.start()
    for gate, name in zip(gates, names, strict=True):
        created = driver.wait("session.created", is_child)["data"]["session"]
        assert created["title"] == name
        running = [one["session"]["title"] for one in driver.list_event_data("session.created") if is_child(one)]
        assert running == names[: len(running)]
        if name == "first":
            queued = driver.wait("tool.progress", lambda data: data["data"]["status"] == "queued")["data"]
            assert (queued["kind"], queued["data"]["agent_id"]) == ("agent", None)
            for listed in (harness.daemon.call("agent/list", session_id=driver.id), driver.fetch_state()):
                shown = [(one["name"], one["status"], one["agent_id"] is None) for one in listed["agents"]]
                assert shown == [
                    ("first", "running", False),
                    ("second", "queued", True),
                    ("third", "queued", True),
                ]
        gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [text.split("\n")[0] for text in driver.fetch_result_texts()] == names


def test_who_waits_for_a_person_or_an_agent_holds_no_place(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    harness = own_harness(OSTLER_AGENTS__MAX_RUNNING="1")
    folder = tmp_path / "project"
    (folder / ".ostler" / "agents").mkdir(parents=True)
    (folder / ".ostler" / "agents" / "leader.md").write_text(NESTING)
    below = agent(harness, message(bash("touch below")), report("Below."))
    leader = agent(harness, message(below), report("Led."), subagent_type="leader")
    asking = agent(harness, message(bash("touch asked")), report("Asked."))
    driver = harness.open_session(message(asking, leader), otherwise=DONE, folder=folder, trust=True)
    turn_id = driver.start()
    asks = [driver.wait_for_ask(), driver.wait_for_ask()]
    assert {ask["call"]["input"]["command"] for ask in asks} == {"touch asked", "touch below"}
    for ask in asks:
        driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [text.split("\n")[0] for text in driver.fetch_result_texts()] == ["Asked.", "Led."]


def test_they_stand_only_so_deep(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    harness = own_harness(OSTLER_AGENTS__MAX_DEPTH="1")
    folder = tmp_path / "project"
    (folder / ".ostler" / "agents").mkdir(parents=True)
    (folder / ".ostler" / "agents" / "leader.md").write_text(NESTING)
    harness.api.script("leader", message(agent(harness, report())), otherwise=report("Alone."))
    block = calls("Agent", {"description": "a", "prompt": "[leader] Go.", "subagent_type": "leader"})
    driver = harness.open_session(message(block), otherwise=DONE, folder=folder, trust=True)
    driver.run_turn()
    first, second = harness.api.list_requests("leader")
    assert [tool["name"] for tool in first.body["tools"]] == ["Bash"]
    assert "The tool Agent cannot be used here" in str(second.body["messages"][-1])

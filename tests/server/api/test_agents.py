"""Agents over the wire: agent/list, and those at work in session/get."""

from pathlib import Path

from tests.server.engine.agents.test_agent_tool import agent, open_with, report
from tests.support.driver import Harness, Json
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import hold, message, says
from tests.support.model_replies import bash


def test_agents_are_listed_with_what_they_are_and_how_they_ended(harness: Harness) -> None:
    gate = Gate()
    driver = open_with(
        harness,
        agent(harness, message(says(hold(gate), "Found.")), name="scout", subagent_type="Plan"),
        agent(harness, message(says(" "))),
        agent(harness, message(bash("touch it")), report(), run_in_background=True),
    )
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.wait("turn.ended", lambda data: data["turn"]["reason"] == "failed")
    found = {one["description"] + one["status"]: one for one in list_agents(harness, driver.id)}
    states = sorted(one["status"] for one in found.values())
    assert states == ["failed", "running", "waiting"]
    running = next(one for one in found.values() if one["status"] == "running")
    assert (running["name"], running["kind"], running["mode"]) == ("scout", "Plan", "plan")
    assert [running["parent_id"], running["task_id"], running["ended_at"]] == [driver.id, None, None]
    waiting = next(one for one in found.values() if one["status"] == "waiting")
    assert waiting["task_id"].startswith("a")
    at_work = driver.fetch_state()["agents"]
    assert {one["agent_id"] for one in at_work} == {running["agent_id"], waiting["agent_id"]}
    driver.answer(ask, "deny")
    gate.open()
    driver.wait_for_turn_end(turn_id)
    driver.wait("task.ended")
    assert sorted(one["status"] for one in list_agents(harness, driver.id)) == ["completed", "completed", "failed"]
    assert driver.fetch_state()["agents"] == []


def list_agents(harness: Harness, session_id: str) -> list[Json]:
    found: list[Json] = harness.daemon.call("agent/list", session_id=session_id)["agents"]
    return found


def test_kinds_are_listed_with_their_files_and_what_is_wrong(harness: Harness, tmp_path: Path) -> None:
    place = tmp_path / ".ostler" / "agents"
    place.mkdir(parents=True)
    (place / "good.md").write_text("---\nname: good\ndescription: d\ntools: Read\n---\nGo.\n")
    (place / "bad.md").write_text("---\nname: bad\n---\nGo.\n")
    driver = harness.open_session(folder=tmp_path, trust=True)
    found = harness.daemon.call("agent/list", session_id=driver.id)
    names = [kind["name"] for kind in found["kinds"]]
    assert names == ["general-purpose", "Explore", "Plan", "Bash", "guide", "statusline-setup", "fork", "good"]
    assert found["kinds"][-1] == {
        "name": "good",
        "description": "d",
        "tools": ["Read"],
        "source": "project",
        "path": str(place / "good.md"),
    }
    (error,) = found["errors"]
    assert (error["path"], error["line"]) == (str(place / "bad.md"), 1)

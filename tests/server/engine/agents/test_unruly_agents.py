"""Agents that do not behave: they start themselves, print or work for ever, or cost too much; all of it has an end."""

from pathlib import Path

from tests.server.engine.agents.test_agent_tool import agent, last_output, open_with
from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE, bash


def put_kind(folder: Path, name: str, *lines: str) -> None:
    place = folder / ".ostler" / "agents"
    place.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["---", f"name: {name}", "description: d", *lines, "---", "Go."])
    (place / f"{name}.md").write_text(text)


def test_one_that_starts_itself_again_and_again_comes_to_an_end(harness: Harness, tmp_path: Path) -> None:
    harness.api.may_rewrite = True  # all of them have one script, and the deepest has no Agent
    put_kind(tmp_path, "mirror", "tools: Agent")
    again = calls("Agent", {"description": "a", "prompt": "[mirror] Go.", "subagent_type": "mirror"})
    harness.api.script("mirror", message(again), otherwise=message(says("Enough.")))
    driver = harness.open_session(message(again), otherwise=DONE, folder=tmp_path, trust=True)
    assert driver.run_turn()["reason"] == "completed"
    children = [one["session"] for one in driver.list_event_data("session.created") if one["session"]["parent_id"]]
    assert len(children) == 3
    deepest = harness.daemon.call("session/messages", session_id=children[-1]["id"])["messages"]
    assert "The tool Agent cannot be used here" in str(deepest)
    assert last_output(driver)["status"] == "completed"
    driver.expect_usable()


def test_one_that_prints_for_ever_ends_with_the_turn_and_leaves_no_process(harness: Harness) -> None:
    block = agent(harness, message(says("It prints."), bash("yes")))
    driver = open_with(harness, block, rules={"allow": ["Bash(yes)"]})
    turn_id = driver.start()
    driver.wait("tool.progress", lambda data: data["kind"] == "shell" and data["data"]["output"])
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    (text,) = driver.fetch_result_texts()
    assert "It prints." in text
    driver.expect_usable()


def test_one_costs_at_most_what_its_kind_may(harness: Harness, tmp_path: Path) -> None:
    put_kind(tmp_path, "cheap", "max_budget_usd: 0.0005")
    endless = message(says("Once more."), calls("TaskList", {}))
    block = agent(harness, otherwise=endless, subagent_type="cheap")
    driver = harness.open_session(message(block), otherwise=DONE, folder=tmp_path, trust=True)
    turn = driver.run_turn()
    output = last_output(driver)
    assert (turn["reason"], output["status"], output["result"]) == ("completed", "failed", "Once more.")
    assert "budget of the session, 0.0005 USD, is used up" in output["error"]
    assert 0.0005 <= float(output["usage"]["cost_usd"]) < 0.0015


def test_a_kind_with_a_budget_is_refused_where_no_price_is_known(harness: Harness, tmp_path: Path) -> None:
    put_kind(tmp_path, "cheap", "max_budget_usd: 0.0005", "model: claude-of-nobody-knows")
    driver = harness.open_session(
        message(agent(harness, subagent_type="cheap")), otherwise=DONE, folder=tmp_path, trust=True
    )
    driver.run_turn()
    assert "the price of claude-of-nobody-knows is not known" in driver.fetch_result_texts()[0]
    assert [one for one in driver.list_event_data("session.created") if one["session"]["parent_id"]] == []


def test_the_turns_time_limit_ends_its_agents_too(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(bash("tail -f /dev/null"))), rules={"allow": ["Bash(tail:*)"]})
    turn_id = driver.start(timeout_ms=800)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "timeout"
    assert harness.daemon.call("agent/list", session_id=driver.id)["agents"][0]["status"] == "killed"
    driver.expect_usable()

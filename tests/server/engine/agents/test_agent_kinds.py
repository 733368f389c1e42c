"""Kinds of agents from files, used over the wire."""

from pathlib import Path

from tests.server.engine.agents.test_agent_tool import find_child, last_output, report
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, write

REVIEWER = """---
name: reviewer
description: Reads a change
tools: Read, Write
mode: plan
max_budget_usd: 100
---
You review like a hawk.
"""


def open_project(harness: Harness, folder: Path, text: str = REVIEWER, *, trust: bool = True) -> SessionDriver:
    folder.mkdir()
    place = folder / ".claude" / "agents"
    place.mkdir(parents=True)
    (place / "reviewer.md").write_text(text)
    return harness.open_session(folder=folder, trust=trust, model="claude-sonnet-5")


def call_reviewer(harness: Harness, driver: SessionDriver) -> str:
    name = f"{driver.name}-reviewer"
    harness.api.script(name, message(write(driver.folder / "new")), otherwise=report("All good."))
    block = calls("Agent", {"description": "Review", "prompt": f"[{name}] Go.", "subagent_type": "reviewer"})
    harness.api.script(driver.name, message(block), otherwise=DONE)
    return name


def describe_agent_tool(driver: SessionDriver, number: int) -> str:
    tools = driver.requests[number].body["tools"]
    return next(str(tool["description"]) for tool in tools if tool["name"] == "Agent")


def test_a_kind_of_the_project_works_with_its_own_words_tools_and_mode(harness: Harness, tmp_path: Path) -> None:
    driver = open_project(harness, tmp_path / "project")
    name = call_reviewer(harness, driver)
    turn = driver.run_turn()
    assert "- reviewer: Reads a change (Tools: Read, Write)" in describe_agent_tool(driver, 0)
    assert (last_output(driver)["status"], last_output(driver)["result"]) == ("completed", "All good.")
    request = harness.api.list_requests(name)[0]
    assert "You review like a hawk." in request.body["system"][0]["text"]
    assert [tool["name"] for tool in request.body["tools"]] == ["Read", "Write"]
    assert find_child(driver)["mode"] == "plan"
    assert [denial["tool"] for denial in turn["denials"]] == ["Write"]


def test_it_does_not_exist_before_somebody_trusted_the_folder(harness: Harness, tmp_path: Path) -> None:
    driver = open_project(harness, tmp_path / "project", trust=False)
    call_reviewer(harness, driver)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], [each["text"] for each in ask["what"]]) == ("trust", ["agent reviewer: Reads a change"])
    driver.answer(ask, "restrict")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert "There is no kind of agent 'reviewer'" in driver.fetch_result_texts()[0]
    assert "hawk" not in describe_agent_tool(driver, 0)


def test_a_broken_file_is_told_once_with_its_line(harness: Harness, tmp_path: Path) -> None:
    driver = open_project(harness, tmp_path / "project", REVIEWER.replace("tools:", "tool:"))
    harness.api.script(driver.name, otherwise=DONE)
    driver.run_turn()
    driver.run_turn()
    notices = [data["text"] for data in driver.list_event_data("notice")]
    file = driver.folder / ".claude" / "agents" / "reviewer.md"
    assert [text for text in notices if str(file) in text] == [
        f"{file}:4:1: The agent is left out: The field 'tool' is not known. The fields are: color, description, "
        "max_budget_usd, mode, model, name, permissionMode, permission_mode, tools."
    ]


def test_a_file_that_changed_counts_from_the_next_turn_on(harness: Harness, tmp_path: Path) -> None:
    driver = open_project(harness, tmp_path / "project")
    harness.api.script(driver.name, otherwise=DONE)
    driver.run_turn()
    place = driver.folder / ".claude" / "agents" / "reviewer.md"
    place.write_text(REVIEWER.replace("Reads a change", "Reads two changes"))
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "trust")
    driver.wait_for_turn_end(turn_id)
    driver.run_turn()
    assert "Reads two changes" in describe_agent_tool(driver, -1)
    harness.api.prefix_changes.clear()

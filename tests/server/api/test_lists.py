"""Looking things up: turns, asks and tools, page by page."""

from typing import Any

from tests.support.driver import Harness, Json
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def list_all_pages(harness: Harness, method: str, noun: str, **params: Any) -> list[Json]:
    found: list[Json] = []
    page = None
    while True:
        answer = harness.daemon.call(method, page=page, **params)
        assert len(answer[noun]) <= params["limit"]
        found += answer[noun]
        page = answer["next"]
        if page is None:
            return found


def test_turns_are_listed_page_by_page_oldest_first(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE)
    turns = [driver.run_turn(str(n))["id"] for n in range(5)]
    assert [
        turn["id"] for turn in list_all_pages(harness, "turn/list", "turns", session_id=driver.id, limit=2)
    ] == turns
    assert harness.daemon.call("turn/list", session_id=driver.id)["next"] is None


def test_asks_are_listed_page_by_page_oldest_first(harness: Harness) -> None:
    driver = harness.open_session(message(*(calls("TestingPermission", {}) for _ in range(5))), DONE)
    turn_id = driver.start()
    asks = [driver.wait_for_ask()["id"] for _ in range(5)]
    assert [ask["id"] for ask in list_all_pages(harness, "ask/list", "asks", session_id=driver.id, limit=2)] == asks
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    assert harness.daemon.call("ask/list", session_id=driver.id)["asks"] == []
    cancelled = list_all_pages(harness, "ask/list", "asks", session_id=driver.id, limit=3, status="cancelled")
    assert [ask["id"] for ask in cancelled] == asks


def test_tools_are_listed_page_by_page(harness: Harness) -> None:
    driver = harness.open_session()
    for params in ({}, {"session_id": driver.id}):
        whole = harness.daemon.call("tool/list", limit=500, **params)
        assert whole["next"] is None
        assert list_all_pages(harness, "tool/list", "tools", limit=4, **params) == whole["tools"]


def test_a_page_of_another_list_is_refused(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE)
    for n in range(2):
        driver.run_turn(str(n))
    page = harness.daemon.call("turn/list", session_id=driver.id, limit=1)["next"]
    assert page is not None
    assert harness.daemon.expect_error("ask/list", page=page)["code"] == -32602


def test_tools_are_listed_with_what_a_session_lacks(harness: Harness) -> None:
    driver = harness.open_session(tools="read-only", rules={"deny": ["Grep"]})
    tools = {tool["name"]: tool for tool in harness.daemon.call("tool/list", session_id=driver.id)["tools"]}
    assert (tools["Read"]["enabled"], tools["Read"]["read_only"], tools["Read"]["source"]) == (True, True, "built-in")
    assert tools["Read"]["input_schema"]["required"] == ["file_path"]
    assert tools["Write"]["enabled"] is False
    assert tools["Write"]["disabled_reason"]
    assert "rule" in tools["Grep"]["disabled_reason"]
    assert tools["Gate"]["source"] == "gates"
    everywhere = [tool["name"] for tool in harness.daemon.call("tool/list")["tools"]]
    assert set(everywhere) == set(tools)

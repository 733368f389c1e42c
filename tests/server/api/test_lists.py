"""Looking things up: turns, asks and tools, page by page."""

from typing import Any

from tests.support.driver import Json, Stage
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def all_pages(stage: Stage, method: str, noun: str, **params: Any) -> list[Json]:
    found: list[Json] = []
    page = None
    while True:
        answer = stage.daemon.call(method, page=page, **params)
        assert len(answer[noun]) <= params["limit"]
        found += answer[noun]
        page = answer["next"]
        if page is None:
            return found


def test_turns_are_listed_page_by_page_oldest_first(stage: Stage) -> None:
    talk = stage.talk(otherwise=DONE)
    turns = [talk.turn(str(n))["id"] for n in range(5)]
    assert [turn["id"] for turn in all_pages(stage, "turn/list", "turns", session_id=talk.id, limit=2)] == turns
    assert stage.daemon.call("turn/list", session_id=talk.id)["next"] is None


def test_asks_are_listed_page_by_page_oldest_first(stage: Stage) -> None:
    talk = stage.talk(message(*(calls("TestingPermission", {}) for _ in range(5))), DONE)
    turn_id = talk.start()
    asks = [talk.ask()["id"] for _ in range(5)]
    assert [ask["id"] for ask in all_pages(stage, "ask/list", "asks", session_id=talk.id, limit=2)] == asks
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    assert stage.daemon.call("ask/list", session_id=talk.id)["asks"] == []
    cancelled = all_pages(stage, "ask/list", "asks", session_id=talk.id, limit=3, status="cancelled")
    assert [ask["id"] for ask in cancelled] == asks


def test_tools_are_listed_page_by_page(stage: Stage) -> None:
    talk = stage.talk()
    for params in ({}, {"session_id": talk.id}):
        whole = stage.daemon.call("tool/list", limit=500, **params)
        assert whole["next"] is None
        assert all_pages(stage, "tool/list", "tools", limit=4, **params) == whole["tools"]


def test_a_page_of_another_list_is_refused(stage: Stage) -> None:
    talk = stage.talk(otherwise=DONE)
    for n in range(2):
        talk.turn(str(n))
    page = stage.daemon.call("turn/list", session_id=talk.id, limit=1)["next"]
    assert page is not None
    assert stage.daemon.error("ask/list", page=page)["code"] == -32602


def test_tools_are_listed_with_what_a_session_lacks(stage: Stage) -> None:
    talk = stage.talk(tools="read-only", rules={"deny": ["Grep"]})
    tools = {tool["name"]: tool for tool in stage.daemon.call("tool/list", session_id=talk.id)["tools"]}
    assert (tools["Read"]["enabled"], tools["Read"]["read_only"], tools["Read"]["source"]) == (True, True, "built-in")
    assert tools["Read"]["input_schema"]["required"] == ["file_path"]
    assert tools["Write"]["enabled"] is False
    assert tools["Write"]["disabled_reason"]
    assert "rule" in tools["Grep"]["disabled_reason"]
    assert tools["Gate"]["source"] == "gates"
    everywhere = [tool["name"] for tool in stage.daemon.call("tool/list")["tools"]]
    assert set(everywhere) == set(tools)

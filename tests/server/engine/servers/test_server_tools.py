"""Tools of MCP servers in sessions, with real servers: names, permission, results, hooks, and what goes wrong."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver, is_gone
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE
from tests.support.repository import MCP_SERVERS

Json = dict[str, Any]
SERVER = str(MCP_SERVERS / "tools.py")
ALLOWED = {"allow": ["mcp__kit"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "server"
    path.mkdir()
    return path


def make_server(folder: Path, *behaviours: str, **more: Any) -> Json:
    return {"kit": {"command": sys.executable, "args": [SERVER, str(folder), *behaviours], **more}}


def list_pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


def call(tool: str, **given: Any) -> Any:
    return calls(f"mcp__kit__{tool}", given)


def open_session(harness: Harness, folder: Path, *behaviours: str, **more: Any) -> SessionDriver:
    given: Json = {"rules": ALLOWED, "mcp_servers": make_server(folder, *behaviours), **more}
    return harness.open_session(**given)


def allow_new_tools(harness: Harness) -> None:
    """The one thing that may change what was sent before: tools of servers that came between two turns."""
    assert {change.place for change in harness.api.prefix_changes} <= {"tools"}
    harness.api.prefix_changes.clear()


def list_calls(driver: SessionDriver) -> list[Json]:
    return [data["call"] for data in driver.list_event_data("tool.completed")]


def test_results_of_every_kind_reach_the_model_and_the_clients(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder)
    kinds = ("picture", "sound", "bad_picture", "link", "structured", "fails", "refuses", "odd_name_", "steps", "roots")
    harness.api.script(driver.name, message(call("echo", text="héllo"), *map(call, kinds)), DONE)
    driver.run_turn()
    found = {each["tool"].removeprefix("mcp__kit__"): each for each in list_calls(driver)}
    texts = {name: "".join(block.get("text", "") for block in each["content"]) for name, each in found.items()}
    assert texts["echo"] == "héllo"
    assert found["echo"]["mcp"] == {"server": "kit", "tool": "echo"}
    assert found["odd_name_"]["mcp"] == {"server": "kit", "tool": "odd name!"}
    assert (texts["odd_name_"], texts["steps"]) == ("odd", "Stepped.")
    assert found["picture"]["content"][0]["type"] == "image"
    assert "iVBOR" not in str(found["picture"]["output"])
    assert "5 bytes of audio/" in texts["sound"]
    assert Path(texts["sound"].rpartition(" saved to ")[2].rstrip(")")).read_bytes() == b"hello"
    assert "no base64" in texts["bad_picture"]
    assert "notes://log" in texts["link"]
    assert '"answer": 42' in texts["structured"]
    assert (found["structured"]["output"]["structured_content"], found["structured"]["output"]["meta"]) == (
        {"answer": 42},
        {"from": "here"},
    )
    assert (found["fails"]["is_error"], texts["fails"]) == (True, "It is broken.")
    assert (found["refuses"]["is_error"], "There is no tool refuses" in texts["refuses"]) == (True, True)
    assert str(driver.folder) in texts["roots"]
    progress = [data for data in driver.list_event_data("tool.progress") if data["kind"] == "mcp"]
    assert progress[-1]["data"] == {"progress": 3, "total": 3, "message": "on"}
    harness.daemon.call("session/delete", session_id=driver.id)
    wait_until(lambda: all(map(is_gone, list_pids(folder))))


def test_a_call_is_asked_about_and_a_rule_for_the_tool_is_suggested(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, rules={"allow": ["mcp__kit__odd_name_"], "deny": ["mcp__kit__write"]})
    harness.api.script(driver.name, message(call("odd_name_"), call("echo", text="a"), call("write", text="b")), DONE)
    driver.start()
    ask = driver.wait("ask.opened")["data"]["ask"]
    assert (ask["call"]["tool"], ask["suggestions"][0]["rule"]) == ("mcp__kit__echo", "mcp__kit__echo")
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "allow_always"})
    driver.wait_for_turn_end()
    by_tool = {each["tool"]: each for each in list_calls(driver)}
    assert by_tool["mcp__kit__odd_name_"]["decision"]["rule"] == "mcp__kit__odd_name_"
    # Denied as a whole: the model was not even told of it.
    assert by_tool["mcp__kit__write"]["is_error"]
    names = [tool["name"] for tool in harness.api.list_requests(driver.name)[0].body["tools"]]
    assert "mcp__kit__echo" in names
    assert "mcp__kit__write" not in names
    assert not (folder / "written").exists()


def test_rules_about_files_bind_parameters_that_are_named_like_a_path(harness: Harness, folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("hidden")
    driver = open_session(harness, folder, rules={**ALLOWED, "deny": [f"Read(/{secret})"]})
    harness.api.script(driver.name, message(call("read_path", path=str(secret))), DONE)
    driver.run_turn()
    assert "denies" in str(list_calls(driver)[0]["content"])


def test_plan_mode_denies_what_is_not_said_to_only_read(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, mode="plan")
    harness.api.script(driver.name, message(call("echo", text="a"), call("write", text="b")), DONE)
    driver.run_turn()
    assert [each["is_error"] for each in list_calls(driver)] == [False, True]


def test_a_hook_may_put_another_output_in_the_place_of_a_servers(harness: Harness, folder: Path) -> None:
    output = '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedMCPToolOutput": "redacted"}}'
    settings = folder.parent / "hooked" / ".claude"
    settings.mkdir(parents=True)
    entry = {
        "matcher": "mcp__kit__.*",
        "hooks": [{"type": "command", "command": f"echo '{output}'; echo x >> {folder}/ran"}],
    }
    (settings / "settings.json").write_text(json.dumps({"hooks": {"PostToolUse": [entry]}}))
    driver = harness.open_session(folder=settings.parent, trust=True, rules=ALLOWED, mcp_servers=make_server(folder))
    harness.api.script(driver.name, message(call("echo", text="secret")), DONE)
    driver.run_turn()
    done = list_calls(driver)[0]
    assert [block["text"] for block in done["content"]] == ["redacted"]
    assert "secret" not in str(done["output"])
    assert (folder / "ran").read_text() == "x\n"


def test_a_server_that_comes_late_holds_up_nobody_and_is_announced(harness: Harness, folder: Path) -> None:
    harness.daemon.call("config/set", key="mcp.start_wait_ms", value=50)
    try:
        driver = open_session(harness, folder, "slow")
        harness.api.script(driver.name, DONE, message(call("echo", text="now")), DONE)
        driver.run_turn()
        first = harness.api.list_requests(driver.name)[0].body
        assert not [tool for tool in first["tools"] if tool["name"].startswith("mcp__")]
        (folder / "go").touch()
        driver.wait("mcp.changed", lambda data: data["status"] == "connected")
        driver.run_turn("And now?")
        later = harness.api.list_requests(driver.name)[1].body
        assert "mcp__kit__echo" in [tool["name"] for tool in later["tools"]]
        assert "- kit: mcp__kit__" in str(later["messages"][-1])
        assert list_calls(driver)[-1]["content"][0]["text"] == "now"
        allow_new_tools(harness)
    finally:
        harness.daemon.call("config/set", key="mcp.start_wait_ms", value=None)


def test_a_server_that_fails_costs_one_notice_and_the_turn_goes_on(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "broken")
    harness.api.script(driver.name, DONE, DONE)
    driver.run_turn()
    driver.run_turn("Again.")
    notices = [data["text"] for data in driver.list_event_data("notice") if "kit" in data["text"]]
    assert len(notices) == 1
    assert "no database, no tools" in notices[0]
    # It is tried again with each turn, and not in between.
    wait_until(lambda: len(list_pids(folder)) == 2)


def test_a_server_that_dies_in_a_call_gives_an_error_and_is_started_again(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "shy")
    harness.api.script(driver.name, message(call("echo", text="a")), message(call("echo", text="b")), DONE)
    driver.run_turn()
    assert [each["is_error"] for each in list_calls(driver)] == [True, True]
    assert len(list_pids(folder)) >= 2


def test_tools_that_no_model_can_be_sent_are_left_out_by_name(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "wrong")
    harness.api.script(driver.name, DONE)
    driver.run_turn()
    names = {tool["name"]: tool for tool in harness.api.list_requests(driver.name)[0].body["tools"]}
    mine = {name.removeprefix("mcp__kit__"): tool for name, tool in names.items() if name.startswith("mcp__kit__")}
    assert {"recursive", "twice", "a_b"} <= set(mine)
    assert mine["twice"]["description"] == "the first"
    assert len([name for name in mine if name.startswith("a_b")]) == 2
    long = next(tool for name, tool in mine.items() if name.startswith("xxx"))
    assert (len(long["name"]), len(long["description"])) == (128, 2_001)
    words = next(data["text"] for data in driver.list_event_data("notice") if "left out" in data["text"])
    assert all(name in words for name in ("list_schema", "text_schema", "large_schema", "'twice'", "hints"))


def test_of_ten_thousand_tools_a_thousand_are_used_and_found_by_tool_search(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "many")
    found = message(calls("ToolSearch", {"query": "select:mcp__kit__tool_7"}))
    harness.api.script(driver.name, found, message(call("tool_7")), DONE)
    driver.run_turn()
    first = harness.api.list_requests(driver.name)[0].body
    assert not [tool for tool in first["tools"] if tool["name"].startswith("mcp__") and not tool.get("defer_loading")]
    assert "and 950 more" in str(first["messages"])
    assert any("10000 tools" in data["text"] for data in driver.list_event_data("notice"))
    searched, called = list_calls(driver)
    assert not searched["is_error"]
    assert called["mcp"] == {"server": "kit", "tool": "tool_7"}
    # The server has no such tool after all, and says so itself.
    assert "There is no tool tool_7" in called["content"][0]["text"]


def test_a_result_of_100_mb_is_an_error_and_the_session_goes_on(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "huge")
    harness.api.script(driver.name, message(call("echo", text="a")), DONE)
    assert driver.run_turn()["reason"] == "completed"
    assert list_calls(driver)[0]["is_error"]


def test_an_interrupt_ends_a_call_and_the_server_is_told(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder)
    harness.api.script(driver.name, message(call("waits")), DONE)
    turn = driver.start()
    wait_until((folder / "waiting").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn)
    assert driver.wait_for_turn_end()["reason"] == "interrupted"
    wait_until((folder / "cancelled").exists)


def test_a_call_without_progress_ends_after_the_time_of_its_entry(harness: Harness, folder: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, mcp_servers=make_server(folder, timeout=300))
    harness.api.script(driver.name, message(call("waits")), message(call("echo", text="a")), DONE)
    driver.run_turn()
    first, second = list_calls(driver)
    assert (first["is_error"], "longer than 0.3 s" in str(first["content"])) == (True, True)
    assert not second["is_error"]


def test_tools_that_come_with_a_call_are_there_in_the_next_turn(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder, "changing")
    harness.api.script(driver.name, message(call("echo", text="a")), DONE, DONE)
    driver.run_turn()
    wait_until(lambda: [data["status"] for data in _drain(driver, "mcp.changed")].count("connected") >= 2)
    driver.run_turn("And now?")
    last = harness.api.list_requests(driver.name)[-1].body
    assert "mcp__kit__new_0" in [tool["name"] for tool in last["tools"]]
    allow_new_tools(harness)


def _drain(driver: SessionDriver, kind: str) -> list[Json]:
    driver.wait(kind, lambda data: True)
    return driver.list_event_data(kind)


def test_what_a_server_wants_to_know_is_an_ask(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder)
    harness.api.script(driver.name, message(call("asks")), message(call("asks_url")), DONE)
    driver.start()
    ask = driver.wait("ask.opened")["data"]["ask"]
    assert (ask["kind"], ask["server"], ask["message"]) == ("elicitation", "kit", "Who?")
    assert ask["schema"]["required"] == ["name"]
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "accept", "content": {"name": 3}})
    assert "name" in error["message"]
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "accept", "content": {"name": "Ada"}})
    ask = driver.wait("ask.opened", lambda data: data["ask"]["url"] is not None)["data"]["ask"]
    assert ask["url"] == "https://example.org/"
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "decline"})
    driver.wait_for_turn_end()
    texts = [json.loads(each["content"][0]["text"])["result"] for each in list_calls(driver)]
    assert texts == [{"action": "accept", "content": {"name": "Ada"}}, {"action": "decline"}]


def test_a_server_uses_the_model_only_where_a_person_lets_it(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder)
    harness.api.script(driver.name, message(call("samples")), message(call("samples", text="[sampled] Hi")), DONE)
    harness.api.script("sampled", message(says("Good day.")))
    driver.start()
    ask = driver.wait("ask.opened")["data"]["ask"]
    assert (ask["kind"], ask["call"]["tool"]) == ("permission", "mcp__kit__sampling")
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "deny", "message": "no"})
    ask = driver.wait("ask.opened", lambda data: data["ask"]["id"] != ask["id"])["data"]["ask"]
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    driver.wait_for_turn_end()
    refused, answered = [json.loads(each["content"][0]["text"]) for each in list_calls(driver)]
    assert "does not allow" in refused["error"]["message"]
    assert answered["result"]["content"]["text"] == "Good day."


def test_nothing_of_a_server_that_was_not_trusted_is_started(harness: Harness, folder: Path) -> None:
    project = folder.parent / "untrusted"
    project.mkdir()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": make_server(folder)}))
    driver = harness.open_session(folder=project)
    harness.api.script(driver.name, DONE, message(call("odd_name_")), DONE)
    driver.start()
    ask = driver.wait("ask.opened")["data"]["ask"]
    assert ask["kind"] == "trust"
    harness.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "restrict"})
    driver.wait_for_turn_end()
    assert not (folder / "pids").exists()


def test_resources_are_listed_and_read_and_what_is_no_text_becomes_a_file(harness: Harness, folder: Path) -> None:
    driver = open_session(harness, folder)
    uris = ("kit://log", "kit://file", "kit://bad")
    reads = [calls("ReadMcpResource", {"server": "kit", "uri": uri}) for uri in uris]
    other = calls("ReadMcpResource", {"server": "other", "uri": "x"})
    harness.api.script(driver.name, message(calls("ListMcpResources", {}), *reads, other), DONE)
    driver.run_turn()
    by_input = {str(each["input"].get("uri")): each for each in list_calls(driver)}
    listed, log, file, bad, wrong = (by_input[key] for key in ("None", *uris, "x"))
    assert [each["uri"] for each in listed["output"]["resources"]] == ["kit://log", "kit://day/{day}"]
    assert log["content"][0]["text"] == "a line"
    saved = Path(file["output"]["contents"][0]["blob_saved_to"])
    assert saved.read_bytes() == b"hello"
    assert "no base64" in bad["content"][0]["text"]
    assert (wrong["is_error"], "There are: kit" in wrong["content"][0]["text"]) == (True, True)
    driver.daemon.call("session/delete", session_id=driver.id)
    assert not saved.parent.exists()

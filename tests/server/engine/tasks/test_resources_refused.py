"""Resources of MCP servers that cannot, or may not, be watched: in words, and nothing of them is started."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.engine.tasks.resources import (
    ALLOWED,
    NO_SERVER_TOOLS,
    Json,
    make_monitor_input,
    make_plain_server,
    monitor,
    read_pid,
    start_monitor_session,
)
from tests.support.daemon import wait_until
from tests.support.driver import Harness, is_gone
from tests.support.model_replies import DONE

GONE: Json = {"gone": {"command": "/no/such/program"}}


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log, "broken"))
    harness.api.script(driver.name, monitor(), DONE)
    driver.run_turn()
    words = driver.fetch_result_texts()[0]
    assert "The MCP server 'notes' cannot be reached." in words
    assert "It said: no database, no notes" in words
    assert driver.list_event_data("task.started") == []
    wait_until(lambda: is_gone(read_pid(log)))


def test_what_is_not_there_is_named(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers={**make_plain_server(log), **GONE})
    harness.api.script(
        driver.name, monitor("notes://x"), monitor(server="nots"), monitor("x" * 9_000), monitor(" "), DONE
    )
    driver.run_turn()
    no_resource, no_server, long, empty = driver.fetch_result_texts()
    assert "There is no resource notes://x" in no_resource
    assert "There is no MCP server 'nots'. There are: gone, notes." in no_server
    assert "longer than 8000 characters" in long
    assert "The resource is empty." in empty
    none = harness.open_session(monitor(), DONE)
    none.run_turn()
    assert "There is no MCP server 'notes'. The session has none." in none.fetch_result_texts()[0]
    missing = harness.open_session(monitor(server="gone"), DONE, rules={"allow": ["Monitor"]}, mcp_servers=GONE)
    missing.run_turn()
    assert "/no/such/program" in missing.fetch_result_texts()[0]


def test_what_is_no_text_is_watched_too(harness: Harness, log: Path) -> None:
    driver = start_monitor_session(harness, log, uri="notes://picture")
    assert driver.wait("task.started")["data"]["task"]["resource"]["uri"] == "notes://picture"


@pytest.mark.parametrize(
    ("servers", "path", "reason"),
    [
        ({"a b": {"command": "x"}}, "mcp_servers.a b", "no name of a server"),
        ({"a__b": {"command": "x"}}, "mcp_servers.a__b", "no name of a server"),
        ({"a\u200b": {"command": "x"}}, "mcp_servers.a\u200b", "no name of a server"),
        ({"a": "x"}, "mcp_servers.a", "A server is an object"),
        ({"a": {}}, "mcp_servers.a", "command is a text"),
        ({"a": {"type": "telnet"}}, "mcp_servers.a", "type is one of stdio, http"),
        ({"a": {"url": "ftp://x"}}, "mcp_servers.a", "https://"),
        ({"a": {"command": "x", "args": "y"}}, "mcp_servers.a", "args is a list"),
        ({"a": {"url": "https://x", "headers": {"a": 1}}}, "mcp_servers.a", "headers is an object"),
    ],
)
def test_a_session_is_not_made_with_a_server_that_makes_no_sense(
    harness: Harness, tmp_path: Path, servers: Json, path: str, reason: str
) -> None:
    error = harness.daemon.expect_error("session/create", cwd=str(tmp_path), mcp_servers=servers)
    [wrong] = error["data"]["errors"]
    assert wrong["path"] == path
    assert reason in wrong["reason"]


# Permission and trust.


def test_it_asks_and_the_answer_can_be_remembered_for_the_server(harness: Harness, log: Path) -> None:
    driver = harness.open_session(tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log))
    harness.api.script(driver.name, monitor(until="x"), monitor(until="y"), DONE)
    driver.start()
    ask = driver.wait_for_ask()
    assert ask["message"] == "Watch notes://log of the MCP server notes?"
    assert [each["rule"] for each in ask["suggestions"]] == ["mcp__notes"] * len(ask["suggestions"])
    assert not log.with_suffix(".pid").exists()
    driver.answer(ask, "allow_always", rule="mcp__notes", scope="session")
    driver.wait_for_turn_end()
    assert [each["call"]["decision"]["by"] for each in driver.list_event_data("tool.completed")] == ["person", "rule"]


@pytest.mark.parametrize(
    ("rules", "behavior"),
    [
        ({"deny": ["mcp__notes"]}, "deny"),
        ({"deny": ["mcp__notes"], "allow": ["Monitor"]}, "deny"),
        ({"deny": ["Monitor(make:*)"], "allow": ["mcp__notes"]}, "allow"),
        ({"allow": ["Monitor"]}, "allow"),
        ({"allow": ["mcp__notes__*"]}, "allow"),
        ({"allow": ["Monitor(notes)", "Bash", "Read", "mcp__other"]}, "ask"),
        ({"ask": ["mcp__notes"], "allow": ["mcp__notes"]}, "ask"),
    ],
)
def test_rules_about_the_server_bind_it(harness: Harness, log: Path, rules: Json, behavior: str) -> None:
    driver = harness.open_session(rules=rules, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log))
    found = harness.daemon.call("rule/explain", session_id=driver.id, tool="Monitor", input=make_monitor_input())
    assert found["behavior"] == behavior


def test_a_server_that_became_another_one_while_the_ask_was_open_is_not_started(harness: Harness, log: Path) -> None:
    driver = harness.open_session(tools=NO_SERVER_TOOLS)
    folder = driver.folder / ".ostler"
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"mcp_servers": make_plain_server(log)}))
    harness.daemon.call("trust/grant", folder=str(driver.folder))
    harness.api.script(driver.name, monitor(), DONE)
    driver.start()
    ask = driver.wait_for_ask()
    settings.write_text(json.dumps({"mcp_servers": make_plain_server(log, "noisy")}))
    harness.daemon.call("trust/grant", folder=str(driver.folder))
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert "than when it was allowed. Ask again." in driver.fetch_result_texts()[0]
    assert not log.with_suffix(".pid").exists()


def test_what_a_project_brings_is_started_only_after_somebody_trusted_it(harness: Harness, log: Path) -> None:
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS)
    (driver.folder / ".mcp.json").write_text(json.dumps({"mcpServers": make_plain_server(log)}))
    harness.api.script(driver.name, monitor(), DONE, monitor(), DONE)
    driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], [each["text"].split(":")[0] for each in ask["what"]]) == ("trust", ["MCP server notes"])
    driver.answer(ask, "restrict")
    driver.wait_for_turn_end()
    assert "There is no MCP server 'notes'. The session has none." in driver.fetch_result_texts()[0]
    harness.daemon.call("trust/grant", folder=str(driver.folder))
    driver.run_turn("Again.")
    assert driver.fetch_result_texts()[1].startswith("Monitoring as m")
    # Another entry is another server: trust is asked for again, and what runs is as it was.
    (driver.folder / ".mcp.json").write_text(json.dumps({"mcpServers": make_plain_server(log, "noisy")}))
    harness.api.script(driver.name, otherwise=DONE)
    driver.start("And now?")
    assert driver.wait_for_ask()["kind"] == "trust"


def test_our_secrets_reach_neither_a_server_nor_its_headers(harness: Harness, log: Path) -> None:
    start_monitor_session(harness, log)
    seen = log.with_suffix(".environment").read_text()
    assert "PATH=" in seen
    assert "key-for-tests" not in seen
    for name in ("ANTHROPIC_", "OSTLER_HOME", "OSTLER_TESTING"):
        assert name not in seen
    entry = {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${ANTHROPIC_API_KEY}"}}
    driver = harness.open_session(monitor(), DONE, rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers={"notes": entry})
    driver.run_turn()
    assert "The variable ANTHROPIC_API_KEY is not set." in driver.fetch_result_texts()[0]


def test_a_task_that_cannot_be_stored_leaves_no_server(own_harness: Callable[..., Harness], log: Path) -> None:
    """The session is deleted while its server is asked."""
    harness = own_harness()
    log.write_text("")
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log, "mute"))
    harness.api.script(driver.name, monitor(), DONE)
    driver.start()
    wait_until(log.with_suffix(".pid").exists)
    harness.daemon.call("session/delete", session_id=driver.id)
    wait_until(lambda: is_gone(read_pid(log)))
    assert list((harness.daemon.home / "tasks").glob("call-*")) == []

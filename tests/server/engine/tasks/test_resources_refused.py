"""Resources of MCP servers that cannot, or may not, be watched: in words, and nothing of them is started."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.engine.tasks.resources import ALLOWED, Json, begun, given, monitor, pid_of, plain
from tests.support.daemon import wait_until
from tests.support.driver import Stage, is_gone
from tests.support.model_replies import DONE

GONE: Json = {"gone": {"command": "/no/such/program"}}


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log, "broken"))
    stage.api.script(talk.name, monitor(), DONE)
    talk.turn()
    words = talk.result_texts()[0]
    assert "The MCP server 'notes' cannot be reached." in words
    assert "It said: no database, no notes" in words
    assert talk.all("task.started") == []
    wait_until(lambda: is_gone(pid_of(log)))


def test_what_is_not_there_is_named(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED, mcp_servers={**plain(log), **GONE})
    stage.api.script(talk.name, monitor("notes://x"), monitor(server="nots"), monitor("x" * 9_000), monitor(" "), DONE)
    talk.turn()
    no_resource, no_server, long, empty = talk.result_texts()
    assert "There is no resource notes://x" in no_resource
    assert "There is no MCP server 'nots'. There are: gone, notes." in no_server
    assert "longer than 8000 characters" in long
    assert "The resource is empty." in empty
    none = stage.talk(monitor(), DONE)
    none.turn()
    assert "There is no MCP server 'notes'. The session has none." in none.result_texts()[0]
    missing = stage.talk(monitor(server="gone"), DONE, rules={"allow": ["Monitor"]}, mcp_servers=GONE)
    missing.turn()
    assert "/no/such/program" in missing.result_texts()[0]


def test_what_is_no_text_is_watched_too(stage: Stage, log: Path) -> None:
    talk = begun(stage, log, uri="notes://picture")
    assert talk.wait("task.started")["data"]["task"]["resource"]["uri"] == "notes://picture"


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
    stage: Stage, tmp_path: Path, servers: Json, path: str, reason: str
) -> None:
    error = stage.daemon.error("session/create", cwd=str(tmp_path), mcp_servers=servers)
    [wrong] = error["data"]["errors"]
    assert wrong["path"] == path
    assert reason in wrong["reason"]


# Permission and trust.


def test_it_asks_and_the_answer_can_be_remembered_for_the_server(stage: Stage, log: Path) -> None:
    talk = stage.talk(mcp_servers=plain(log))
    stage.api.script(talk.name, monitor(until="x"), monitor(until="y"), DONE)
    talk.start()
    ask = talk.ask()
    assert ask["message"] == "Watch notes://log of the MCP server notes?"
    assert [each["rule"] for each in ask["suggestions"]] == ["mcp__notes"] * len(ask["suggestions"])
    assert not log.with_suffix(".pid").exists()
    talk.answer(ask, "allow_always", rule="mcp__notes", scope="session")
    talk.ended()
    assert [each["call"]["decision"]["by"] for each in talk.all("tool.completed")] == ["person", "rule"]


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
def test_rules_about_the_server_bind_it(stage: Stage, log: Path, rules: Json, behavior: str) -> None:
    talk = stage.talk(rules=rules, mcp_servers=plain(log))
    found = stage.daemon.call("rule/explain", session_id=talk.id, tool="Monitor", input=given())
    assert found["behavior"] == behavior


def test_a_server_that_became_another_one_while_the_ask_was_open_is_not_started(stage: Stage, log: Path) -> None:
    talk = stage.talk()
    folder = talk.folder / ".ostler"
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"mcp_servers": plain(log)}))
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    stage.api.script(talk.name, monitor(), DONE)
    talk.start()
    ask = talk.ask()
    settings.write_text(json.dumps({"mcp_servers": plain(log, "noisy")}))
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    talk.answer(ask, "allow")
    talk.ended()
    assert "than when it was allowed. Ask again." in talk.result_texts()[0]
    assert not log.with_suffix(".pid").exists()


def test_what_a_project_brings_is_started_only_after_somebody_trusted_it(stage: Stage, log: Path) -> None:
    talk = stage.talk(rules=ALLOWED)
    (talk.folder / ".mcp.json").write_text(json.dumps({"mcpServers": plain(log)}))
    stage.api.script(talk.name, monitor(), DONE, monitor(), DONE)
    talk.start()
    ask = talk.ask()
    assert (ask["kind"], [each["text"].split(":")[0] for each in ask["what"]]) == ("trust", ["MCP server notes"])
    talk.answer(ask, "restrict")
    talk.ended()
    assert "There is no MCP server 'notes'. The session has none." in talk.result_texts()[0]
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    talk.turn("Again.")
    assert talk.result_texts()[1].startswith("Monitoring as m")
    # Another entry is another server: trust is asked for again, and what runs is as it was.
    (talk.folder / ".mcp.json").write_text(json.dumps({"mcpServers": plain(log, "noisy")}))
    stage.api.script(talk.name, otherwise=DONE)
    talk.start("And now?")
    assert talk.ask()["kind"] == "trust"


def test_our_secrets_reach_neither_a_server_nor_its_headers(stage: Stage, log: Path) -> None:
    begun(stage, log)
    seen = log.with_suffix(".environment").read_text()
    assert "PATH=" in seen
    assert "key-for-tests" not in seen
    for name in ("ANTHROPIC_", "OSTLER_HOME", "OSTLER_TESTING"):
        assert name not in seen
    entry = {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${ANTHROPIC_API_KEY}"}}
    talk = stage.talk(monitor(), DONE, rules=ALLOWED, mcp_servers={"notes": entry})
    talk.turn()
    assert "The variable ANTHROPIC_API_KEY is not set." in talk.result_texts()[0]


def test_a_task_that_cannot_be_stored_leaves_no_server(own_stage: Callable[..., Stage], log: Path) -> None:
    """The session is deleted while its server is asked."""
    stage = own_stage()
    log.write_text("")
    talk = stage.talk(rules=ALLOWED, mcp_servers=plain(log, "mute"))
    stage.api.script(talk.name, monitor(), DONE)
    talk.start()
    wait_until(log.with_suffix(".pid").exists)
    stage.daemon.call("session/delete", session_id=talk.id)
    wait_until(lambda: is_gone(pid_of(log)))
    assert list((stage.daemon.home / "tasks").glob("call-*")) == []

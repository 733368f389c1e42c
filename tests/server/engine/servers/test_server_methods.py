"""`mcp/list`, `mcp/reconnect`, `mcp/add`, `mcp/remove`: over the wire, and as `ostler mcp` has them."""

import json
from pathlib import Path
from typing import Any

from tests.server.engine.servers.test_server_tools import call, list_pids, make_server, open_session
from tests.support.daemon import wait_until
from tests.support.driver import Harness, is_gone
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE

Json = dict[str, Any]


def make_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "server"
    folder.mkdir()
    return folder


def list_servers(harness: Harness, session_id: str | None = None) -> dict[str, Json]:
    found = harness.daemon.call("mcp/list", session_id=session_id)["servers"]
    return {server["name"]: server for server in found}


def test_a_list_starts_nothing_and_says_what_the_last_use_has_left(harness: Harness, tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    driver = open_session(harness, folder)
    before = list_servers(harness, driver.id)["kit"]
    assert (before["status"], before["scope"], before["transport"]) == ("stopped", "session", "stdio")
    assert not (folder / "pids").exists()
    harness.api.script(driver.name, message(call("echo", text="a")), DONE)
    driver.run_turn()
    after = list_servers(harness, driver.id)["kit"]
    assert (after["status"], after["protocol_version"], "echo" in after["tools"]) == ("connected", "2025-06-18", True)


def test_a_server_is_started_anew_and_the_old_one_ends(harness: Harness, tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    driver = open_session(harness, folder)
    harness.api.script(driver.name, DONE, message(call("echo", text="a")), DONE)
    driver.run_turn()
    server = harness.daemon.call("mcp/reconnect", session_id=driver.id, name="kit")
    assert server["status"] == "connected"
    first, second = list_pids(folder)
    wait_until(lambda: is_gone(first))
    assert not is_gone(second)
    driver.run_turn("And now?")
    assert not driver.list_event_data("tool.completed")[-1]["call"]["is_error"]
    error = harness.daemon.expect_error("mcp/reconnect", session_id=driver.id, name="other")
    assert "the servers in effect are: kit" in error["message"]


def test_one_that_fails_says_why_and_what_it_printed(harness: Harness, tmp_path: Path) -> None:
    driver = open_session(harness, make_folder(tmp_path), "broken")
    server = harness.daemon.call("mcp/reconnect", session_id=driver.id, name="kit")
    assert (server["status"], "no database, no tools" in server["error"]) == ("failed", True)
    assert "no database, no tools" in server["log"]


def test_entries_are_written_where_their_scope_says_and_taken_out_again(harness: Harness, tmp_path: Path) -> None:
    entry = make_server(make_folder(tmp_path))["kit"]
    files = {"project": tmp_path / ".mcp.json", "local": tmp_path / ".ostler" / "settings.local.json"}
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}, "more": 1}')
    for scope, file in files.items():
        given: Json = {"name": "kit", "scope": scope, "cwd": str(tmp_path)}
        assert harness.daemon.call("mcp/add", entry=entry, **given)["file"] == str(file)
        found = json.loads(file.read_text())
        assert found["mcpServers" if scope == "project" else "mcp_servers"]["kit"] == entry
    driver = harness.open_session(folder=tmp_path)
    assert list_servers(harness, driver.id)["kit"]["status"] == "needs_trust"
    for scope in files:
        harness.daemon.call("mcp/remove", name="kit", scope=scope, cwd=str(tmp_path))
    assert json.loads(files["project"].read_text()) == {"mcpServers": {"other": {"command": "x"}}, "more": 1}
    wrong = (
        ("mcp/add", {"name": "a__b", "entry": entry, "cwd": str(tmp_path)}, "no name of a server"),
        ("mcp/add", {"name": "kit", "entry": {"args": []}, "cwd": str(tmp_path)}, "command is a text"),
        ("mcp/add", {"name": "kit", "entry": entry, "cwd": "here"}, "absolute path"),
        ("mcp/remove", {"name": "kit", "cwd": str(tmp_path)}, "has no such server"),
    )
    for method, params, words in wrong:
        assert words in harness.daemon.expect_error(method, **params)["message"]


def test_what_the_user_names_is_in_every_session(harness: Harness, tmp_path: Path) -> None:
    entry = make_server(make_folder(tmp_path))["kit"]
    harness.daemon.call("mcp/add", name="mine", scope="user", entry=entry)
    try:
        assert list_servers(harness)["mine"]["status"] == "stopped"
        assert list_servers(harness, harness.open_session().id)["mine"]["scope"] == "user"
    finally:
        harness.daemon.call("mcp/remove", name="mine", scope="user")
    assert "mine" not in list_servers(harness)

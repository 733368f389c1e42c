"""`ostler mcp`: entries, the list, and the way to one server, with a real one."""

import json
import sys
from pathlib import Path

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.repository import MCP_SERVERS


def test_a_server_is_added_started_listed_and_removed(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    assert "No servers." in rehearsal_cli.run("mcp", cwd=project).err
    command = (sys.executable, str(MCP_SERVERS / "tools.py"), str(project))
    added = rehearsal_cli.run("mcp", "add", "kit", "--env", "KEY=a=b", "--", *command, cwd=project)
    assert (added.code, "settings.local.json" in added.out, "trust" in added.err) == (0, True, True)
    stored = json.loads((project / ".ostler" / "settings.local.json").read_text())["mcp_servers"]["kit"]
    assert stored == {"command": command[0], "args": list(command[1:]), "env": {"KEY": "a=b"}}
    rehearsal_cli.run("trust", "grant", "--yes", cwd=project)
    session = rehearsal_daemon.call("session/create", cwd=str(project))
    listed = rehearsal_cli.run("mcp", "list", "--session", session["id"], cwd=project)
    assert listed.out.split()[:2] == ["kit", "stopped"]
    again = rehearsal_cli.run("mcp", "reconnect", "kit", "--session", session["id"], cwd=project)
    assert (again.code, again.out) == (0, "kit: connected, 17 tools\n")
    assert "printed nothing" in rehearsal_cli.run("mcp", "logs", "kit", "--session", session["id"], cwd=project).err
    assert rehearsal_cli.run("mcp", "remove", "kit", cwd=project).code == 0
    assert "no such server" in rehearsal_cli.run("mcp", "remove", "kit", cwd=project).err


def test_an_address_takes_headers_and_a_command_takes_variables(rehearsal_cli: Cli, project: Path) -> None:
    url = "https://example.org/mcp"
    given = ("mcp", "add", "far", "--scope", "project", "--header", "Authorization: Bearer ${TOKEN}", url)
    assert rehearsal_cli.run(*given, cwd=project).code == 0
    stored = json.loads((project / ".mcp.json").read_text())["mcpServers"]["far"]
    assert stored == {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}}
    for wrong in (("--env", "A=b", url), ("--header", "A: b", "command"), ("--env", "A", "command")):
        refused = rehearsal_cli.run("mcp", "add", "x", *wrong, cwd=project)
        assert refused.code != 0
        assert "--" in refused.err

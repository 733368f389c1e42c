"""`ostler memory`: notes are added and listed."""

from pathlib import Path

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


def test_notes_are_added_and_listed(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    named = ("--session", session)
    assert cli.run("memory", *named).err == "There are no notes. `ostler memory add TEXT` writes one.\n"
    path = project / ".ostler" / "memory" / "MEMORY.md"
    assert cli.run("memory", "add", "Buy hay", *named).out == f"Kept in {path}\n"
    assert cli.run("memory", "add", "Be brief", "--user", "--cwd", str(project)).code == 0
    rows = [line.split("\t") for line in cli.run("memory", *named).out.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [("user", "prompt"), ("project", "prompt")]
    assert cli.run("memory", "list", "--format", "json", *named).json["notes"][1]["path"] == str(path)
    refused = cli.run("memory", "add", "password=" + "abc12345", *named)
    assert refused.code == 2
    assert "looks like a password or a key" in refused.err

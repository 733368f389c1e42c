"""`ostler todos`: the list of the folder's newest session, or of one that is named, shown and edited."""

from pathlib import Path

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


def test_a_list_is_shown_and_edited(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    named = ("--session", session)
    assert (cli.run("todos", *named).out, cli.run("todos", *named).err) == ("", "The work list is empty.\n")
    assert cli.run("todos", "add", "Buy hay", *named).out == "[ ] 1. Buy hay\n"
    cli.run("todos", "add", "Feed\u202e", "--after", "1", "--description", "All of them", *named)
    changed = cli.run("todos", "edit", "1", "--status", "in_progress", "--owner", "ann", "--cwd", str(project))
    assert changed.out.splitlines() == ["[>] 1. Buy hay  ann", "[ ] 2. Feed\\u202e  waits for 1"]
    found = cli.run("todos", "list", "--format", "json", *named).json["todos"]
    assert [(todo["id"], todo["description"], todo["blocked_by"]) for todo in found] == [
        ("1", "", []),
        ("2", "All of them", ["1"]),
    ]
    assert cli.run("todos", "delete", "1", *named).out.splitlines() == ["[ ] 2. Feed\\u202e"]


def test_what_cannot_be_done_is_one_line(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    unknown = cli.run("todos", "delete", "9", "--session", session)
    assert (unknown.code, unknown.err) == (1, "ostler: There is no todo '9'.\n")
    nothing = cli.run("todos", "edit", "9", "--session", session)
    assert nothing.code == 2
    assert "say what changes: --subject, --description, --status or --owner" in nothing.err

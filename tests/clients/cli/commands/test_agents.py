"""`ostler agents`: the agents of a session, and the kinds that there are."""

from pathlib import Path

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


def test_kinds_and_agents_are_lines(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    none = cli.run("agents", "--session", session)
    assert (none.out, none.err) == ("", "No agent has worked for this session.\n")
    lines = cli.run("agents", "--kinds", "--cwd", str(project)).out.splitlines()
    assert lines[0].startswith("general-purpose\tbuilt-in\tall\t")
    assert lines[1].startswith("Explore\tbuilt-in\tRead, Grep, Glob, Bash\t")
    found = cli.run("agents", "--format", "json", "--session", session).json
    assert (found["agents"], found["errors"]) == ([], [])


def test_agents_can_be_tried_without_a_key(rehearsal_cli: Cli, project: Path) -> None:
    request = "ask two agents in the background to read README.md and find TODO"
    ran = rehearsal_cli.run("run", request, cwd=project)
    assert ran.code == 0
    assert "Read README.md: 2 lines, the first is “hello”" in ran.out
    assert "Find TODO: 1 matching line in 1 file" in ran.out
    listed = [line.split("\t") for line in rehearsal_cli.run("agents", cwd=project).out.splitlines()]
    assert [(status, kind, what) for _, status, kind, _, what in listed] == [
        ("completed", "general-purpose", "first: read README.md"),
        ("completed", "general-purpose", "second: find TODO"),
    ]

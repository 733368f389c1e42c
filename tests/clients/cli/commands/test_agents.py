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

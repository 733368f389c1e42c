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


def test_the_part_of_an_agent_is_one_line_that_can_be_opened(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ran = rehearsal_cli.run("run", "ask an agent to read README.md", "--format", "json", cwd=project)
    session_id = ran.json["session_id"]
    (agent,) = rehearsal_daemon.call("agent/list", session_id=session_id)["agents"]
    folded = rehearsal_cli.run("show", session_id)
    used = f"{agent['usage']['input_tokens']} tokens in, {agent['usage']['output_tokens']} out"
    words = f"read README.md (general-purpose): completed, {used}"
    assert f"\n  ▸ {words}, $0\n" in folded.out
    assert "Read {" not in folded.out
    assert folded.err == f"`ostler show --agents {session_id}` opens the parts of the agents (▸).\n"
    opened = rehearsal_cli.run("show", "--agents", session_id)
    assert f"\n  ▾ {words}, $0\n" in opened.out
    assert f'\n    Read {{"file_path": "{project}/README.md"}}\n' in opened.out
    assert opened.err == ""
    found = rehearsal_cli.run("show", "--agents", "--format", "json", session_id).json["agents"]
    assert [(one["agent_id"], len(one["messages"])) for one in found] == [(agent["agent_id"], 4)]
    exported = rehearsal_cli.run("export", session_id).out
    part = exported.partition(f"<details><summary>{words}</summary>\n")[2].partition("</details>")[0]
    assert "**Read**" in part
    assert exported.count("**Read**") == 1

"""`ostler skills`, and `/NAME` in a chat."""

from pathlib import Path

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

GROOM = """---
description: Grooms a horse
argument-hint: HORSE
---
Groom $1 with a soft brush.
"""


def test_skills_are_listed_and_a_person_takes_one_up_in_a_chat(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    for name, text in (("groom", GROOM), ("broken", "---\ncontext: nowhere\n---\nWords.\n")):
        place = project / ".ostler" / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(text)
    rehearsal_daemon.call("trust/grant", folder=str(project))
    assert rehearsal_cli.run("chat", cwd=project, typed="/groom mare\n").code == 0
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    stored = rehearsal_daemon.call("session/messages", session_id=session["id"])["messages"]
    said = [block["text"] for block in stored[0]["content"]]
    assert said[0] == "/groom mare"
    assert "Groom mare with a soft brush." in said[1]
    listed = rehearsal_cli.run("skills", "--session", session["id"])
    assert listed.out == "/groom HORSE\tproject\tboth\tGrooms a horse\n"
    assert "broken/SKILL.md:2: The skill is left out: 'nowhere' is no context" in listed.err
    found = rehearsal_cli.run("skills", "--cwd", str(project), "--format", "json").json
    assert [each["name"] for each in found["skills"]] == ["groom"]


def test_where_there_are_none_it_says_where_to_put_one(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    session = rehearsal_daemon.call("session/create", cwd=str(project))["id"]
    listed = rehearsal_cli.run("skills", "--session", session)
    assert (listed.code, listed.out) == (0, "")
    assert ".ostler/skills/NAME/SKILL.md" in listed.err

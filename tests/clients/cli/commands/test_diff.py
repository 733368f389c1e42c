"""`ostler diff`, and the SDK's, on a daemon in which something was changed."""

import subprocess
from pathlib import Path

import pytest

from ostler.clients import connect
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


@pytest.fixture
def changed(agent: Cli, project: Path) -> Path:
    """A project in which a session has changed a file."""
    request = "read README.md then replace `TODO one` with `done` in README.md"
    ran = agent.run("run", request, "--mode", "acceptEdits", cwd=project)
    assert ran.code == 0, ran.err
    assert (project / "README.md").read_text() == "hello\ndone\n"
    return project


def patch_of(project: Path) -> str:
    file = project.resolve() / "README.md"
    return f"--- {file}\n+++ {file}\n@@ -1,2 +1,2 @@\n hello\n-TODO one\n+done\n"


def test_in_a_pipe_the_patch_is_on_stdout_and_the_sum_on_stderr(agent: Cli, changed: Path) -> None:
    ran = agent.run("diff", cwd=changed)
    assert (ran.code, ran.out, ran.err) == (0, patch_of(changed), "1 file changed: +1 -1.\n")


def test_the_patch_is_one_that_can_be_applied_and_taken_back(agent: Cli, changed: Path) -> None:
    ran = agent.run("diff", cwd=changed)
    # As `patch -d / -p1` does, which is not on every machine.
    taken_back = ["git", "apply", "-R", "-p1", "--unsafe-paths", "--directory=/"]
    subprocess.run(taken_back, input=ran.out, cwd=changed, text=True, check=True)
    assert (changed / "README.md").read_text() == "hello\nTODO one\n"
    assert agent.run("diff", cwd=changed).out == ""


def test_a_session_can_be_named_or_found_by_its_folder(agent: Cli, rehearsing: Daemon, changed: Path) -> None:
    (session,) = rehearsing.call("session/list")["sessions"]
    assert agent.run("diff", session["id"]).out == patch_of(changed)
    assert agent.run("diff", "--cwd", str(changed)).out == patch_of(changed)
    both = agent.run("diff", session["id"], "--cwd", str(changed))
    assert (both.code, "not both" in both.err) == (2, True)


def test_as_json_it_is_what_the_wire_says(agent: Cli, rehearsing: Daemon, changed: Path) -> None:
    (session,) = rehearsing.call("session/list")["sessions"]
    shown = agent.run("diff", "--format", "json", cwd=changed).json
    assert shown == rehearsing.call("session/diff", session_id=session["id"])


def test_on_a_terminal_it_is_coloured_and_cannot_steer_it(agent: Cli, changed: Path) -> None:
    (changed / "README.md").write_text("hello\n\x1b[31mred\n")
    plain = agent.in_terminal("diff", "--cwd", str(changed))
    assert "\x1b" not in plain.out
    shown = agent.in_terminal("diff", "--cwd", str(changed), NO_COLOR="")
    assert "\x1b[31m-TODO one\x1b[0m" in shown.out
    assert "\x1b[32m+\\x1b[31mred\x1b[0m" in shown.out
    assert "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m" in shown.out


def test_what_has_no_patch_is_named_on_stderr(agent: Cli, changed: Path) -> None:
    (changed / "README.md").write_bytes(b"\0" * 100)
    ran = agent.run("diff", cwd=changed)
    assert ran.out == ""
    assert ran.err == f"changed {changed.resolve() / 'README.md'}: It is no text.\n1 file changed: +0 -0.\n"


def test_no_changes_and_no_session_are_said(agent: Cli, rehearsing: Daemon, project: Path, tmp_path: Path) -> None:
    session_id = rehearsing.call("session/create", cwd=str(project))["id"]
    quiet = agent.run("diff", session_id)
    assert (quiet.code, quiet.out) == (0, "")
    assert quiet.err == "No changed files. What commands did is not covered.\n"
    unknown = agent.run("diff", "s_none")
    assert (unknown.code, "no session 's_none'" in unknown.err) == (1, True)
    nowhere = agent.run("diff", cwd=tmp_path)
    assert (nowhere.code, "There is no session in" in nowhere.err) == (1, True)


@pytest.mark.anyio
async def test_the_sdk_gives_it_typed(rehearsing: Daemon, changed: Path) -> None:
    (session,) = rehearsing.call("session/list")["sessions"]
    async with connect(str(rehearsing.home)) as ostler:
        found = await ostler.diff(session["id"])
    (file,) = found.files
    assert (file.action, file.additions, file.deletions) == ("changed", 1, 1)
    assert file.patch == patch_of(changed)

"""`ostler diff`, and the SDK's, on a daemon in which something was changed."""

import subprocess
from pathlib import Path

import pytest

from ostler.clients import connect
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


@pytest.fixture
def changed_project(rehearsal_cli: Cli, project: Path) -> Path:
    """A project in which a session has changed a file."""
    request = "read README.md then replace `TODO one` with `done` in README.md"
    ran = rehearsal_cli.run("run", request, "--mode", "acceptEdits", cwd=project)
    assert ran.code == 0, ran.err
    assert (project / "README.md").read_text() == "hello\ndone\n"
    return project


def build_patch(project: Path) -> str:
    file = project.resolve() / "README.md"
    return f"--- {file}\n+++ {file}\n@@ -1,2 +1,2 @@\n hello\n-TODO one\n+done\n"


def test_in_a_pipe_the_patch_is_on_stdout_and_the_sum_on_stderr(rehearsal_cli: Cli, changed_project: Path) -> None:
    ran = rehearsal_cli.run("diff", cwd=changed_project)
    assert (ran.code, ran.out, ran.err) == (0, build_patch(changed_project), "1 file changed: +1 -1.\n")


def test_the_patch_is_one_that_can_be_applied_and_taken_back(rehearsal_cli: Cli, changed_project: Path) -> None:
    ran = rehearsal_cli.run("diff", cwd=changed_project)
    # As `patch -d / -p1` does, which is not on every machine.
    taken_back = ["git", "apply", "-R", "-p1", "--unsafe-paths", "--directory=/"]
    subprocess.run(taken_back, input=ran.out, cwd=changed_project, text=True, check=True)
    assert (changed_project / "README.md").read_text() == "hello\nTODO one\n"
    assert rehearsal_cli.run("diff", cwd=changed_project).out == ""


def test_a_session_can_be_named_or_found_by_its_folder(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, changed_project: Path
) -> None:
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    assert rehearsal_cli.run("diff", session["id"]).out == build_patch(changed_project)
    assert rehearsal_cli.run("diff", "--cwd", str(changed_project)).out == build_patch(changed_project)
    both = rehearsal_cli.run("diff", session["id"], "--cwd", str(changed_project))
    assert (both.code, "not both" in both.err) == (2, True)


def test_as_json_it_is_what_the_wire_says(rehearsal_cli: Cli, rehearsal_daemon: Daemon, changed_project: Path) -> None:
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    shown = rehearsal_cli.run("diff", "--format", "json", cwd=changed_project).json
    assert shown == rehearsal_daemon.call("session/diff", session_id=session["id"])


def test_on_a_terminal_it_is_coloured_and_cannot_steer_it(rehearsal_cli: Cli, changed_project: Path) -> None:
    (changed_project / "README.md").write_text("hello\n\x1b[31mred\n")
    plain = rehearsal_cli.run_in_terminal("diff", "--cwd", str(changed_project))
    assert "\x1b" not in plain.out
    shown = rehearsal_cli.run_in_terminal("diff", "--cwd", str(changed_project), NO_COLOR="")
    assert "\x1b[31m-TODO one\x1b[0m" in shown.out
    assert "\x1b[32m+\\x1b[31mred\x1b[0m" in shown.out
    assert "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m" in shown.out


def test_what_has_no_patch_is_named_on_stderr(rehearsal_cli: Cli, changed_project: Path) -> None:
    (changed_project / "README.md").write_bytes(b"\0" * 100)
    ran = rehearsal_cli.run("diff", cwd=changed_project)
    assert ran.out == ""
    assert ran.err == f"changed {changed_project.resolve() / 'README.md'}: It is no text.\n1 file changed: +0 -0.\n"


def test_no_changes_and_no_session_are_said(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, tmp_path: Path
) -> None:
    session_id = rehearsal_daemon.call("session/create", cwd=str(project))["id"]
    quiet = rehearsal_cli.run("diff", session_id)
    assert (quiet.code, quiet.out) == (0, "")
    assert quiet.err == "No changed files. What commands did is not covered.\n"
    unknown = rehearsal_cli.run("diff", "s_none")
    assert (unknown.code, "no session 's_none'" in unknown.err) == (1, True)
    nowhere = rehearsal_cli.run("diff", cwd=tmp_path)
    assert (nowhere.code, "There is no session in" in nowhere.err) == (1, True)


@pytest.mark.anyio
async def test_the_sdk_gives_it_typed(rehearsal_daemon: Daemon, changed_project: Path) -> None:
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    async with connect(str(rehearsal_daemon.home)) as ostler:
        found = await ostler.diff(session["id"])
    (file,) = found.files
    assert (file.action, file.additions, file.deletions) == ("changed", 1, 1)
    assert file.patch == build_patch(changed_project)

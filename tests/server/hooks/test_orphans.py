"""Hooks in a daemon that inherits orphans."""

import subprocess
import sys

from tests.server.hooks.hooking import Project
from tests.support.repository import ROOT

INHERITING = """
import anyio, ctypes, sys
from pathlib import Path
from ostler.tools.process import orphans
from tests.server.hooks.hooking import Project, command
from tests.support.tool_calls import is_alive, poll_until

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
project = Project(Path(sys.argv[1]))
# It keeps nothing of the hook: no variable, no group, no session, no output, no parent.
BARE = "env -i setsid bash -c 'echo $$ >stray.new; mv stray.new stray; exec sleep 1000' >/dev/null 2>&1 </dev/null &"
STRAY = BARE + "until [ -e stray ]; do sleep 0.01; done;"

async def main():
    BODY
anyio.run(main)
"""


def run_inheriting(project: Project, body: str) -> None:
    code = INHERITING.replace("BODY", "\n    ".join(body.strip("\n").split("\n")))
    place = ROOT
    subprocess.run([sys.executable, "-c", code, str(project.folder)], check=True, timeout=60, cwd=place)


def test_what_dropped_everything_of_its_hook_ends_with_it(project: Project) -> None:
    body = """
outcome = await project.run("PreToolUse", command(STRAY + "exit 2"))
assert outcome.decision == "deny", outcome
assert not is_alive(*project.read_pids("stray"))
"""
    run_inheriting(project, body)


def test_an_orphan_of_a_hook_that_runs_outlives_another_hook(project: Project) -> None:
    body = """
waits = STRAY + "until [ -e go ]; do sleep 0.01; done; kill -0 $(cat stray) && touch lived"
async with anyio.create_task_group() as group:
    group.start_soon(lambda: project.run("PreToolUse", command(waits)))
    await poll_until(lambda: project.read_pids("stray"))
    outcome = await project.run("PreToolUse", command("exit 2"))
    assert outcome.decision == "deny"
    assert is_alive(*project.read_pids("stray"))
    (project.folder / "go").touch()
assert (project.folder / "lived").exists()
assert not is_alive(*project.read_pids("stray"))
"""
    run_inheriting(project, body)


def test_a_hooks_status_is_not_reaped_by_somebody_else(project: Project) -> None:
    body = """
async def reap():
    while True:
        orphans.reap_orphans()
        await anyio.sleep(0)
async with anyio.create_task_group() as group:
    group.start_soon(reap)
    for _ in range(20):
        outcome = await project.run("PreToolUse", command("exit 2"))
        assert outcome.decision == "deny", outcome
    group.cancel_scope.cancel()
"""
    run_inheriting(project, body)

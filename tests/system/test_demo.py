"""`make demo`, as somebody sees it who has Python, git and make, and nothing else."""

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

PROCESSOR_SECONDS = 15
"""It takes about 6, and waits for nothing else. Time on the clock would be that of the tests beside it."""
PLAIN_PROGRAMS = ("bash", "cat", "env", "git", "make", "sh")


@pytest.mark.daemon
def test_the_demo_runs_without_any_tool_of_the_system_and_shows_each_event_once(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in PLAIN_PROGRAMS:
        (programs / program).symlink_to(shutil.which(program) or "")
    (programs / "python3").symlink_to(os.path.realpath(sys.executable))
    environment = {"PATH": str(programs), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TMPDIR": str(tmp_path)}
    before = measure_children()
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert measure_children() - before < PROCESSOR_SECONDS
    shown = [line[9:] for line in done.stdout.splitlines() if re.match(r" *\d+\.\d s  ", line)]
    assert [re.sub(r"pid .*", "…", line) for line in shown[:16]] == [
        "daemon      started: …",
        "you         find hay in *.py then replace hay with oats in stable.py then run python3 -m unittest -q",
        "agent       Grep hay",
        "agent       Read stable.py",
        "agent       Edit stable.py",
        "agent       asks, in both terminals: may I run this command: python3 -m unittest -q",
        "terminal B  allow (the first answer wins, from any terminal)",
        "agent       Bash python3 -m unittest -q",
        "agent       done",
        "you         run python3 stable.py",
        "agent       asks, in both terminals: may I run this command: python3 stable.py",
        "daemon      killed with SIGKILL, in the middle of the turn",
        "daemon      started again: …",
        "terminal B  the question is still there: allow",
        "agent       Bash python3 stable.py",
        "agent       done",
    ]
    check_agents(shown[16:], done.stdout)
    assert done.stdout.count("Commands run without the sandbox here") == 1
    assert re.search(r"both terminals saw the same \d+ events: in order, none lost, none twice", done.stdout)
    assert len(done.stdout.splitlines()) < 120, "it fits on a screen or three"
    assert not list(tmp_path.glob("ostler-demo-*"))


def check_agents(shown: list[str], whole: str) -> None:
    """The agents work beside each other: the order of what each of them does is told, and not whose turn it is."""
    parts = {who: [line[12:] for line in shown if line[:12].strip() == who] for who in ("agent 1", "agent 2", "daemon")}
    asks = "asks, in both terminals: may I run this command: python3 stable.py"
    assert parts["agent 1"] == ["Read stable.py", "Edit stable.py", asks, "Bash python3 stable.py", "done"]
    assert parts["agent 2"] == ["Read stable.py", "Edit stable.py", "done"]
    ours = [line for line in shown if line.startswith(("you", "terminal B", "daemon")) or asks in line]
    assert [re.sub(r"pid .*|wt-\w+", "…", line) for line in ours] == [
        "you         plan make a list: ask a background agent in a worktree to replace hay with barley in",
        "terminal B  approve",
        f"agent 1     {asks}",
        "daemon      killed with SIGKILL, while all of them are at work",
        "daemon      started again: …",
        "terminal B  the question of agent 1 is still there: allow",
        "daemon      your folder inn",
        "daemon      worktree …",
        "daemon      worktree …",
    ]
    for moved in ("[>] 1 [ ] 2 [ ] 3", "[x] 1 [>] 2 [ ] 3", "[x] 1 [x] 2 [x] 3"):
        assert moved in whole
    below = [line.strip() for line in whole.partition("your folder inn")[2].splitlines()]
    of_main, of_worktrees = below[1:3], sorted([*below[4:6], *below[7:9]])
    assert of_main == ['EVENING_FEED = "oats"', 'print(feed("grey mare"))']
    assert of_worktrees == [
        'EVENING_FEED = "barley"',
        'EVENING_FEED = "hay"',
        'print(feed("grey mare"))',
        'print(feed("grey pony"))',
    ]


def measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

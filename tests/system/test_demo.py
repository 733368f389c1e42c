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
    assert [re.sub(r"pid .*", "…", line) for line in shown] == [
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
    assert done.stdout.count("Commands run without the sandbox here") == 1
    assert re.search(r"both terminals saw the same \d+ events: in order, none lost, none twice", done.stdout)
    assert len(done.stdout.splitlines()) < 50, "it fits on a screen or two"
    assert not list(tmp_path.glob("ostler-demo-*"))


def measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

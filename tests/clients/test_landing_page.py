"""The landing page, docs/index.md: what it says to type works, and what it says of files is so."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.programs import needs
from tests.support.repository import DOCS

PAGE = (DOCS / "index.md").read_text()


def find_block(kind: str) -> str:
    found: list[str] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, kind
    return found[0]


def test_the_commands_of_the_first_hour_work(rehearsal_cli: Cli, project: Path) -> None:
    lines = find_block("console example").splitlines()
    printed = [rehearsal_cli.run(*shlex.split(line.removeprefix("$ "))[1:], cwd=project) for line in lines]
    assert [(line, done.code, done.err) for line, done in zip(lines, printed, strict=True) if done.code != 0] == []
    run, sessions, _, explained, added, listed = printed
    assert "Read README.md: 2 lines" in run.out
    assert "read README.md" in sessions.out
    assert "The rule Bash(git push --force) would allow it." in explained.out
    assert "Bash(git fetch)" in added.out + added.err
    assert "Bash(git fetch)" in listed.out
    assert "Bash(git fetch)" in (project / ".ostler" / "settings.local.json").read_text()


@pytest.mark.parametrize(
    ("prompt", "code"), [("run python3 -m unittest", 0), ("replace hello with bye in README.md", 0), ("run make", 5)]
)
def test_the_line_of_the_ci_recipe_says_how_it_ended(rehearsal_cli: Cli, project: Path, prompt: str, code: int) -> None:
    (project / "test_it.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_it(self): ...\n")
    line = find_block("bash ci").splitlines()[-1]
    command, _, file = line.partition(" > ")
    assert (command.split()[:2], file) == (["ostler", "run"], "result.json")
    done = rehearsal_cli.run(*shlex.split(command.replace('"$PROMPT"', shlex.quote(prompt)))[1:], cwd=project)
    assert done.code == code, done.err
    assert done.json["turn"]["reason"] == "completed"


def test_every_file_of_the_daemon_is_in_the_table(cli: Cli) -> None:
    assert cli.run("start", "--port", "0").code == 0
    made = {path.name for path in cli.home.iterdir()} | {f"logs/{path.name}" for path in (cli.home / "logs").iterdir()}
    assert {"ostler.db", "token", "daemon.json", "logs/ostler.log"} <= made
    named = set(re.findall(r"`([\w./-]+)`", PAGE))
    assert made - named - {"logs", "ostler.sock"} == set()
    told = json.loads((cli.home / "daemon.json").read_text())
    assert list(told) == re.findall(r"`(\w+)`", PAGE.partition("find it: ")[2].partition(".")[0])


@needs("systemd-analyze")
@pytest.mark.without_daemon
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("ostler")
    unit = find_block("ini").replace("%h/.local/bin/ostler", str(command))
    assert str(command) in unit
    for text, complaint in ((unit, ""), (unit.replace("KillMode=process", "KillMode=children"), "kill mode")):
        file = tmp_path / "ostler.service"
        file.write_text(text)
        said = subprocess.run(
            ["systemd-analyze", "verify", "--user", file],
            env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        # Of a wrong word it only says that it is ignored, with exit code 0.
        assert said.stderr == "" if not complaint else complaint in said.stderr, text


def test_a_backup_that_was_put_back_has_the_sessions(cli: Cli, tmp_path: Path) -> None:
    """What the page copies is all that a daemon needs."""
    assert find_block("console backup").splitlines()[0] == "$ ostler stop"
    (tmp_path / "proj").mkdir()
    with Daemon(cli.home) as daemon:
        session = daemon.call("session/create", cwd=str(tmp_path / "proj"), title="kept")
    cli.home.rename(tmp_path / "restored")
    with Daemon(tmp_path / "restored") as restored:
        assert restored.call("session/get", session_id=session["id"])["title"] == "kept"

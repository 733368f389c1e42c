"""What shells are offered where an id is wanted."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.cli.test_light_imports import HEAVY
from tests.clients.conftest import OSTLER, Cli
from tests.support.daemon import Daemon


def complete_words(cli: Cli, *words: str, **environment: str) -> list[str]:
    """As bash gets it, one a line, and not a word on stderr."""
    done = run_completion(cli, "complete_bash", " ".join(words), COMP_CWORD=str(len(words) - 1), **environment)
    assert done.stderr == ""
    return done.stdout.split()


def run_completion(cli: Cli, how: str, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    asked = {"_OSTLER_COMPLETE": how, "COMP_WORDS": line, "_TYPER_COMPLETE_ARGS": line}
    variables = {**cli.environment, **asked, **environment}
    return subprocess.run([OSTLER], env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["attach"],
        ["diff"],
        ["archive", "--undo"],
        ["delete", "s_other"],
        ["run", "x", "--session"],
        ["rules", "add", "allow", "Bash", "--session"],
        ["asks", "--session"],
        ["tasks", "--session"],
    ],
)
def test_a_session_is_offered_where_one_is_wanted(daemon_cli: Cli, daemon: Daemon, command: list[str]) -> None:
    session_id = str(daemon.call("session/create", cwd=str(daemon.home.parent))["id"])
    daemon.call("session/create", cwd=str(daemon.home.parent))
    assert complete_words(daemon_cli, "ostler", *command, session_id[:-2]) == [session_id]


def test_open_asks_are_offered_to_answer(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    session_id = rehearsal_daemon.call("session/create", cwd=str(project))["id"]
    with rehearsal_daemon.follow(f"?session={session_id}&after=0") as stream:
        rehearsal_daemon.call("turn/start", session_id=session_id, input="run make")
        ask = stream.wait_for("ask.opened")["data"]["ask"]
    assert complete_words(rehearsal_cli, "ostler", "answer", "k_") == [ask["id"]]
    shown = run_completion(
        rehearsal_cli, "complete_fish", "ostler answer k_", _TYPER_COMPLETE_FISH_ACTION="get-args"
    ).stdout
    assert shown == f"{ask['id']}\tpermission make\n"


def test_without_a_daemon_nothing_is_offered_and_none_is_started(cli: Cli, tmp_path: Path) -> None:
    assert complete_words(cli, "ostler", "show", "s_") == []
    assert complete_words(cli, "ostler", "--home", str(tmp_path / "other"), "tasks", "stop", "b") == []
    assert not cli.home.exists()


def test_the_home_of_the_command_line_is_asked(daemon_cli: Cli, daemon: Daemon, tmp_path: Path) -> None:
    session_id = str(daemon.call("session/create", cwd=str(daemon.home.parent))["id"])
    elsewhere = Cli(tmp_path / "elsewhere")
    assert complete_words(elsewhere, "ostler", "--home", str(daemon.home), "show", "s_") == [session_id]


def test_nobody_waits_for_a_daemon_that_hangs(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.signal(signal.SIGSTOP)
    try:
        assert complete_words(daemon_cli, "ostler", "show", "s_") == []
    finally:
        daemon.signal(signal.SIGCONT)


@pytest.mark.parametrize("how", ["complete_bash", "complete_zsh", "complete_fish"])
def test_a_title_cannot_run_anything_in_the_shell(daemon_cli: Cli, daemon: Daemon, how: str) -> None:
    title = "\\$(touch a) `touch b` ';touch c;' \"&& touch d\" ${e} (f) g:h"
    session_id = str(daemon.call("session/create", cwd=str(daemon.home.parent), title=title)["id"])
    shown = run_completion(
        daemon_cli, how, "ostler show s_", COMP_CWORD="2", _TYPER_COMPLETE_FISH_ACTION="get-args"
    ).stdout
    about = shown.partition(session_id)[2]
    assert session_id in shown
    assert re.search(r"[\\$`;&{}]", about) is None


def test_offering_ids_imports_nothing_heavy(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.call("session/create", cwd=str(daemon.home.parent))
    variables = {"_OSTLER_COMPLETE": "complete_bash", "COMP_WORDS": "ostler show s_", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", OSTLER],
        env={**daemon_cli.environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("s_")
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert imported & HEAVY == set()

"""`ostler run` begins to start the daemon before it reads its own words, and takes it back where they are wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from ostler.clients.cli import early_start
from ostler.clients.cli.app import app
from ostler.clients.cli.early_start import needs_daemon
from tests.clients.conftest import Cli

pytestmark = pytest.mark.without_daemon


@pytest.mark.parametrize("name", ["run", "chat"])
def test_options_that_are_known_so_early_are_those_of_the_parser(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = [one for one in command.params if one.param_type_name == "option"]
    spelled = {one.opts[0]: one.is_flag for one in options}
    assert {option for option, flag in spelled.items() if not flag} == early_start._VALUES[name]
    assert {option for option, flag in spelled.items() if flag} == early_start._FLAGS[name]
    assert len(command.params) - len(options) == early_start._WORDS[name]


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["run", "hello"], True),
        (["--home", "/x", "run", "--model", "m", "--format=json", "--trust", "-"], True),
        (["chat"], True),
        (["run"], False),
        (["run", "two", "words"], False),
        (["run", "--nonsense", "hello"], False),
        (["run", "hello", "--model"], False),
        (["run", "--cwd", "/nowhere/at/all", "hello"], False),
        (["run", "--help"], False),
        (["--no-start", "run", "hello"], False),
        (["sessions"], False),
        ([], False),
    ],
)
def test_daemon_is_started_early_only_where_it_is_plainly_needed(arguments: list[str], needed: bool) -> None:
    assert needs_daemon(arguments) == needed


def test_daemon_is_started_before_the_parser_is_imported(cli: Cli) -> None:
    code = (
        "import subprocess, sys\n"
        "def show(self, words, **_): sys.exit(print(*words) or print(*sys.modules))\n"
        "subprocess.Popen.__init__ = show\n"
        "from ostler.clients.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "hello"], env=cli.environment, capture_output=True, text=True, check=True
    )
    command, modules = done.stdout.splitlines()
    assert "ostler.server" in command
    assert not {"typer", "click", "http.client", "ostler.clients.cli.app"} & set(modules.split())


def test_mistake_leaves_no_daemon_behind(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "home", cold=True)
    assert cli.run("run", "--mode", "nonsense", "hello").code == 2
    assert (tmp_path / "home" / "start.lock").exists()  # it had begun
    assert cli.run("status", "--format", "json").json["running"] is False
    assert cli.run("start").code == 0
    assert cli.run("stop").code == 0

"""The real `ostler` command, in its own process and its own home."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.forked import can_fork, fork_command, run_command
from tests.support.messages_api.fixtures import api

__all__ = ["api"]

OSTLER = Path(sys.executable).with_name("ostler")
RUN_SECONDS = 60.0


def build_environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OSTLER_", "ANTHROPIC_", "_"))}
    return {**kept, "OSTLER_HOME": str(home), "NO_COLOR": "1"}


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Cli:
    """`ostler` as a person would type it."""

    home: Path
    cold: bool = False
    """Run the script itself, and no fork of a process that has imported what it imports."""

    @property
    def environment(self) -> dict[str, str]:
        return build_environment(self.home)

    def run(self, *arguments: str, cwd: Path | None = None, typed: str = "", **environment: str) -> CommandResult:
        environ = {**self.environment, **environment}
        if not self.cold and can_fork(environment):
            done = run_command(list(arguments), environ, typed, cwd, RUN_SECONDS)
        else:
            done = subprocess.run(
                [OSTLER, *arguments],
                input=typed,
                cwd=cwd,
                capture_output=True,
                text=True,
                env=environ,
                timeout=RUN_SECONDS,
                check=False,
            )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def spawn(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [OSTLER, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=self.environment,
        )

    def run_in_terminal(self, *arguments: str, typed: str = "", **environment: str) -> CommandResult:
        """With a terminal on all three streams; what is printed comes back as `out`. It is never cold."""
        assert can_fork(environment)
        ours, theirs = pty.openpty()
        environ = {**self.environment, "TERM": "xterm", "COLUMNS": "120", **environment}
        process = fork_command(list(arguments), environ, (theirs, theirs, theirs), terminal=True)
        os.write(ours, typed.encode())
        printed = b"".join(_read_until_closed(ours))
        os.close(ours)
        return CommandResult(process.wait(60), printed.decode().replace("\r\n", "\n"), "")


def _read_until_closed(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side has closed
            return
        if not piece:
            return
        yield piece


@pytest.fixture
def cli(home: Path) -> Iterator[Cli]:
    """The command on a home without a daemon; one that it starts is ended with the test."""
    yield Cli(home)
    daemon_file = home / "daemon.json"
    if daemon_file.exists() and Cli(home).run("stop").code != 0:
        os.kill(json.loads(daemon_file.read_text())["pid"], signal.SIGKILL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a little to do in it."""
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "README.md").write_text("hello\nTODO one\n")
    return folder


@pytest.fixture
def rehearsal_daemon(home: Path) -> Iterator[Daemon]:
    """A daemon whose model is `rehearsal` and takes no time to speak."""
    with Daemon(home, environment={"OSTLER_REHEARSAL_PACE_MS": "0"}) as running:
        yield running


@pytest.fixture
def rehearsal_cli(rehearsal_daemon: Daemon) -> Cli:
    """The command on the home of a daemon whose model is `rehearsal`."""
    return Cli(rehearsal_daemon.home)


@pytest.fixture
def daemon_cli(daemon: Daemon) -> Cli:
    """The command on a home whose daemon runs already."""
    return Cli(daemon.home)

"""Short commands and shell completion import no heavy library that they do not use."""

import subprocess
import sys

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

HEAVY = {"pydantic", "pydantic_core", "httpx2", "rich", "fastapi", "starlette", "uvicorn", "anthropic", "anyio"}
LIST_MODULES = "import sys; from ostler.clients.cli.app import _run; _run(); print(*sys.modules, file=sys.stderr)"


def list_loaded_modules(cli: Cli, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *arguments],
        env=cli.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["sessions", "--help"], ["logs"], ["--version"]])
def test_short_commands_import_nothing_heavy(cli: Cli, arguments: list[str]) -> None:
    assert list_loaded_modules(cli, *arguments) & HEAVY == set()


@pytest.mark.parametrize("command", ["status", "start", "stop"])
def test_a_running_daemon_is_asked_without_anything_heavy(daemon_cli: Cli, daemon: Daemon, command: str) -> None:
    assert list_loaded_modules(daemon_cli, command) & HEAVY == set()


def test_importing_the_sdk_is_free_until_it_is_used(cli: Cli) -> None:
    code = "import sys, ostler.clients; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.split(".")[0] for name in done.stdout.split()} & HEAVY


@pytest.mark.without_daemon
def test_everything_that_the_sdk_promises_is_there() -> None:
    import ostler.clients

    assert all(getattr(ostler.clients, name) for name in ostler.clients.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ostler.clients.nonsense

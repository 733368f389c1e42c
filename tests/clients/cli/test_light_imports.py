"""Short commands and shell completion import no heavy library that they do not use."""

import subprocess
import sys

import pytest

from ostler.clients.cli.direct_serve import build_options
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


@pytest.mark.parametrize("arguments", [["serve"], ["--home", "/x", "serve", "--port", "0", "--allow-host", "a"]])
def test_serve_becomes_the_daemon_before_the_parser_is_imported(arguments: list[str]) -> None:
    code = (
        "import sys, types; daemon = types.ModuleType('ostler.server.__main__')\n"
        "daemon.main = lambda: print(*sys.argv[1:]) or print(*sys.modules)\n"
        "sys.modules[daemon.__name__] = daemon\n"
        "from ostler.clients.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    options, modules = done.stdout.splitlines()
    assert options.split() == [word for word in arguments if word != "serve"]
    assert not set(modules.split()) & {*HEAVY, "typer", "click", "argparse", "json", "subprocess", "dataclasses"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--help"],
        ["serve", "--port", "seven"],
        ["serve", "--port", "-1"],
        ["serve", "--port"],
        ["serve", "--home="],
        ["serve", "--nonsense", "x"],
        ["serve", "more"],
        ["--no-start", "serve"],
        ["--model", "x", "serve"],
        ["run", "serve"],
        ["status"],
        [],
    ],
)
def test_what_is_not_plainly_a_serve_is_left_to_the_parser(arguments: list[str]) -> None:
    assert build_options(arguments) is None

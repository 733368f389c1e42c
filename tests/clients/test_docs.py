"""The documentation of the clients, run as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import RUN_SECONDS, Cli
from tests.support.daemon import Daemon
from tests.support.forked import fork_command
from tests.support.repository import DOCS

DOCUMENTED_ID = "s_0mwir4vco49cz99ze66x"
DOCUMENTED_ASK = "k_0mwir4w1c3k9qz7d2x5f"


def find_code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def run_program(cli: Cli, folder: Path, code: str) -> tuple[str, str]:
    """What a program prints that is run as it stands."""
    program = folder / "program.py"
    program.write_text(code)
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(
        command, cwd=folder, env=cli.environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr


def test_the_program_of_the_first_page_runs_as_it_stands(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello\nTODO one\n")
    (code,) = find_code_blocks("../README.md", "python")
    answer = "Read README.md: 2 lines, the first is “hello”"
    assert run_program(cli, tmp_path, code) == (f"call: Read {tmp_path}/README.md\n{answer}\n", "")


def test_the_programs_of_the_sdk_page_print_what_it_says(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello\nTODO one\n")
    programs, outputs = find_code_blocks("sdk.md", "python"), find_code_blocks("sdk.md", "text")
    assert len(programs) == 2
    for code, printed in zip(programs, outputs, strict=False):
        assert run_program(cli, tmp_path, code) == (printed, "")


@pytest.mark.without_daemon
def test_the_error_tree_in_the_documentation_is_the_real_one() -> None:
    from ostler.clients.sdk import errors

    assert find_code_blocks("sdk.md", "text")[-1].strip() in (errors.__doc__ or "")


def test_every_command_is_documented(cli: Cli) -> None:
    listed = cli.run("--help").out.split("Commands:\n")[1]
    commands = {line.split()[0] for line in listed.splitlines() if line.strip()}
    assert commands == set(re.findall(r"^### ostler (\S+)$", (DOCS / "cli.md").read_text(), re.MULTILINE))


def test_every_option_is_documented(cli: Cli) -> None:
    page = (DOCS / "cli.md").read_text()
    commands = re.findall(r"^### ostler (\S+)$", page, re.MULTILINE)
    groups = {
        "auth": ("login", "status", "logout"),
        "config": ("get", "set", "unset"),
        "rules": ("list", "add", "remove", "explain"),
        "tasks": ("list", "show", "stop", "wait"),
        "todos": ("list", "add", "edit", "delete"),
        "trust": ("show", "list", "grant", "revoke"),
    }
    verbs = ([group, verb] for group, known in groups.items() for verb in known)
    ways = [[], *([command] for command in commands), *verbs]
    options = {option for way in ways for option in re.findall(r"(--[a-z-]+)", cli.run(*way, "--help").out)}
    taken_for_granted = {"--show-completion", "--output", "--lines", "--follow"}
    assert [option for option in sorted(options - taken_for_granted) if option not in page] == []


def test_the_examples_of_the_command_page_are_real(cli: Cli, tmp_path: Path) -> None:
    """Run from the top of the page to its end, in one home."""
    folder = tmp_path / "proj"
    real = {"/home/a/proj": str(folder)}
    for example in find_examples():
        command = example.command
        for documented, found in real.items():
            command = command.replace(documented, found)
        shown = normalize(capture_command(cli, shlex.split(command)[1:]), cli.home)
        assert shown == normalize(example.output, Path("/home/a/.ostler")), example.command
        if DOCUMENTED_ID not in real:
            real |= prepare_sessions(cli.home, folder)


def capture_command(cli: Cli, words: list[str]) -> str:
    """What a person sees: both streams as they come."""
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    with open(reading) as out:
        process = fork_command(words, cli.environment, (nothing, writing, writing))
        shown = out.read()
    process.wait(RUN_SECONDS)
    return shown


class Example:
    def __init__(self, command: str, output: str) -> None:
        self.command = command
        self.output = output


def find_examples() -> list[Example]:
    found: list[Example] = []
    for block in find_code_blocks("cli.md", "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Example(command, output))
    return found


def prepare_sessions(home: Path, folder: Path) -> dict[str, str]:
    """A session in which nothing has happened, and one that asks something: their real ids by the documented ones."""
    folder.mkdir()
    (folder / "README.md").write_text("hello\nTODO one\n")
    url = re.findall(r'"url": "(.*?)"', (home / "daemon.json").read_text())[0]
    daemon = Daemon(home, url=url)
    quiet = daemon.call("session/create", cwd=str(folder), title="fix login")
    asking = daemon.call("session/create", cwd=str(folder), title="build")
    with daemon.follow(f"?session={asking['id']}&after=0") as stream:
        daemon.call("turn/start", session_id=asking["id"], input="run make")
        ask = stream.wait_for("ask.opened")["data"]["ask"]
    return {DOCUMENTED_ID: quiet["id"], DOCUMENTED_ASK: ask["id"]}


def normalize(text: str, home: Path) -> str:
    """The text without what is different each time."""
    folder = "/home/a" if home == Path("/home/a/.ostler") else str(home.parent)
    text = text.replace(str(home), "HOME").replace(f"{folder}/proj", "FOLDER")
    text = re.sub(r"\b([ckmst])_[0-9a-z]{20}\b", r"\1_ID", text)
    text = re.sub(r"✓ \d+\.\d s", "✓ N s", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "TIME", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r'(pid\W+|uptime_ms": |up      )\d+', r"\1N", text)
    return re.sub(r"(ostler |version=|version\": \")\d+\.\d+\.\d+", r"\1VERSION", text)

"""Commands that the table calls read-only are run for real: no file may change."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ostler.tools.commands import (
    GIT_GUARD_ENVIRONMENT,
    READ_ONLY_ENVIRONMENT,
    is_read_only,
    parse_command,
    write_literally,
)
from tests.support.programs import needs
from tests.tools.commands.safety.test_program_table import PASSES

FolderSnapshot = dict[str, tuple[int, int, int, bytes]]


def take_snapshot(folder: Path) -> FolderSnapshot:
    """Everything below the folder: kind and mode, size, time of change, content."""
    found: FolderSnapshot = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (facts.st_mode, facts.st_size if content else 0, facts.st_mtime_ns, content)
    return found


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A repository with files of the names that the commands use, which is also the home folder."""
    folder = tmp_path / "canary"
    (folder / "src").mkdir(parents=True)
    (folder / "x").mkdir()
    for name in ("a", "b", "f", "in", "a.py", "src/a.py", "x/--pre=bash", "x/-x", "names"):
        (folder / name).write_text('{"a": [{"b": 1}]}\n')
    (folder / "src" / "link").symlink_to("../a")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "a", "src"], ["commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "a").write_text('{"a": [{"b": 2}]}\n')
    return folder


def build_shell_arguments(folder: Path) -> list[str]:
    """The fixed shell, in a sandbox without network where that works; the canary stays writable."""
    plain = ["bash", "--noprofile", "--norc", "-c"]
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return plain
    sandboxed = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(folder), str(folder),
             "--unshare-net", "--chdir", str(folder), *plain]  # fmt: skip
    works = subprocess.run([*sandboxed, "true"], capture_output=True, check=False).returncode == 0
    return sandboxed if works else plain


def build_search_path(folder: Path) -> str:
    """PATH with `fd` under its own name: Debian calls it fdfind."""
    programs = folder.parent / "programs"
    programs.mkdir()
    (programs / "fd").symlink_to(shutil.which("fdfind") or shutil.which("fd") or "/nowhere")
    return f"{programs}:{os.environ['PATH']}"


def run_commands(commands: Sequence[str], canary: Path) -> list[str]:
    """Runs all commands, none of which may change anything; returns those that succeeded."""
    environment = {"PATH": build_search_path(canary), "HOME": str(canary), "LC_ALL": "C"}
    environment |= GIT_GUARD_ENVIRONMENT | READ_ONLY_ENVIRONMENT
    arguments = build_shell_arguments(canary)
    before = take_snapshot(canary)
    succeeded: list[str] = []
    for command in commands:
        parsed = parse_command(command)
        verdict = is_read_only(parsed, str(canary))
        if "may be taken for an option" in verdict.reason:
            # What gets its words from a list of files: tried below, where no file has such a name.
            assert "xargs" in command
            continue
        assert verdict.ok, verdict.reason
        done = subprocess.run(
            [*arguments, write_literally(parsed, verdict.expansion)],
            cwd=canary,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        succeeded += [command] if done.returncode == 0 else []
        assert take_snapshot(canary) == before, command
    return succeeded


@pytest.mark.parametrize("share", range(4))
def test_nothing_that_passes_as_read_only_changes_anything(share: int, canary: Path) -> None:
    assert len(run_commands(PASSES[share::4], canary)) > 20, "most of them work here"


def test_nothing_that_runs_on_a_list_of_files_changes_anything(canary: Path) -> None:
    for name in ("--pre=bash", "-x"):
        (canary / "x" / name).unlink()
    commands = [command for command in PASSES if "xargs" in command]
    assert len(run_commands(commands, canary)) > 10, "most of them work here"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("rg", marks=needs("rg")),
        pytest.param("fd", marks=needs("fdfind" if shutil.which("fd") is None else "fd")),
        pytest.param("tree", marks=needs("tree")),
        pytest.param("jq", marks=needs("jq")),
        pytest.param("ps", marks=needs("ps")),
    ],
)
def test_what_not_every_machine_has_is_tried_for_real(program: str, canary: Path) -> None:
    assert run_commands([command for command in PASSES if command.split()[0] == program], canary)


def test_the_canary_notices(canary: Path) -> None:
    before = take_snapshot(canary)
    subprocess.run(["bash", "-c", "sort -uo f f"], cwd=canary, check=True)
    assert take_snapshot(canary) != before

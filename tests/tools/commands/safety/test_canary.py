"""Commands that the table calls read-only are run for real: no file may change."""

import os
import shutil
import subprocess
import sys
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
from tests.support.examples import choose_examples, count_examples
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
    # npm and rustup make their own folders in a home folder that they have never seen.
    (folder / ".npm").mkdir()
    (folder / ".rustup").mkdir()
    (folder / ".rustup" / "settings.toml").write_text('version = "12"\n')
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "a", "src"], ["commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "a").write_text('{"a": [{"b": 2}]}\n')
    return folder


RUN_EACH = r"""
while IFS= read -r -d '' line; do
    bash --noprofile --norc -c "$line" </dev/null >/dev/null 2>&1
    printf '%d\n' "$?"
done
"""
"""The fixed shell, once for every line on the input; it prints how each of them ended."""


def build_shell_arguments(folder: Path) -> list[str]:
    """What runs all lines, in one sandbox without network where that works; the canary stays writable."""
    plain = ["bash", "--noprofile", "--norc", "-c", RUN_EACH]
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return plain
    sandboxed = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(folder), str(folder),
             "--unshare-net", "--chdir", str(folder)]  # fmt: skip
    works = subprocess.run([*sandboxed, "true"], capture_output=True, check=False).returncode == 0
    return [*sandboxed, *plain] if works else plain


def build_search_path(folder: Path) -> str:
    """PATH with `fd` under its own name, which Debian calls fdfind, and with a pip that starts quickly."""
    programs = folder.parent / "programs"
    programs.mkdir()
    (programs / "fd").symlink_to(shutil.which("fdfind") or shutil.which("fd") or "/nowhere")
    return f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def run_commands(commands: Sequence[str], canary: Path) -> list[str]:
    """Runs all commands, none of which may change anything; returns those that succeeded."""
    environment = {"PATH": build_search_path(canary), "HOME": str(canary), "LC_ALL": "C"}
    environment |= GIT_GUARD_ENVIRONMENT | READ_ONLY_ENVIRONMENT
    lines = {command: line for command in commands if (line := write_out(command, canary)) is not None}
    arguments = build_shell_arguments(canary)
    before = take_snapshot(canary)

    def run_lines(some: Sequence[str]) -> list[int]:
        text = "".join(f"{line}\0" for line in some)
        done = subprocess.run(
            arguments, cwd=canary, env=environment, input=text, capture_output=True, text=True, check=True
        )
        return [int(status) for status in done.stdout.split()]

    statuses = run_lines(list(lines.values()))
    if take_snapshot(canary) != before:
        for command, line in lines.items():  # which one it was: one by one, and the first that changes it anew
            seen = take_snapshot(canary)
            run_lines([line])
            assert take_snapshot(canary) == seen, command
        pytest.fail("one of the commands changed something, once")
    return [command for command, status in zip(lines, statuses, strict=True) if status == 0]


def write_out(command: str, canary: Path) -> str | None:
    """The line that would run; none for what gets its words from a list of files that look like options."""
    parsed = parse_command(command)
    verdict = is_read_only(parsed, str(canary))
    if "may be taken for an option" in verdict.reason:
        assert "xargs" in command  # tried below, where no file has such a name
        return None
    assert verdict.ok, verdict.reason
    return write_literally(parsed, verdict.expansion)


def test_nothing_that_passes_as_read_only_changes_anything(canary: Path) -> None:
    rows = choose_examples(PASSES)
    succeeded = run_commands(rows, canary)
    assert len(succeeded) > count_examples(80), "most of them work here"
    tried = {command.split()[0] for command in succeeded}
    installed = {
        "fd" if name == "fdfind" else name for name in ("rg", "fdfind", "fd", "tree", "jq", "ps") if shutil.which(name)
    }
    if len(rows) == len(PASSES):
        assert tried >= installed, "what not every machine has is tried for real, where it is"


def test_nothing_that_runs_on_a_list_of_files_changes_anything(canary: Path) -> None:
    for name in ("--pre=bash", "-x"):
        (canary / "x" / name).unlink()
    commands = [command for command in PASSES if "xargs" in command]
    assert len(run_commands(commands, canary)) > 10, "most of them work here"


def test_the_canary_notices(canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "write_out", lambda command, _folder: command)
    with pytest.raises(AssertionError, match="sort -uo f f"):
        run_commands(["ls", "sort -uo f f", "cat f"], canary)

"""What the table lets pass is run, for real: nothing may change."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ostler.tools.commands import GIT_GUARD_ENVIRONMENT, is_read_only, read_command
from tests.tools.commands.safety.test_program_table import PASSES

Listing = dict[str, tuple[int, int, int, bytes]]


def listing(folder: Path) -> Listing:
    """Everything below: kind and mode, size, time of change, content."""
    found: Listing = {}
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
    for name in ("a", "b", "f", "in", "a.py", "src/a.py", "--pre=bash", "-x", "names"):
        (folder / name).write_text('{"a": [{"b": 1}]}\n')
    (folder / "src" / "link").symlink_to("../a")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "a", "src"], ["commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "a").write_text('{"a": [{"b": 2}]}\n')
    return folder


def shell(folder: Path) -> list[str]:
    """The fixed shell, in a sandbox without network where that works; the canary stays writable."""
    plain = ["bash", "--noprofile", "--norc", "-c"]
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return plain
    boxed = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(folder), str(folder),
             "--unshare-net", "--chdir", str(folder), *plain]  # fmt: skip
    works = subprocess.run([*boxed, "true"], capture_output=True, check=False).returncode == 0
    return boxed if works else plain


def path(folder: Path) -> str:
    """With `fd` under its own name: Debian calls it fdfind."""
    programs = folder.parent / "programs"
    programs.mkdir()
    (programs / "fd").symlink_to(shutil.which("fdfind") or shutil.which("fd") or "/nowhere")
    return f"{programs}:{os.environ['PATH']}"


def successes(commands: Sequence[str], canary: Path) -> list[str]:
    """Runs them all: none may change anything; those that ended well."""
    environment = {"PATH": path(canary), "HOME": str(canary), "LC_ALL": "C", **GIT_GUARD_ENVIRONMENT}
    arguments = shell(canary)
    before = listing(canary)
    ran: list[str] = []
    for command in commands:
        verdict = is_read_only(read_command(command), str(canary))
        assert verdict.ok, verdict.reason
        done = subprocess.run(
            [*arguments, command],
            cwd=canary,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        ran += [command] if done.returncode == 0 else []
        assert listing(canary) == before, command
    return ran


@pytest.mark.parametrize("share", range(4))
def test_nothing_that_passes_as_read_only_changes_anything(share: int, canary: Path) -> None:
    assert len(successes(PASSES[share::4], canary)) > 20, "most of them work here"


@pytest.mark.parametrize("program", ["rg", "fd", "tree", "jq", "ps"])
def test_what_not_every_machine_has_is_tried_for_real(program: str, canary: Path) -> None:
    assert successes([command for command in PASSES if command.split()[0] == program], canary)


def test_the_canary_notices(canary: Path) -> None:
    before = listing(canary)
    subprocess.run(["bash", "-c", "sort -uo f f"], cwd=canary, check=True)
    assert listing(canary) != before

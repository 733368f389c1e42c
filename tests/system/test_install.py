"""What `make` installs: for the demo only what runs ostler, and for nobody anything that needs root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

BASICS = ("bash", "cat", "dirname", "env", "id", "mktemp", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What of a fresh checkout the installation looks at."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "scripts/install", "scripts/system-packages"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def plan(folder: Path, target: str) -> list[str]:
    """The scripts that `make` would run."""
    lines = run(folder, "make", "--dry-run", target).stdout.splitlines()
    return [line.partition("scripts/")[2] for line in lines if "scripts/" in line]


def link_programs(folder: Path, *programs: str) -> str:
    """A PATH on which there is nothing else."""
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found, program
        (folder / program).symlink_to(found)
    return str(folder)


def test_the_demo_installs_no_development_tools_and_the_tests_add_them(checkout: Path) -> None:
    assert plan(checkout, "demo") == ["install", "demo.py"]
    assert plan(checkout, "test") == ["install", "install dev"]
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".installed").touch()
    assert plan(checkout, "demo") == ["demo.py"]
    assert plan(checkout, "test") == ["install dev"]
    (checkout / ".venv" / ".installed-dev").touch()
    assert plan(checkout, "test") == []


def test_missing_programs_are_one_line_and_no_failure(checkout: Path) -> None:
    path = link_programs(checkout / "bin", *BASICS, "git", "ps")
    done = run(checkout, "scripts/system-packages", PATH=path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Not installed here: curl openssl util-linux util-linux bubblewrap shfmt ")
    assert done.stderr.count("\n") == 1


def test_an_old_python_is_refused_and_a_newer_one_beside_it_is_taken(checkout: Path) -> None:
    path = Path(link_programs(checkout / "bin", *BASICS))
    write_program(path / "python3", 'case "$1" in -V) echo "Python 3.9.2";; *) exit 1;; esac')
    done = run(checkout, "scripts/install", PATH=str(path))
    assert done.returncode == 1
    assert "ostler needs Python 3.11 or newer; python3 is Python 3.9.2. PYTHON=/path/to/python names" in done.stderr
    write_program(path / "python3.12", 'if [ "$1" = -c ]; then exit 0; fi; echo "taken: $*"; exit 1')
    assert "taken: -m venv .venv" in run(checkout, "scripts/install", PATH=str(path)).stderr


def test_half_an_environment_is_not_taken_for_a_whole_one(checkout: Path) -> None:
    """Debian's Python without its package python3-venv leaves one behind."""
    fake = checkout / "python"
    real = sys.executable
    write_program(
        fake, f'if [ "$2" != venv ]; then exec {real} "$@"; fi; mkdir -p .venv/bin; touch .venv/bin/python; exit 1'
    )
    done = run(checkout, "scripts/install", PYTHON=str(fake))
    assert done.returncode == 1
    assert "On Debian and Ubuntu the package python3-venv is missing." in done.stderr
    assert not (checkout / ".venv").exists()


def write_program(path: Path, code: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{code}\n")
    path.chmod(0o755)

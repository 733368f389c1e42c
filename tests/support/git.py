"""Repositories for tests, made and asked with the real git."""

import subprocess
from pathlib import Path


def run_git(folder: Path | str, *words: str) -> str:
    """What git prints; it must succeed."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A repository on the branch `main` with one commit of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q", "-b", "main")
    # What the product's own git commits, or a session's, has no identity on a machine that nobody has set up.
    run_git(folder, "config", "user.name", "Ann")
    run_git(folder, "config", "user.email", "ann@example.org")
    commit_files(folder, files or {"a.txt": "one\n"}, "first")
    return folder.resolve()


def commit_files(folder: Path, files: dict[str, str], message: str) -> str:
    """Writes and commits these files; returns the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_git(folder, "add", "--", *files)
    run_git(folder, "commit", "-q", "-m", message)
    return run_git(folder, "rev-parse", "HEAD")


def list_branches(folder: Path) -> list[str]:
    return run_git(folder, "branch", "--format=%(refname:short)").split()

"""git in another folder: judged in that folder's repository, which has to be the same one."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import find_file_accesses, is_read_only, parse_command


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    (place / "src" / "deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    return place


def passes(command: str, folder: Path) -> bool:
    return is_read_only(parse_command(command), str(folder)).ok


@pytest.mark.parametrize(
    "command", ["git -C . status", "git -C src log", "git -C ./src/deep diff", "git -C src/.. show"]
)
def test_a_folder_of_the_same_repository_passes(command: str, repository: Path) -> None:
    assert passes(command, repository)
    assert passes(f"cd src && git -C {repository} status", repository)


@pytest.mark.parametrize("make", ["git", "empty", "file", "bare"])
def test_a_folder_of_another_repository_is_asked_about_whatever_it_looks_like(make: str, repository: Path) -> None:
    nested = repository / "src" / "deep"
    match make:
        case "git":
            subprocess.run(["git", "init", "-q"], cwd=nested, check=True)
        case "empty":
            (nested / ".git").mkdir()
        case "file":
            (nested / ".git").write_text("gitdir: ../x\n")
        case _:
            for name in ("HEAD", "objects", "refs"):
                (nested / name).mkdir()
    assert not passes("git -C src/deep status", repository)
    assert passes("git -C src status", repository)


def test_a_link_to_another_repository_is_seen_through(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=other, check=True)
    (repository / "link").symlink_to(other)
    assert not passes("git -C link status", repository)
    assert not passes(f"git -C {other} status", repository)


def test_the_configuration_of_the_repository_counts(repository: Path) -> None:
    subprocess.run(["git", "config", "filter.x.clean", "x"], cwd=repository, check=True)
    assert not passes("git -C src status", repository)


def test_files_are_named_from_that_folder(repository: Path) -> None:
    read = find_file_accesses(parse_command("git -C src show HEAD:deep/x -- ../y"), str(repository))
    assert {os.path.relpath(each.path, repository) for each in read} >= {"src/deep/x", "y"}

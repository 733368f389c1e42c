"""Git itself says which repository it finds and what is configured there: hostile repositories, a canary, real git."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools.commands import GIT_GUARD_ENVIRONMENT, find_git_config_problem, is_read_only, parse_command
from ostler.tools.commands.safety import git_repository
from ostler.tools.commands.safety.git_config import find_hooks_folder
from ostler.tools.commands.safety.git_repository import find_git_repository
from ostler.tools.sandbox.policy import restrict_to_reading

COMMANDS = ["git status", "git diff", "git log -p -1", "git show", "git diff HEAD", "git blame f", "git grep a"]
IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def run_git(folder: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=environment)


def make_repository(folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q", "-b", "main", *options)
    (folder / "f").write_text("a\n")
    (folder / ".gitattributes").write_text("f diff=x filter=x\n")
    run_git(folder, "add", "f", ".gitattributes")
    run_git(folder, "commit", "-q", "-m", "x")
    (folder / "f").write_text("b\n")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A program that leaves a trace wherever it is run."""
    path = tmp_path / "canary"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    path.chmod(0o755)
    return path


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


# Each makes a repository in which the canary would run, and returns the folder in which git is called.


def hide_behind_comment(repository: Path, canary: Path) -> Path:
    """For git the backslash belongs to the comment; a reader that does not know takes the next line for its rest."""
    append(repository / ".git/config", f'[user]\n\tname = a # \\\n[diff "x"]\n\ttextconv = {canary}\n')
    return repository


def hide_behind_quoted_comment(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f'[user]\n\tname = "a ; b" ; \\\n[diff]\n\texternal = {canary}\n')
    return repository


def use_odd_spellings(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f'[DIFF "x"]TextConv={canary}\n')
    return repository


def use_old_section(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff.x]\ntextconv={canary}\n")
    return repository


def continue_a_value(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f'[user]\nname = a\\\nb\n[filter "x"]\nclean = {canary}\n')
    return repository


def use_carriage_returns(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f'[diff "x"]\r\ntextconv={canary}\r\n')
    return repository


def nest_an_empty_repository(repository: Path, canary: Path) -> Path:
    """Git passes by an empty `.git` and takes the one above."""
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    (repository / "sub" / ".git").mkdir(parents=True)
    return repository / "sub"


def nest_a_broken_repository(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    for name in ("objects", "refs"):
        (repository / "sub" / ".git" / name).mkdir(parents=True)
    (repository / "sub" / ".git" / "HEAD").write_text("nonsense\n")
    return repository / "sub"


def imitate_a_bare_repository(repository: Path, canary: Path) -> Path:
    """HEAD, objects and refs, but no repository for git, which takes the one above."""
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    for name in ("objects", "refs"):
        (repository / "sub" / name).mkdir(parents=True)
    (repository / "sub" / "HEAD").write_text("nonsense\n")
    return repository / "sub"


def plant_a_bare_repository(repository: Path, canary: Path) -> Path:
    (repository / "sub").mkdir()
    run_git(repository / "sub", "init", "-q", "--bare")
    run_git(repository / "sub", "fetch", "-q", str(repository), "main:main")
    append(repository / "sub/config", f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {canary}\n")
    append(repository / "sub/config", f"[diff]\n\texternal = {canary}\n")
    return repository / "sub"


def include_a_file(repository: Path, canary: Path) -> Path:
    (repository / "extra").write_text(f"[diff]\n\texternal = {canary}\n")
    append(repository / ".git/config", "[include]\n\tpath = ../extra\n")
    return repository


def include_by_folder(repository: Path, canary: Path) -> Path:
    (repository / "extra").write_text(f"[diff]\n\texternal = {canary}\n")
    append(repository / ".git/config", '[includeIf "gitdir:**"]\n\tpath = ../extra\n')
    return repository


def include_by_branch(repository: Path, canary: Path) -> Path:
    (repository / "extra").write_text(f"[diff]\n\texternal = {canary}\n")
    append(repository / ".git/config", '[includeIf "onbranch:main"]\n\tpath = ../extra\n')
    return repository


def configure_the_work_tree(repository: Path, canary: Path) -> Path:
    run_git(repository, "config", "extensions.worktreeConfig", "true")
    run_git(repository, "config", "--worktree", "diff.external", str(canary))
    return repository


def point_with_a_file(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    (repository / ".git").rename(repository.parent / "elsewhere")
    (repository / ".git").write_text(f"gitdir: {repository.parent}/elsewhere\n")
    return repository


def point_with_a_link(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    (repository / ".git").rename(repository.parent / "elsewhere")
    (repository / ".git").symlink_to(repository.parent / "elsewhere")
    return repository


def share_a_common_folder(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    run_git(repository, "worktree", "add", "-q", str(repository.parent / "tree"))
    (repository.parent / "tree" / "f").write_text("c\n")
    return repository.parent / "tree"


def go_through_a_link(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[diff]\n\texternal = {canary}\n")
    (repository / "deep").mkdir()
    (repository.parent / "link").symlink_to(repository / "deep")
    return repository.parent / "link"


def set_fsmonitor(repository: Path, canary: Path) -> Path:
    append(repository / ".git/config", f"[core]\n\tfsmonitor = {canary}\n")
    return repository


def set_many(repository: Path, canary: Path) -> Path:
    keys = f'[core]\n\tfsmonitor = {canary}\n\tsshCommand = {canary}\n\tpager = {canary}\n[alias]\n\tst = "!{canary}"\n'
    append(repository / ".git/config", f"{keys}[pager]\n\tlog = {canary}\n[gpg]\n\tprogram = {canary}\n")
    return repository


HOSTILE = [
    hide_behind_comment, hide_behind_quoted_comment, use_odd_spellings, use_old_section, continue_a_value,
    use_carriage_returns, nest_an_empty_repository, nest_a_broken_repository, imitate_a_bare_repository,
    plant_a_bare_repository, include_a_file, include_by_folder, include_by_branch, configure_the_work_tree,
    point_with_a_file, point_with_a_link, share_a_common_folder, go_through_a_link, set_fsmonitor, set_many,
]  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_what_a_repository_names_is_asked_about_or_does_not_run(
    make: Callable[[Path, Path], Path], repository: Path, canary: Path
) -> None:
    folder = make(repository, canary)
    ran = canary.with_name("ran")
    plain = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}
    # Variables that would lead git elsewhere are not passed on.
    hostile = {"GIT_DIR": str(repository / ".git"), "GIT_EXTERNAL_DIFF": str(canary), "GIT_CEILING_DIRECTORIES": "/"}
    guarded = restrict_to_reading({**plain, **hostile}, [str(repository)])
    passed = [command for command in COMMANDS if is_read_only(parse_command(command), str(folder)).ok]
    line = "; ".join(passed) or "true"
    subprocess.run(["bash", "-c", line], cwd=folder, env=guarded, capture_output=True, check=False)
    assert not ran.exists(), passed
    subprocess.run(["bash", "-c", "; ".join(COMMANDS)], cwd=folder, env=plain, capture_output=True, check=False)
    assert ran.exists(), "without the guard it would have run"


def test_a_repository_of_somebody_else_asks(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    monkeypatch.setenv("HOME", "/nowhere")
    for path in (repository, repository / ".git"):
        os.chown(path, 12_345, 12_345)
    assert "dubious ownership" in (find_git_config_problem(str(repository)) or "")


def test_a_repository_that_git_cannot_use_asks(repository: Path) -> None:
    append(repository / ".git/config", "[core]\n\trepositoryformatversion = 99\n")
    assert "git cannot use the repository" in (find_git_config_problem(str(repository)) or "")
    (repository / "sub").mkdir()
    (repository / "sub" / ".git").write_text("gitdir: /nowhere\n")
    assert "git cannot use the repository" in (find_git_config_problem(str(repository / "sub")) or "")


def test_what_the_person_configured_for_all_repositories_is_their_own(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[diff]\n\texternal = x\n[include]\n\tpath = more\n")
    (tmp_path / "home" / "more").write_text("[core]\n\tpager = less\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find_git_config_problem(str(repository)) is None
    # But not what lies in the repository, where anything could be written to it.
    append(tmp_path / "home" / "more", f"[include]\n\tpath = {repository}/team.gitconfig\n")
    (repository / "team.gitconfig").write_text("[diff]\n\texternal = y\n")
    assert "diff.external" in (find_git_config_problem(str(repository)) or "")


def test_git_is_not_taken_from_the_repository(repository: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "bin").mkdir()
    (repository / "bin" / "git").symlink_to(canary)
    (repository / "deep").mkdir()
    monkeypatch.setenv("PATH", f"{repository}/bin:.:{os.environ['PATH']}")
    assert find_git_config_problem(str(repository / "deep")) is None
    assert not canary.with_name("ran").exists()


def test_an_answer_of_git_is_kept_until_something_changes_that_it_depends_on(
    repository: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = repository / "sub"
    nested.mkdir()
    fresh = find_git_repository(str(repository), GIT_GUARD_ENVIRONMENT)
    assert find_git_repository(str(repository), GIT_GUARD_ENVIRONMENT) is not fresh, "what was written just now"
    monkeypatch.setattr(git_repository, "_SETTLED_NS", 0)
    first = find_git_repository(str(repository), GIT_GUARD_ENVIRONMENT)
    below = find_git_repository(str(nested), GIT_GUARD_ENVIRONMENT)
    assert first is not None
    assert find_git_repository(str(repository), GIT_GUARD_ENVIRONMENT) is first
    assert find_git_repository(str(nested), GIT_GUARD_ENVIRONMENT) is below
    # As many bytes as before, and the old time.
    config, other = repository / ".git" / "config", repository / ".git" / "other"
    other.write_text(config.read_text().replace("filemode", "fsmonito"))
    os.utime(other, ns=(config.stat().st_atime_ns, config.stat().st_mtime_ns))
    other.rename(config)
    assert find_git_repository(str(repository), GIT_GUARD_ENVIRONMENT) != first
    assert "core.fsmonito " in (find_git_config_problem(str(nested)) or "")
    run_git(nested, "init", "-q")
    append(nested / ".git/config", f"[diff]\n\texternal = {canary}\n")
    assert "diff.external" in (find_git_config_problem(str(nested)) or "")


def test_that_there_is_no_repository_is_kept_until_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "_SETTLED_NS", 0)
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert find_git_config_problem(str(folder)) is None
    make_repository(tmp_path / "a")
    run_git(tmp_path / "a", "config", "diff.external", "x")
    assert "diff.external" in (find_git_config_problem(str(folder)) or "")


def test_the_hooks_folder_is_the_one_that_git_uses(repository: Path) -> None:
    assert find_hooks_folder(str(repository)) is None
    run_git(repository, "config", "core.hooksPath", "tools/hooks")
    (repository / "deep").mkdir()
    assert find_hooks_folder(str(repository / "deep")) == str(repository / "tools" / "hooks")
    run_git(repository, "config", "core.hooksPath", "~/hooks")
    assert find_hooks_folder(str(repository)) == os.path.expanduser("~/hooks")

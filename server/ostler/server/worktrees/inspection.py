"""Asks git what has changed in a worktree; whatever it cannot tell is an error, never 'nothing'."""

import os
import stat

from ostler.server.worktrees.git import GitFailed, run_git
from ostler.server.worktrees.repository import find_operation, find_work_tree, read_commit
from ostler.server.worktrees.worktree import Worktree, WorktreeChanges
from ostler.tools.commands import find_git_config_problem
from ostler.tools.fs.paths import is_inside

_MAX_COMMITS = 1_000


class WorktreeGone(GitFailed):
    """Somebody has removed it."""


def inspect_worktree(worktree: Worktree) -> WorktreeChanges:
    """What would be lost with it. Raises WorktreeGone and GitFailed. Blocks."""
    git_dir = check_worktree(worktree)
    if (busy := find_operation(git_dir)) is not None:
        raise GitFailed(f"{worktree.path} is in the middle of {busy[0]}: end it first, or give it up with `{busy[1]}`.")
    return WorktreeChanges(_list_files(worktree.path), _list_commits(worktree))


def check_worktree(worktree: Worktree) -> str:
    """That the folder is the worktree that was made, and git runs nothing new there; returns its git folder."""
    try:
        status = os.lstat(worktree.path)
    except FileNotFoundError:
        raise WorktreeGone(f"The worktree {worktree.path} is not there any more.") from None
    except OSError as error:
        raise GitFailed(f"{worktree.path} cannot be looked at: {error.strerror}.") from None
    if not stat.S_ISDIR(status.st_mode) or os.path.realpath(worktree.path) != worktree.path:
        raise GitFailed(
            f"{worktree.path} is a link now, or in a folder that is one: it is not the worktree that was made."
        )
    if not is_inside(worktree.path, worktree.main) or worktree.path == worktree.main:
        raise GitFailed(f"{worktree.path} is not inside of {worktree.main}.")
    problem = find_git_config_problem(worktree.path)
    if problem is not None and problem != worktree.config_problem:
        raise GitFailed(f"git is not asked about {worktree.path}: {problem}.")
    found = find_work_tree(worktree.path)
    # Without its own `.git` git would take the folder for a part of the main work tree, where it is ignored.
    if found.top != worktree.path or found.common_dir != worktree.common_dir or found.is_main:
        raise GitFailed(
            f"{worktree.path} is no worktree of {worktree.main} any more: its .git file says something else."
        )
    return found.git_dir


def _list_files(path: str) -> tuple[str, ...]:
    # Ignored files are no changes, as everywhere in git.
    hidden = [line[2:] for line in run_git(path, "ls-files", "-v", "-z").split("\0") if line[:1].islower()]
    listed = run_git(
        path, "status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=none", "--no-renames"
    )
    shown = (f"{line[:2].strip()} {line[3:]}" for line in listed.split("\0") if line)
    return (*shown, *(f"assumed unchanged: {name}" for name in hidden))


def _list_commits(worktree: Worktree) -> tuple[str, ...]:
    tips = ["HEAD"]
    if worktree.branch is not None and read_commit(worktree.path, worktree.branch) is not None:
        tips.append(f"refs/heads/{worktree.branch}")
    known = [worktree.base_commit]
    # Where the worktree itself has switched to the branch it came from, a commit there is on that branch, and stays.
    if worktree.base_branch is not None and read_commit(worktree.path, worktree.base_branch) is not None:
        known.append(f"refs/heads/{worktree.base_branch}")
    listed = run_git(
        worktree.path, "log", f"--max-count={_MAX_COMMITS}", "--no-decorate", "--no-show-signature",
        "--format=%h %s", *tips, "--not", *known, "--",
    )  # fmt: skip
    return tuple(line for line in listed.split("\n") if line)

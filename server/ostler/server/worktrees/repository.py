"""The repository around a folder: its main work tree, what is checked out, and what git is in the middle of."""

import os
from dataclasses import dataclass
from typing import Final

from ostler.server.worktrees.git import GitFailed, run_git

_IN_PROGRESS: Final = {
    "MERGE_HEAD": ("a merge", "git merge --abort"),
    "rebase-merge": ("a rebase", "git rebase --abort"),
    "rebase-apply": ("a rebase", "git rebase --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "git cherry-pick --abort"),
    "REVERT_HEAD": ("a revert", "git revert --abort"),
    "BISECT_LOG": ("a bisect", "git bisect reset"),
}
_NO_WORK_TREE: Final = "{} is in a bare repository, or inside of a .git folder: there is no work tree."


@dataclass(frozen=True, slots=True)
class WorkTree:
    """One work tree of a repository, as git finds it from a folder."""

    top: str
    git_dir: str
    common_dir: str

    @property
    def is_main(self) -> bool:
        return self.git_dir == self.common_dir


@dataclass(frozen=True, slots=True)
class Base:
    """Where a worktree begins."""

    main: str
    """The real path of the main work tree."""
    common_dir: str
    commit: str
    branch: str | None
    """The branch that is checked out in the folder; null: none is."""


def find_base(folder: str) -> Base:
    """The repository around a folder, and its commit. Raises GitFailed, also in the middle of a merge and the like."""
    here = find_work_tree(folder)
    if (busy := find_operation(here.git_dir)) is not None:
        raise GitFailed(f"{here.top} is in the middle of {busy[0]}: end it first, or give it up with `{busy[1]}`.")
    try:
        commit = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}").strip()
    except GitFailed:
        raise GitFailed(f"{here.top} has no commit yet, and a worktree begins with one.") from None
    return Base(_find_main(here), here.common_dir, commit, read_branch(folder))


def find_work_tree(folder: str) -> WorkTree:
    try:
        bare = run_git(folder, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")
    except GitFailed as error:
        if "bare repository" in str(error):
            raise GitFailed(_NO_WORK_TREE.format(folder)) from None
        if "not a git repository" in str(error):
            raise GitFailed(f"{folder} is in no git repository, and a worktree is made of one.") from None
        raise
    if bare.split() != ["false", "true"]:
        raise GitFailed(_NO_WORK_TREE.format(folder))
    found = run_git(folder, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
    lines = found.removesuffix("\n").split("\n")
    if len(lines) != 3:
        raise GitFailed(f"git cannot say where the repository of {folder} is.")
    git_dir, common_dir, top = (os.path.realpath(os.path.join(folder, line)) for line in lines)
    return WorkTree(top, git_dir, common_dir)


def find_operation(git_dir: str) -> tuple[str, str] | None:
    """What git is in the middle of, and the command that gives it up."""
    return next((told for name, told in _IN_PROGRESS.items() if os.path.lexists(os.path.join(git_dir, name))), None)


def read_branch(folder: str) -> str | None:
    """The branch that is checked out; None where none is."""
    try:
        return run_git(folder, "symbolic-ref", "--quiet", "--short", "HEAD").strip() or None
    except GitFailed:
        return None


def read_commit(folder: str, branch: str) -> str | None:
    """The commit that a branch is at; None where there is no such branch."""
    listed = run_git(folder, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
    return listed.strip() or None


def _find_main(here: WorkTree) -> str:
    if here.is_main:
        return here.top
    main = os.path.dirname(here.common_dir)
    if os.path.basename(here.common_dir) == ".git" and os.path.isdir(here.common_dir):
        try:
            found = find_work_tree(main)
        except GitFailed:
            found = None
        if found is not None and found.is_main and found.top == main:
            return main
    raise GitFailed(f"{here.top} belongs to a repository without a main work tree, where worktrees would be made.")

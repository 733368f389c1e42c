"""Makes, releases and removes worktrees: one at a time in a repository, each locked for the session that it is for.

Nothing here removes a file by itself: `git worktree remove` does, and refuses what it should; an empty folder that git
left is removed as an empty folder. All functions block, and raise GitFailed.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.settings.git_exclude import exclude_from_git
from ostler.server.worktrees.git import GitFailed, run_git
from ostler.server.worktrees.inspection import WorktreeGone, check_worktree, inspect_worktree
from ostler.server.worktrees.names import build_branch_name, build_folder_name, make_random_name
from ostler.server.worktrees.repository import Base, find_base, find_work_tree, read_branch, read_commit
from ostler.server.worktrees.worktree import Worktree, WorktreeChanges, WorktreeOutcome
from ostler.server.worktrees.worktree_folder import RELATIVE, get_worktree_folder, lock_worktree_folder
from ostler.tools.commands import find_git_config_problem
from ostler.tools.fs.paths import is_inside
from ostler.tools.process import tree

_CHECKOUT_SECONDS: Final = 300.0
"""For git to write or to remove all files of a work tree."""
_ROOM_BYTES: Final = 1024 * 1024
"""A disk with less is taken as full."""
_LOCK_REASON: Final = compile_later(r"ostler: (?P<owner>\S+) in process (?P<pid>\d+) started (?P<start>\d*)")


class WorktreeChanged(GitFailed):
    """It has changes that would be lost."""

    def __init__(self, message: str, changes: WorktreeChanges) -> None:
        super().__init__(message)
        self.changes = changes


@dataclass(frozen=True, slots=True)
class ListedWorktree:
    """A worktree as git lists it."""

    path: str
    commit: str | None
    branch: str | None
    lock_reason: str | None
    """Null: it is not locked."""


def create_worktree(folder: str, name: str | None, owner: str, umask: int) -> Worktree:
    """A new worktree of the repository around a folder, on a new branch that begins at the folder's commit."""
    problem = find_git_config_problem(folder)
    base = find_base(folder)
    with lock_worktree_folder(base.main, umask) as lock:
        _release_stale_locks(base.main)
        path, branch = _choose_place(base, name)
        worktree = Worktree(path, branch, base.main, base.common_dir, base.commit, base.branch, owner, problem)
        _exclude(base.main, umask)
        try:
            run_git(
                base.main, "worktree", "add", "--quiet", "--lock", "--reason", _build_lock_reason(owner), "--no-track",
                "-b", branch, path, base.commit, seconds=_CHECKOUT_SECONDS, umask=umask, inherited=(lock,),
            )  # fmt: skip
            check_worktree(worktree)
            _check_ignored(base.main, path)
        except GitFailed as error:
            full = " The disk is full." if _is_full(base.main, lock) else ""
            left = _take_back(worktree)
            rest = f" What was made of it could not be taken back: {left}" if left else ""
            raise GitFailed(f"{error}{full}{rest}") from None
        return worktree


def adopt_worktree(folder: str, path: str, owner: str) -> Worktree:
    """The worktree that a hook has made, where it is one of this repository and inside of it."""
    base = find_base(folder)
    if not os.path.isabs(path) or not os.path.isdir(path):
        raise GitFailed(f"A WorktreeCreate hook printed {path[:200]!r}, which is not the absolute path of a folder.")
    real = os.path.realpath(path)
    found = find_work_tree(real)
    if found.is_main or found.top != real or found.common_dir != base.common_dir or not is_inside(real, base.main):
        raise GitFailed(f"A WorktreeCreate hook printed {path[:200]!r}, which is no worktree inside of {base.main}.")
    commit = run_git(real, "rev-parse", "--verify", "--end-of-options", "HEAD^{commit}").strip()
    problem = find_git_config_problem(real)
    return Worktree(real, read_branch(real), base.main, base.common_dir, commit, base.branch, owner, problem)


def release_worktree(worktree: Worktree) -> None:
    """Keeps it, for whoever wants it: the lock for the session goes."""
    _unlock(worktree.main, worktree.path)


def remove_worktree(worktree: Worktree, umask: int, *, discard: bool = False) -> WorktreeChanges:
    """Removes it with its branch; returns what was discarded. Raises WorktreeChanged where that was not asked for."""
    with lock_worktree_folder(worktree.main, umask) as lock:
        changes = inspect_worktree(worktree)
        if changes and not discard:
            raise WorktreeChanged(f"{worktree.path} has changes.", changes)
        tip = read_commit(worktree.main, worktree.branch) if worktree.branch is not None else None
        _unlock(worktree.main, worktree.path)
        force = ["--force"] if changes or _has_only_unused_submodules(worktree) else []
        run_git(
            worktree.main, "worktree", "remove", *force, worktree.path, seconds=_CHECKOUT_SECONDS, inherited=(lock,)
        )
        if worktree.branch is not None and tip is not None:
            _delete_branch(worktree.main, worktree.branch, tip)
        return changes


def finish_worktree(worktree: Worktree, umask: int) -> WorktreeOutcome:
    """Removes it where nothing has changed, else keeps it; keeps it, too, where git cannot tell."""
    path, branch = worktree.path, worktree.branch
    try:
        remove_worktree(worktree, umask)
    except WorktreeGone as gone:
        # A daemon that was killed may have removed it, and left its branch.
        if branch is not None:
            with contextlib.suppress(GitFailed):
                _delete_branch(worktree.main, branch, worktree.base_commit)
        return WorktreeOutcome(path, branch, kept=False, why=str(gone))
    except GitFailed as error:
        changes = error.changes if isinstance(error, WorktreeChanged) else WorktreeChanges()
        why = _describe_kept(worktree, changes) if changes else f"The worktree {path} was kept: {error}"
        with contextlib.suppress(GitFailed):
            release_worktree(worktree)
        return WorktreeOutcome(path, branch, kept=True, why=why, changes=changes)
    return WorktreeOutcome(path, branch, kept=False, why="The worktree was removed: nothing was changed in it.")


def remove_half_made(
    folder: str, owner: str, umask: int, spared: str | None = None, name: str | None = None
) -> list[str]:
    """After a crash: takes back what was being made for a session that never came to use it; returns the paths.

    Those are what is locked for the owner, and what has that name; `spared` is the worktree that the session is in.
    One in which something was done is kept, and its lock goes.
    """
    base = find_base(folder)
    named = os.path.join(get_worktree_folder(base.main), build_folder_name(name)) if name is not None else None
    if not os.path.isdir(get_worktree_folder(base.main)):
        return []
    removed: list[str] = []
    with lock_worktree_folder(base.main, umask):  # a git that the dead daemon started still holds it
        for each in _list_ours(base.main):
            if each.path == spared or (_read_owner(each) != owner and each.path != named):
                continue
            branch = build_branch_name(os.path.basename(each.path))
            worktree = Worktree(
                each.path, branch, base.main, base.common_dir, each.commit or base.commit, base.branch, owner,
                find_git_config_problem(base.main),
            )  # fmt: skip
            if _is_untouched(worktree) and not _take_back(worktree):
                removed.append(each.path)
            else:
                with contextlib.suppress(GitFailed):
                    _unlock(base.main, each.path)
        if name is not None:
            _delete_empty_branch(base.main, build_branch_name(name))
    return removed


# Making one.


def _choose_place(base: Base, name: str | None) -> tuple[str, str]:
    while True:
        chosen = name or make_random_name()
        path = os.path.join(get_worktree_folder(base.main), build_folder_name(chosen))
        branch = build_branch_name(chosen)
        taken = f"The folder {path} exists" if os.path.lexists(path) else None
        if taken is None and read_commit(base.main, branch) is not None:
            taken = f"The branch {branch} exists"
        if taken is None:
            return path, branch
        if name is not None:
            raise GitFailed(f"{taken} already: take another name, or none.")


def _exclude(main: str, umask: int) -> None:
    exclude_from_git(main, RELATIVE, umask)


def _check_ignored(main: str, path: str) -> None:
    try:
        run_git(main, "check-ignore", "--quiet", path)
    except GitFailed:
        raise GitFailed(
            f"{RELATIVE} could not be kept out of git by .git/info/exclude, so that the worktree would be committed: "
            "look for a line like `!.ostler` in .gitignore."
        ) from None


def _take_back(worktree: Worktree) -> str | None:
    """Removes what `git worktree add` has made, whole or in part; returns what could not be."""
    with contextlib.suppress(OSError):
        os.rmdir(worktree.path)  # only while it is empty
    try:
        if any(each.path == worktree.path for each in list_worktrees(worktree.main)):
            _unlock(worktree.main, worktree.path)
            run_git(worktree.main, "worktree", "remove", "--force", worktree.path, seconds=_CHECKOUT_SECONDS)
        if worktree.branch is not None:
            _delete_branch(worktree.main, worktree.branch, worktree.base_commit)
    except GitFailed as error:
        return str(error)
    return f"{worktree.path} is still there." if os.path.lexists(worktree.path) else None


def _is_untouched(worktree: Worktree) -> bool:
    """Whether it has nothing but files of its commit, perhaps not all of them yet."""
    if not os.path.lexists(os.path.join(worktree.path, ".git")):
        return not os.path.lexists(worktree.path) or not os.listdir(worktree.path)
    try:
        git_dir = check_worktree(worktree)
        if not os.path.lexists(os.path.join(git_dir, "index")):
            # Git writes it last: it was ended in the middle of the files, and there is nothing but what it wrote.
            tracked = run_git(worktree.path, "ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD")
            there = run_git(worktree.path, "ls-files", "--others", "-z")
            return set(there.split("\0")) <= {*tracked.split("\0"), ""}
        return not inspect_worktree(worktree)
    except GitFailed:
        return False


def _is_full(main: str, folder: int) -> bool:
    """Git names the file that it could not write, and not why."""
    with contextlib.suppress(OSError):
        return any(os.statvfs(place).f_bavail * os.statvfs(place).f_frsize < _ROOM_BYTES for place in (main, folder))
    return False


# Removing one.


def _has_only_unused_submodules(worktree: Worktree) -> bool:
    """Git removes a work tree with submodules only by force, also where none of them was ever checked out."""
    listed = run_git(worktree.path, "ls-files", "--stage", "-z").split("\0")
    if not any(line.startswith("160000 ") for line in listed):
        return False
    modules = os.path.join(find_work_tree(worktree.path).git_dir, "modules")
    return not os.path.lexists(modules)


def _delete_branch(main: str, branch: str, tip: str) -> None:
    """Deletes the branch, if it is still at this commit and not checked out elsewhere."""
    if any(each.branch == branch for each in list_worktrees(main)):
        return
    with contextlib.suppress(GitFailed):  # it has moved, and so has something that nobody asked to discard
        run_git(main, "update-ref", "--no-deref", "-d", f"refs/heads/{branch}", tip)


def _delete_empty_branch(main: str, branch: str) -> None:
    """Deletes the branch of a worktree that was taken back before the daemon died, if it has no commit of its own."""
    tip = read_commit(main, branch)
    if tip is None:
        return
    own = run_git(main, "rev-list", "--max-count=1", tip, "--not", f"--exclude={branch}", "--branches", "HEAD")
    if not own.strip():
        _delete_branch(main, branch, tip)


def _describe_kept(worktree: Worktree, changes: WorktreeChanges) -> str:
    counts = ((len(changes.files), "changed file"), (len(changes.commits), "commit"))
    what = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count]
    on = f" on the branch {worktree.branch}" if worktree.branch is not None else ""
    return f"The worktree {worktree.path}{on} was kept: it has {' and '.join(what)}."


# Locks.


def _build_lock_reason(owner: str) -> str:
    pid = os.getpid()
    return f"ostler: {owner} in process {pid} started {tree.read_start_time(pid)}"


def _release_stale_locks(main: str) -> None:
    """Unlocks the worktrees that a daemon locked which is not there any more."""
    for each in _list_ours(main):
        found = _LOCK_REASON.fullmatch(each.lock_reason or "")
        if found is not None and tree.read_start_time(int(found["pid"])) != found["start"]:
            with contextlib.suppress(GitFailed):
                _unlock(main, each.path)


def _unlock(main: str, path: str) -> None:
    if any(each.path == path and each.lock_reason is not None for each in list_worktrees(main)):
        run_git(main, "worktree", "unlock", path)


def _read_owner(listed: ListedWorktree) -> str | None:
    found = _LOCK_REASON.fullmatch(listed.lock_reason or "")
    return found["owner"] if found is not None else None


def _list_ours(main: str) -> list[ListedWorktree]:
    folder = get_worktree_folder(main)
    return [each for each in list_worktrees(main) if os.path.dirname(each.path) == folder]


def list_worktrees(main: str) -> list[ListedWorktree]:
    """All worktrees of a repository, the main one first."""
    found: list[ListedWorktree] = []
    for block in run_git(main, "worktree", "list", "--porcelain", "-z").split("\0\0"):
        parts = (line.partition(" ") for line in block.split("\0") if line)
        facts = {name: value for name, _, value in parts}
        if "worktree" in facts:
            branch = facts.get("branch", "").removeprefix("refs/heads/") or None
            found.append(ListedWorktree(facts["worktree"], facts.get("HEAD"), branch, facts.get("locked")))
    return found

"""Worktrees below `.ostler/worktrees`, made and removed by the real git: what is refused, and what is left then."""

import fcntl
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.server.worktrees import worktrees
from ostler.server.worktrees.git import GitFailed
from ostler.server.worktrees.git import run_git as run_bounded_git
from ostler.server.worktrees.inspection import WorktreeGone, inspect_worktree
from ostler.server.worktrees.names import BadName, check_name
from ostler.server.worktrees.worktree import Worktree
from ostler.server.worktrees.worktrees import (
    WorktreeChanged,
    adopt_worktree,
    create_worktree,
    finish_worktree,
    list_worktrees,
    release_worktree,
    remove_half_made,
    remove_worktree,
)
from tests.support.disks import mount_small_disk
from tests.support.git import commit_files, list_branches, make_repository, run_git

UMASK = 0o022


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work")


def create(folder: Path | str, name: str | None = "one", owner: str = "s_1") -> Worktree:
    return create_worktree(str(folder), name, owner, UMASK)


def expect_refusal(work: Callable[[], object]) -> str:
    with pytest.raises(GitFailed) as caught:
        work()
    return str(caught.value)


def expect_nothing_left(repository: Path) -> None:
    assert list_branches(repository) == ["main"]
    assert len(list_worktrees(str(repository))) == 1
    assert not os.listdir(repository / ".git" / "worktrees") if (repository / ".git" / "worktrees").exists() else True
    assert not (repository / ".ostler" / "worktrees" / "one").exists()


# Making one.


def test_a_worktree_is_on_a_new_branch_out_of_git_and_locked(repository: Path) -> None:
    made = create(repository)
    assert made.path == str(repository / ".ostler" / "worktrees" / "one")
    assert (Path(made.path) / "a.txt").read_text() == "one\n"
    assert run_git(made.path, "branch", "--show-current") == made.branch == "worktree-one"
    assert made.base_commit == run_git(repository, "rev-parse", "HEAD")
    assert made.base_branch == "main"
    assert run_git(repository, "status", "--porcelain") == ""
    assert "/.ostler/worktrees" in (repository / ".git" / "info" / "exclude").read_text().splitlines()
    (listed,) = [each for each in list_worktrees(str(repository)) if each.path == made.path]
    assert (listed.lock_reason or "").startswith(f"ostler: s_1 in process {os.getpid()} ")
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o755
    assert not inspect_worktree(made)


@pytest.mark.parametrize("name", ["a", "fix/login-2", "v1.2_x", "x" * 64, None])
def test_a_name_makes_one_folder_and_one_branch(repository: Path, name: str | None) -> None:
    made = create(repository, name)
    assert os.path.dirname(made.path) == str(repository / ".ostler" / "worktrees")
    assert made.branch == f"worktree-{os.path.basename(made.path)}"
    remove_worktree(made, UMASK)


@pytest.mark.parametrize(
    "name",
    ["", "x" * 65, "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "-b", ".git", "a b", "a\n", "ä", "a+b", "a\\b",
     "a.lock", "a.", "a..b", "a@{1}", "~", "a/.b"],
)  # fmt: skip
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_name(name)


def test_a_name_that_is_taken_is_refused_and_what_has_it_stays(repository: Path) -> None:
    made = create(repository)
    (Path(made.path) / "b.txt").write_text("mine")
    assert "exists already: take another name" in expect_refusal(lambda: create(repository, owner="s_2"))
    run_git(repository, "branch", "worktree-two")
    assert "The branch worktree-two exists already" in expect_refusal(lambda: create(repository, "two"))
    assert (Path(made.path) / "b.txt").read_text() == "mine"
    assert not (repository / ".ostler" / "worktrees" / "two").exists()


def test_it_is_made_of_the_main_repository_also_from_a_folder_below_and_from_another_worktree(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "sub").mkdir()
    assert create(repository / "sub", "below").main == str(repository)
    run_git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    commit = commit_files(tmp_path / "side", {"b.txt": "two"}, "second")
    made = create(tmp_path / "side", "beside")
    assert os.path.dirname(made.path) == str(repository / ".ostler" / "worktrees")
    assert (made.base_commit, made.base_branch) == (commit, "side")


def test_hooks_of_git_do_not_run(repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    run_git(repository, "checkout", "-q", "-b", "proof")
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    remove_worktree(create(repository), UMASK)
    assert not (tmp_path / "ran").exists()


def test_variables_of_the_daemon_lead_git_nowhere_else(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    made = create(repository)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert made.main == str(repository)
    assert list_branches(other) == ["main"]


def test_a_folder_without_a_usable_repository_is_refused(tmp_path: Path, repository: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert "in no git repository" in expect_refusal(lambda: create(plain))
    bare = tmp_path / "bare.git"
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    assert "bare repository" in expect_refusal(lambda: create(bare))
    assert "there is no work tree" in expect_refusal(lambda: create(repository / ".git"))
    empty = tmp_path / "empty"
    run_git(tmp_path, "init", "-q", str(empty))
    assert "has no commit yet" in expect_refusal(lambda: create(empty))
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), str(tmp_path / "hub.git"))
    run_git(tmp_path / "hub.git", "worktree", "add", "-q", str(tmp_path / "spoke"), "main")
    assert "without a main work tree" in expect_refusal(lambda: create(tmp_path / "spoke"))
    for folder in (plain, bare, empty, tmp_path / "hub.git", tmp_path / "spoke"):
        assert not (folder / ".ostler").exists()


def test_git_that_is_missing_is_an_error_that_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create(repository)
    monkeypatch.setattr("ostler.tools.commands.safety.git_repository._SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(repository))
    assert "git is not installed" in expect_refusal(lambda: create(repository, "two"))
    assert "git was not found" in expect_refusal(lambda: inspect_worktree(made))
    outcome = finish_worktree(made, UMASK)
    assert outcome.kept
    assert Path(made.path).is_dir()


def test_a_repository_in_the_middle_of_a_merge_is_refused(repository: Path) -> None:
    start_merge(repository)
    assert "in the middle of a merge" in expect_refusal(lambda: create(repository))
    run_git(repository, "merge", "--abort")
    create(repository)


def start_merge(folder: Path) -> None:
    """A merge with a conflict, which nobody has solved."""
    run_git(folder, "checkout", "-q", "-b", "theirs")
    commit_files(folder, {"a.txt": "theirs\n"}, "theirs")
    run_git(folder, "checkout", "-q", "-b", "ours", "HEAD~1")
    commit_files(folder, {"a.txt": "ours\n"}, "ours")
    done = subprocess.run(["git", "-C", folder, "merge", "-q", "theirs"], capture_output=True, check=False)
    assert done.returncode != 0
    assert (Path(run_git(folder, "rev-parse", "--absolute-git-dir")) / "MERGE_HEAD").exists()


@pytest.mark.parametrize("link", [".ostler", ".ostler/worktrees"])
def test_a_link_in_the_place_of_the_folder_is_refused(repository: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / link).parent.mkdir(exist_ok=True)
    (repository / link).symlink_to(outside)
    assert "is a link or a file" in expect_refusal(lambda: create(repository))
    assert os.listdir(outside) == []
    assert list_branches(repository) == ["main"]


def test_a_worktree_that_cannot_be_kept_out_of_git_is_not_made(repository: Path) -> None:
    commit_files(repository, {".gitignore": "!/.ostler\n!/.ostler/worktrees\n"}, "ignore")
    assert "could not be kept out of git" in expect_refusal(lambda: create(repository))
    expect_nothing_left(repository)
    assert not (repository / ".ostler").exists()


def test_a_full_disk_is_an_error_and_nothing_is_left(repository: Path) -> None:
    commit_files(repository, {"large.bin": "x" * 200_000}, "large")
    (repository / ".ostler").mkdir()
    with mount_small_disk(repository / ".ostler" / "worktrees"):
        assert "The disk is full" in expect_refusal(lambda: create(repository))
        expect_nothing_left(repository)


def test_a_checkout_that_takes_too_long_is_ended_and_nothing_is_left(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the person's own configuration runs does run: here a filter that never ends.
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=slow\n")
    home = repository.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text('[filter "slow"]\n\tsmudge = sleep 600\n\trequired = true\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(worktrees, "_CHECKOUT_SECONDS", 1.0)
    assert "was not done within 1 s" in expect_refusal(lambda: create(repository))
    monkeypatch.setattr(worktrees, "_CHECKOUT_SECONDS", 60.0)
    expect_nothing_left(repository)


def test_git_that_prints_without_end_is_ended(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.server.worktrees.git._MAX_BYTES", 1_000)
    commit_files(repository, {f"{number:040}": "" for number in range(100)}, "many")
    assert "prints more than" in expect_refusal(lambda: run_bounded_git(str(repository), "ls-files"))


# Two at once.


def test_two_at_once_never_meet(repository: Path) -> None:
    made: list[Worktree] = []
    refused: list[str] = []

    def work(name: str | None) -> None:
        try:
            made.append(create(repository, name, owner=f"s_{threading.get_ident()}"))
        except GitFailed as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("same", "same", None, None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.path for each in made}) == 3
    assert len(refused) == 1
    assert "exists already" in refused[0]
    outcomes = [finish_worktree(each, UMASK) for each in made]
    assert not any(each.kept for each in outcomes)
    assert list_branches(repository) == ["main"]


def test_a_lock_that_somebody_else_holds_is_waited_for_a_limited_time(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / ".ostler" / "worktrees"
    folder.mkdir(parents=True)
    monkeypatch.setattr("ostler.server.worktrees.worktree_folder._LOCK_SECONDS", 0.1)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "is being made or removed" in expect_refusal(lambda: create(repository))
    finally:
        os.close(held)
    create(repository)


def test_the_lock_of_a_daemon_that_died_is_released_and_that_of_a_living_one_is_not(repository: Path) -> None:
    dead, alive = create(repository, "dead"), create(repository, "alive")
    run_git(repository, "worktree", "unlock", dead.path)
    run_git(repository, "worktree", "lock", "--reason", "ostler: s_0 in process 4194303 started 1", dead.path)
    by_hand = repository.parent / "by-hand"
    run_git(repository, "worktree", "add", "-q", "--lock", str(by_hand))
    create(repository, "third")
    locked = {os.path.basename(each.path) for each in list_worktrees(str(repository)) if each.lock_reason is not None}
    assert locked == {"alive", "third", "by-hand"}
    assert Path(alive.path).is_dir()


# Leaving one.


def test_an_unchanged_worktree_is_removed_with_its_branch(repository: Path) -> None:
    (repository / "mine.txt").write_text("uncommitted in the main work tree")
    outcome = finish_worktree(create(repository), UMASK)
    assert (outcome.kept, outcome.why) == (False, "The worktree was removed: nothing was changed in it.")
    expect_nothing_left(repository)
    assert (repository / "mine.txt").exists()


def change_tracked(folder: Path) -> None:
    (folder / "a.txt").write_text("two\n")


def add_untracked(folder: Path) -> None:
    (folder / "b.txt").write_text("two\n")


def stage(folder: Path) -> None:
    add_untracked(folder)
    run_git(folder, "add", "b.txt")


def delete_tracked(folder: Path) -> None:
    (folder / "a.txt").unlink()


def commit(folder: Path) -> None:
    commit_files(folder, {"b.txt": "two\n"}, "second")


def commit_on_another_branch(folder: Path) -> None:
    run_git(folder, "checkout", "-q", "-b", "other")
    commit(folder)


def commit_on_no_branch(folder: Path) -> None:
    run_git(folder, "checkout", "-q", "--detach")
    commit(folder)


def commit_and_switch_away(folder: Path) -> None:
    commit(folder)
    run_git(folder, "checkout", "-q", "--detach", "HEAD~1")


def hide_change_from_the_index(folder: Path) -> None:
    run_git(folder, "update-index", "--assume-unchanged", "a.txt")
    change_tracked(folder)


def clone_inside(folder: Path) -> None:
    make_repository(folder / "inner")


CHANGES = [
    change_tracked, add_untracked, stage, delete_tracked, commit, commit_on_another_branch, commit_on_no_branch,
    commit_and_switch_away, hide_change_from_the_index, clone_inside,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_worktree_is_kept_and_removed_only_where_its_changes_are_discarded(
    repository: Path, change: Callable[[Path], None]
) -> None:
    made = create(repository)
    change(Path(made.path))
    with pytest.raises(WorktreeChanged) as caught:
        remove_worktree(made, UMASK)
    assert caught.value.changes
    outcome = finish_worktree(made, UMASK)
    assert outcome.kept
    assert "was kept: it has" in outcome.why
    assert Path(made.path).is_dir()
    assert remove_worktree(made, UMASK, discard=True) == caught.value.changes
    assert not Path(made.path).exists()
    assert "worktree-one" not in list_branches(repository)


def test_commits_that_are_merged_into_the_base_are_no_changes(repository: Path) -> None:
    made = create(repository)
    commit(Path(made.path))
    run_git(repository, "merge", "-q", "worktree-one")
    assert not finish_worktree(made, UMASK).kept
    expect_nothing_left(repository)
    assert (repository / "b.txt").exists()


def test_a_worktree_in_the_middle_of_a_merge_is_kept_also_where_changes_are_to_be_discarded(repository: Path) -> None:
    made = create(repository)
    start_merge(Path(made.path))
    refusal = expect_refusal(lambda: remove_worktree(made, UMASK, discard=True))
    assert "in the middle of a merge" in refusal
    assert finish_worktree(made, UMASK).kept
    assert (Path(made.path) / "a.txt").exists()


def break_git_file(folder: Path) -> None:
    (folder / ".git").unlink()


def point_elsewhere(folder: Path) -> None:
    other = make_repository(folder.parents[3] / "other")
    (folder / ".git").write_text(f"gitdir: {other / '.git'}\n")


def break_index(folder: Path) -> None:
    (Path(run_git(folder, "rev-parse", "--absolute-git-dir")) / "index").write_bytes(b"no index")


def lose_commit(folder: Path) -> None:
    (Path(run_git(folder, "rev-parse", "--absolute-git-dir")) / "HEAD").write_text("0" * 40)


def become_link(folder: Path) -> None:
    folder.rename(folder.parents[3] / "moved")
    folder.symlink_to(folder.parents[3] / "moved")


def name_new_program(folder: Path) -> None:
    run_git(folder, "config", "filter.x.clean", "touch ran")


@pytest.mark.parametrize(
    "damage", [break_git_file, point_elsewhere, break_index, lose_commit, become_link, name_new_program]
)
def test_where_git_cannot_tell_nothing_is_removed(repository: Path, damage: Callable[[Path], None]) -> None:
    made = create(repository)
    damage(Path(made.path))
    expect_refusal(lambda: inspect_worktree(made))
    expect_refusal(lambda: remove_worktree(made, UMASK, discard=True))
    outcome = finish_worktree(made, UMASK)
    assert outcome.kept
    assert outcome.why.startswith(f"The worktree {made.path} was kept: ")
    assert (Path(made.path) / "a.txt").exists()


def test_a_worktree_that_somebody_removed_is_told_as_gone(repository: Path) -> None:
    made = create(repository)
    run_git(repository, "worktree", "remove", "-f", "-f", made.path)
    with pytest.raises(WorktreeGone):
        inspect_worktree(made)
    outcome = finish_worktree(made, UMASK)
    assert (outcome.kept, outcome.why) == (False, f"The worktree {made.path} is not there any more.")
    assert list_branches(repository) == ["main"], "nothing was committed to its branch"


def test_a_branch_that_is_checked_out_elsewhere_stays(repository: Path, tmp_path: Path) -> None:
    made = create(repository)
    run_git(made.path, "checkout", "-q", "--detach")
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "side"), "worktree-one")
    assert not finish_worktree(made, UMASK).kept
    assert sorted(list_branches(repository)) == ["main", "worktree-one"]


def test_a_repository_with_submodules_has_worktrees_too(repository: Path, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    run_git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    run_git(repository, "commit", "-q", "-m", "submodule")
    made = create(repository)
    assert made.config_problem is not None
    assert not finish_worktree(made, UMASK).kept
    assert not Path(made.path).exists()


def test_a_kept_worktree_is_not_locked_any_more(repository: Path) -> None:
    made = create(repository)
    release_worktree(made)
    release_worktree(made)
    assert [each.lock_reason for each in list_worktrees(str(repository))] == [None, None]


# What a hook makes.


def test_a_worktree_of_a_hook_is_taken_only_inside_of_the_repository(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "worktree", "add", "-q", str(repository / "trees" / "x"))
    made = adopt_worktree(str(repository), str(repository / "trees" / "x"), "s_1")
    assert (made.path, made.branch) == (str(repository / "trees" / "x"), "x")
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "outside"))
    (repository / "link").symlink_to(tmp_path / "outside")
    plain = repository / "plain"
    plain.mkdir()
    for path in (tmp_path / "outside", repository / "link", plain, repository, repository / "none", Path("trees/x")):
        with pytest.raises(GitFailed, match="WorktreeCreate hook printed"):
            adopt_worktree(str(repository), str(path), "s_1")


# After a crash.


def test_what_was_half_made_is_taken_back(repository: Path) -> None:
    commit_files(repository, {"b.txt": "two\n", "c/d.txt": "three\n"}, "second")
    whole, half, empty = (create(repository, name) for name in ("whole", "half", "empty"))
    other = create(repository, "other", owner="s_2")
    in_use = create(repository, "used")
    (Path(half.path) / "b.txt").unlink()
    (Path(run_git(half.path, "rev-parse", "--absolute-git-dir")) / "index").unlink()
    for name in ("a.txt", "b.txt", "c/d.txt", ".git"):
        (Path(empty.path) / name).unlink()
    (Path(empty.path) / "c").rmdir()
    removed = remove_half_made(str(repository), "s_1", UMASK, spared=in_use.path)
    assert sorted(removed) == sorted([whole.path, half.path, empty.path])
    assert sorted(list_branches(repository)) == ["main", "worktree-other", "worktree-used"]
    assert Path(other.path).is_dir()
    assert Path(in_use.path).is_dir()


def test_what_was_half_made_is_taken_back_by_its_name_where_its_lock_was_released_meanwhile(repository: Path) -> None:
    made, other = create(repository, "wt-1"), create(repository, "wt-2")
    release_worktree(made)
    release_worktree(other)
    assert remove_half_made(str(repository), "s_1", UMASK) == []
    assert remove_half_made(str(repository), "s_1", UMASK, name="wt-1") == [made.path]
    assert sorted(list_branches(repository)) == ["main", "worktree-wt-2"]
    # Killed once more, after the worktree was gone: its branch is found by the name. One with a commit stays.
    run_git(repository, "worktree", "remove", "-f", "-f", other.path)
    assert remove_half_made(str(repository), "s_1", UMASK, name="wt-2") == []
    assert list_branches(repository) == ["main"]
    third = create(repository, "wt-3")
    commit_files(Path(third.path), {"b.txt": "two\n"}, "second")
    run_git(repository, "worktree", "remove", "-f", "-f", third.path)
    remove_half_made(str(repository), "s_1", UMASK, name="wt-3")
    assert sorted(list_branches(repository)) == ["main", "worktree-wt-3"]


def test_one_in_which_something_was_done_is_kept_after_a_crash(repository: Path) -> None:
    made = create(repository)
    add_untracked(Path(made.path))
    assert remove_half_made(str(repository), "s_1", UMASK) == []
    assert (Path(made.path) / "b.txt").exists()
    assert all(each.lock_reason is None for each in list_worktrees(str(repository)))


def test_a_git_whose_daemon_died_is_waited_for(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lock until it ends: what it makes is not taken away below it."""
    create(repository)
    monkeypatch.setattr("ostler.server.worktrees.worktree_folder._LOCK_SECONDS", 0.1)
    with_lock = subprocess.Popen(
        ["flock", str(repository / ".ostler" / "worktrees"), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert with_lock.stdin is not None
    assert with_lock.stdout is not None
    with_lock.stdin.write(b"x")
    with_lock.stdin.flush()
    with_lock.stdout.read(1)
    assert "is being made or removed" in expect_refusal(lambda: remove_half_made(str(repository), "s_1", UMASK))
    # It may be before its first entry: that there is none yet for an owner says nothing.
    assert "is being made or removed" in expect_refusal(lambda: remove_half_made(str(repository), "s_2", UMASK))
    with_lock.communicate()
    assert len(remove_half_made(str(repository), "s_1", UMASK)) == 1


def test_nothing_here_removes_files_by_itself() -> None:
    """No `rm -rf`, in whatever form: only git removes a work tree."""
    folder = Path(worktrees.__file__).parent
    source = "\n".join(path.read_text() for path in sorted(folder.glob("*.py")))
    assert "rmtree" not in source
    assert "shutil" not in source
    assert "unlink(" not in source
    assert shutil.which("git") is not None

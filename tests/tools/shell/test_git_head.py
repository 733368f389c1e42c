"""What a command did to a repository without printing it: read from the reflog, by real git."""

import os
from typing import Any

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.git_head import ReflogSnapshot, may_move_head, read_reflog_since, snapshot_reflogs
from tests.support.tool_calls import Session
from tests.tools.shell.test_git_effects import GIT_IDENTITY, is_head, read_head, repository, run_for_git_facts

__all__ = ["repository"]
pytestmark = pytest.mark.anyio
BASH = Bash()


@pytest.mark.parametrize(
    "command",
    [
        "git commit -q --allow-empty -m x",
        "git commit --allow-empty -m x >/dev/null 2>&1",
        "git commit --allow-empty -m x | tail -n 1 >/dev/null",
        "git -C . commit --quiet --allow-empty -m x",
        "mkdir -p sub && cd sub && git commit -q --allow-empty -m x",
        "git commit -q --allow-empty -m one && git commit -q --allow-empty -m two",
        "git checkout -q --detach && git commit -q --allow-empty -m x",
    ],
)
async def test_a_commit_that_says_nothing_is_told(repository: Session, command: str) -> None:
    assert await is_head(repository, await run_for_git_facts(repository, command), "committed")


async def test_the_first_commit_and_those_of_a_worktree_and_of_another_folder(session: Session) -> None:
    await session.expect_result(BASH, command=f"git init -q . && {GIT_IDENTITY}")
    assert await is_head(session, await run_for_git_facts(session, "git commit -q --allow-empty -m x"), "committed")
    await session.expect_result(BASH, command="git worktree add -q side -b side")
    facts = await run_for_git_facts(session, "git -C side commit -q --allow-empty -m y")
    assert facts is not None
    assert facts["commit"]["sha"] == await read_head(session, "side")


async def test_quiet_ones_of_the_other_kinds(repository: Session) -> None:
    assert await is_head(
        repository, await run_for_git_facts(repository, "git commit -q --amend --allow-empty -m y"), "amended"
    )
    make = "git checkout -q -b {0} && echo {0} >{0} && git add {0} && git commit -q -m {0} && git checkout -q main"
    for name in ("pick", "fast", "slow"):
        await repository.expect_result(BASH, command=make.format(name))
    picked = await run_for_git_facts(repository, "git cherry-pick pick >/dev/null")
    assert await is_head(repository, picked, "cherry-picked")
    assert await run_for_git_facts(repository, "git merge -q slow -m m") == {
        "branch": {"ref": "slow", "action": "merged"}
    }
    await repository.expect_result(BASH, command="git checkout -q fast")
    assert await run_for_git_facts(repository, "git rebase -q main") == {"branch": {"ref": "main", "action": "rebased"}}


@pytest.mark.parametrize(
    "command",
    [
        "git commit -q -m 'nothing to commit' >/dev/null; true",
        "git merge -q main",
        "git rebase -q main",
        "git cherry-pick main >/dev/null 2>&1; git cherry-pick --abort; true",
        "git checkout -q -b other; echo git commit",
        "git commit --dry-run -q --allow-empty -m x; true",
    ],
)
async def test_what_moved_nothing_is_not_told(repository: Session, command: str) -> None:
    assert await run_for_git_facts(repository, command) is None


async def test_what_happened_before_is_not_this_commands(repository: Session) -> None:
    folder = str(repository.folder)
    before = snapshot_reflogs("git commit", folder)
    await repository.expect_result(BASH, command="git commit -q --allow-empty -m x")
    [move] = read_reflog_since("git commit", [folder], before)
    assert (move.message, move.sha) == ("commit: x", await read_head(repository))
    assert read_reflog_since("git commit", [folder], snapshot_reflogs("git commit", folder)) == []


async def test_a_repository_that_the_command_made_itself(session: Session) -> None:
    command = f"mkdir new && cd new && git init -q . && {GIT_IDENTITY} && git commit -q --allow-empty -m x"
    facts = await run_for_git_facts(session, command)
    session.change_view(shell_folder=str(session.folder / "new"))
    assert await is_head(session, facts, "committed")


@pytest.mark.parametrize("odd", ["fifo", "link", "folder", "rubbish", "gone"])
async def test_an_odd_repository_holds_nobody_up(session: Session, odd: str) -> None:
    reflog = session.folder / ".git" / "logs" / "HEAD"
    reflog.parent.mkdir(parents=True)
    odd_ones: dict[str, Any] = {
        "fifo": lambda: os.mkfifo(reflog),
        "link": lambda: reflog.symlink_to("/dev/zero"),
        "folder": reflog.mkdir,
        "rubbish": lambda: reflog.write_bytes(b"\xff\0" * 100_000),
        "gone": lambda: None,
    }
    odd_ones[odd]()
    folder = str(session.folder)
    assert read_reflog_since("git -C sub commit", [folder], snapshot_reflogs("git -C sub commit", folder)) == []
    assert read_reflog_since("git commit", [folder], ReflogSnapshot({}, 0)) == []


def test_most_commands_need_no_look() -> None:
    assert may_move_head("cd x && git -c a=b commit -q")
    assert not may_move_head("git status; ls")
    assert not may_move_head("commit git")

"""What a command did to a repository without a word: read from the repository's own journal, by real git."""

import os
from typing import Any

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.git_head import Journals, journals_before, may_move, moves_since
from tests.support.tool_calls import Session
from tests.tools.shell.test_git_effects import WHO, changes, head, is_head, repository

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
    assert await is_head(repository, await changes(repository, command), "committed")


async def test_the_first_commit_and_those_of_a_worktree_and_of_another_folder(session: Session) -> None:
    await session.done(BASH, command=f"git init -q . && {WHO}")
    assert await is_head(session, await changes(session, "git commit -q --allow-empty -m x"), "committed")
    await session.done(BASH, command="git worktree add -q side -b side")
    told = await changes(session, "git -C side commit -q --allow-empty -m y")
    assert told is not None
    assert told["commit"]["sha"] == await head(session, "side")


async def test_quiet_ones_of_the_other_kinds(repository: Session) -> None:
    assert await is_head(repository, await changes(repository, "git commit -q --amend --allow-empty -m y"), "amended")
    make = "git checkout -q -b {0} && echo {0} >{0} && git add {0} && git commit -q -m {0} && git checkout -q main"
    for name in ("pick", "fast", "slow"):
        await repository.done(BASH, command=make.format(name))
    picked = await changes(repository, "git cherry-pick pick >/dev/null")
    assert await is_head(repository, picked, "cherry-picked")
    assert await changes(repository, "git merge -q slow -m m") == {"branch": {"ref": "slow", "action": "merged"}}
    await repository.done(BASH, command="git checkout -q fast")
    assert await changes(repository, "git rebase -q main") == {"branch": {"ref": "main", "action": "rebased"}}


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
    assert await changes(repository, command) is None


async def test_what_happened_before_is_not_this_commands(repository: Session) -> None:
    folder = str(repository.folder)
    before = journals_before("git commit", folder)
    await repository.done(BASH, command="git commit -q --allow-empty -m x")
    [move] = moves_since("git commit", [folder], before)
    assert (move.what, move.sha) == ("commit: x", await head(repository))
    assert moves_since("git commit", [folder], journals_before("git commit", folder)) == []


async def test_a_repository_that_the_command_made_itself(session: Session) -> None:
    command = f"mkdir new && cd new && git init -q . && {WHO} && git commit -q --allow-empty -m x"
    told = await changes(session, command)
    session.inside(shell_folder=str(session.folder / "new"))
    assert await is_head(session, told, "committed")


@pytest.mark.parametrize("odd", ["fifo", "link", "folder", "rubbish", "gone"])
async def test_an_odd_repository_holds_nobody_up(session: Session, odd: str) -> None:
    journal = session.folder / ".git" / "logs" / "HEAD"
    journal.parent.mkdir(parents=True)
    odd_ones: dict[str, Any] = {
        "fifo": lambda: os.mkfifo(journal),
        "link": lambda: journal.symlink_to("/dev/zero"),
        "folder": journal.mkdir,
        "rubbish": lambda: journal.write_bytes(b"\xff\0" * 100_000),
        "gone": lambda: None,
    }
    odd_ones[odd]()
    folder = str(session.folder)
    assert moves_since("git -C sub commit", [folder], journals_before("git -C sub commit", folder)) == []
    assert moves_since("git commit", [folder], Journals({}, 0)) == []


def test_most_commands_need_no_look() -> None:
    assert may_move("cd x && git -c a=b commit -q")
    assert not may_move("git status; ls")
    assert not may_move("commit git")

"""What a command did to a repository is read from what really ran: real git, and what gh, glab and curl print."""

import time
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.git_effects import find_git_changes
from ostler.tools.tool import GitChanged
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
BASH = Bash()
GIT_IDENTITY = "git config user.name A && git config user.email a@b.c && git config commit.gpgsign false"


async def run_for_git_facts(session: Session, command: str) -> dict[str, Any] | None:
    """Runs a command that must succeed; returns what it is reported to have done to the repository."""
    result = await session.expect_result(BASH, command=command)
    assert not result.is_error, result.output.stdout
    found = [change.facts for change in result.changes if isinstance(change, GitChanged)]
    facts = result.output.git.model_dump(exclude_none=True) if result.output.git else None
    assert (found[0] if found else None) == facts
    return facts


async def read_head(session: Session, ref: str = "HEAD") -> str:
    return (await session.expect_text(BASH, command=f"git rev-parse {ref}")).strip()


@pytest.fixture
async def repository(session: Session) -> Session:
    await session.expect_result(
        BASH, command=f"git init -q -b main . && {GIT_IDENTITY} && git commit -q --allow-empty -m first"
    )
    return session


async def is_head(session: Session, facts: dict[str, Any] | None, kind: str) -> bool:
    assert facts is not None
    assert facts["commit"]["kind"] == kind
    return (await read_head(session)).startswith(facts["commit"]["sha"])


async def test_the_first_commit_of_a_repository(session: Session) -> None:
    await session.expect_result(BASH, command=f"git init -q . && {GIT_IDENTITY}")
    facts = await run_for_git_facts(session, "echo 1 >f; git add f && git commit -m 'the [first] one'")
    assert await is_head(session, facts, "committed")


@pytest.mark.parametrize(
    "command",
    [
        "git commit --allow-empty -m x",
        "git -c user.name=B -C . --no-pager commit --allow-empty -m x",
        "git commit --allow-empty -m \"$(cat <<'END'\na long\nmessage [main 0000000] of it\nEND\n)\"",
        "cd . && env A=1 git commit --allow-empty -am x && git status",
        "git checkout -q --detach && git commit --allow-empty -m x",
        "git checkout -q -b 'feature/a b' 2>/dev/null || git checkout -q -b feature/a; git commit --allow-empty -m x",
        "sh -c 'git commit --allow-empty -m x'",
    ],
)
async def test_a_commit_however_it_is_written(repository: Session, command: str) -> None:
    assert await is_head(repository, await run_for_git_facts(repository, command), "committed")


async def test_amended_and_cherry_picked(repository: Session) -> None:
    assert await is_head(
        repository, await run_for_git_facts(repository, "git commit --amend --allow-empty -m y"), "amended"
    )
    await repository.expect_result(
        BASH, command="git checkout -q -b other && echo 1 >f && git add f && git commit -q -m pick"
    )
    await repository.expect_result(BASH, command="git checkout -q main")
    assert await is_head(repository, await run_for_git_facts(repository, "git cherry-pick other"), "cherry-picked")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git log -1",
        "git commit --dry-run --allow-empty -m x; true",
        "echo git commit; echo '[main 1234567] no'",
        "git cherry-pick --abort; true",
        "git merge main",
        "git rebase main",
        "git push; true",
        "grep -r 'git push' . ; true",
    ],
)
async def test_what_changes_nothing_is_not_told(repository: Session, command: str) -> None:
    assert await run_for_git_facts(repository, command) is None


async def test_a_failure_is_not_told(repository: Session) -> None:
    result = await repository.expect_result(BASH, command="git commit --allow-empty -m x && false")
    assert result.is_error
    assert result.output.git is None
    assert not result.changes


@pytest.fixture
async def remote(repository: Session, tmp_path: Path) -> Session:
    await repository.expect_result(
        BASH, command=f"git init -q --bare {tmp_path}/origin.git && git remote add origin {tmp_path}/origin.git"
    )
    return repository


async def test_a_branch_that_is_pushed(remote: Session) -> None:
    assert await run_for_git_facts(remote, "git push -u origin main") == {"push": {"branch": "main"}}
    facts = await run_for_git_facts(remote, "git commit --allow-empty -m x && git push")
    assert facts is not None
    assert facts["push"] == {"branch": "main"}
    assert facts["commit"]["kind"] == "committed"
    assert await run_for_git_facts(remote, "git push") is None, "there was nothing to push"
    assert await run_for_git_facts(remote, "git push origin main:refs/heads/feature/x") == {
        "push": {"branch": "feature/x"}
    }
    await remote.expect_result(BASH, command="git commit -q --amend --allow-empty -m other")
    assert await run_for_git_facts(remote, "git push --force origin HEAD:main 2>&1") == {"push": {"branch": "main"}}
    assert await run_for_git_facts(remote, "git push --porcelain origin HEAD:topic") == {"push": {"branch": "topic"}}
    assert await run_for_git_facts(remote, "git push -q origin HEAD:silent") == {"push": {"branch": "silent"}}
    assert await run_for_git_facts(remote, "git push origin --delete topic") is None
    assert await run_for_git_facts(remote, "git push --dry-run origin HEAD:never") is None


async def test_n_means_no_commit_for_a_cherry_pick_alone(repository: Session) -> None:
    make = "git checkout -q -b {0} && echo {0} >{0} && git add {0} && git commit -q -m {0} && git checkout -q main"
    await repository.expect_result(BASH, command=f"{make.format('side')}; {make.format('other')}")
    assert await run_for_git_facts(repository, "git merge -n side") == {"branch": {"ref": "side", "action": "merged"}}
    assert await run_for_git_facts(repository, "git cherry-pick -n other") is None
    assert await run_for_git_facts(repository, "git reset -q --hard && git cherry-pick -xn other") is None
    facts = await run_for_git_facts(repository, "git reset -q --hard && git checkout -q other && git rebase -n main")
    assert facts == {"branch": {"ref": "main", "action": "rebased"}}


async def test_a_branch_that_is_merged_or_rebased(repository: Session) -> None:
    make = "git checkout -q -b {0} && echo {0} >{0} && git add {0} && git commit -q -m {0} && git checkout -q main"
    await repository.expect_result(BASH, command=make.format("fast"))
    assert await run_for_git_facts(repository, "git merge fast") == {"branch": {"ref": "fast", "action": "merged"}}
    assert await run_for_git_facts(repository, "git merge fast") is None, "it is up to date"
    await repository.expect_result(BASH, command=make.format("slow"))
    await repository.expect_result(BASH, command="git commit -q --allow-empty -m more")
    facts = await run_for_git_facts(repository, "git merge --no-ff -m 'a merge' slow")
    assert facts == {"branch": {"ref": "slow", "action": "merged"}}
    await repository.expect_result(
        BASH, command="git checkout -q -b side HEAD~1 && echo 1 >s && git add s && git commit -q -m s"
    )
    assert await run_for_git_facts(repository, "git rebase main") == {"branch": {"ref": "main", "action": "rebased"}}
    assert await run_for_git_facts(repository, "git rebase main") is None, "it is up to date"
    facts = await run_for_git_facts(repository, "git rebase --onto main~1 main side")
    assert facts == {"branch": {"ref": "main~1", "action": "rebased"}}


def write_program(session: Session, name: str, printed: str) -> None:
    """Writes a program of that name, which prints what the real one prints."""
    folder = session.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    (folder / name).chmod(0o755)
    session.change_view(environment={"PATH": f"{folder}:/usr/bin:/bin"})


URL = "https://github.com/owner/repo/pull/12"


@pytest.mark.parametrize(
    ("command", "printed", "facts"),
    [
        (
            "gh pr create --title T --body B",
            f"Creating pull request for x into main in owner/repo\n\n{URL}",
            {"number": 12, "url": URL, "action": "created"},
        ),
        ("gh pr edit 12 --title T", URL, {"number": 12, "url": URL, "action": "edited"}),
        (
            "gh pr merge 12 --squash",
            "✓ Squashed and merged pull request owner/repo#12 (T)",
            {"number": 12, "action": "merged"},
        ),
        ("gh pr merge", "✓ Merged pull request #7 (A #3 thing)", {"number": 7, "action": "merged"}),
        (
            "gh pr comment 12 --body hi",
            f"{URL}#issuecomment-1",
            {"number": 12, "url": URL, "action": "commented"},
        ),
        ("gh pr close 12", "✓ Closed pull request owner/repo#12 (T)", {"number": 12, "action": "closed"}),
        (
            "gh pr ready",
            '✓ Pull request owner/repo#12 is marked as "ready for review"',
            {"number": 12, "action": "ready"},
        ),
        (f"gh pr close {URL}", "", {"number": 12, "url": URL, "action": "closed"}),
        (
            "glab mr create --fill",
            "!5 T (x)\n https://gitlab.com/g/sub/r/-/merge_requests/5\n",
            {"number": 5, "url": "https://gitlab.com/g/sub/r/-/merge_requests/5", "action": "created"},
        ),
        (
            "curl -s -X POST -H 'a: b' https://api.github.com/repos/owner/repo/pulls -d '{}'",
            f'{{"url": "https://api.github.com/repos/owner/repo/pulls/12", "html_url": "{URL}", "number": 12}}',
            {"number": 12, "url": URL, "action": "created"},
        ),
        (
            "curl --data @f https://gitlab.com/api/v4/projects/1/merge_requests",
            '{"iid":5,"web_url":"https://gitlab.com/g/r/-/merge_requests/5"}',
            {"number": 5, "url": "https://gitlab.com/g/r/-/merge_requests/5", "action": "created"},
        ),
        (
            "gh api repos/owner/repo/pulls -f title=T -f head=x",
            f'{{"html_url": "{URL}"}}',
            {"number": 12, "url": URL, "action": "created"},
        ),
    ],
)
async def test_pull_requests(session: Session, command: str, printed: str, facts: dict[str, Any]) -> None:
    write_program(session, command.split(maxsplit=1)[0], printed)
    assert await run_for_git_facts(session, command) == {"pr": facts}


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("gh pr view 12", URL),
        ("gh pr list", URL),
        ("gh pr create --help", "Usage"),
        ("curl https://api.github.com/repos/owner/repo/pulls", f'[{{"html_url": "{URL}"}}]'),
        ("curl -X GET -d a=b https://api.github.com/repos/owner/repo/pulls", f'{{"html_url": "{URL}"}}'),
        ("curl -X POST -d a=b https://example.com/other", f'{{"html_url": "{URL}"}}'),
        ("gh api repos/owner/repo/pulls", f'[{{"html_url": "{URL}"}}]'),
    ],
)
async def test_what_only_looks_at_pull_requests_is_not_told(session: Session, command: str, printed: str) -> None:
    write_program(session, command.split(maxsplit=1)[0], printed)
    assert await run_for_git_facts(session, command) is None


@try_each("piece", ["http://", "https://a/pull/", "[a", " ", "* ", "#", "a/a#", '"html_url":"http://', "\n* "])
def test_what_was_printed_is_read_at_once_whatever_it_is(piece: str) -> None:
    output = piece * (1_000_000 // len(piece))
    for command in ("git commit; git push; git merge x; git rebase y", "gh pr merge", "curl -d x /repos/a/b/pulls"):
        before = time.thread_time()
        find_git_changes(command, output)
        assert time.thread_time() - before < 0.1


def test_a_command_without_git_is_not_even_parsed() -> None:
    assert find_git_changes("((" * 10_000, "[main 1234567] x") is None

"""Protected names in a writable workspace, present or absent."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.fs.protected_paths import find_protection_reason
from ostler.tools.sandbox import (
    NotProtectable,
    hold_placeholders,
    hold_workspace,
    rehold_placeholders,
    release_noted_placeholders,
    release_placeholders,
    wrap,
)
from ostler.tools.sandbox.protected_names import HOME_NAMES, PARTLY_PROTECTED, PARTLY_PROTECTED_IN_HOME, PROJECT_NAMES
from tests.tools.sandbox.sandbox_harness import (
    GOT_IT,
    CommandResult,
    SandboxHarness,
    assert_refused,
    build_user_change,
    find_python,
    get_support,
)

ABSENT = (*PROJECT_NAMES, *(f"{folder}/{name}" for folder, names in PARTLY_PROTECTED.items() for name in names))


def init_repository(sandbox: SandboxHarness) -> Path:
    """Creates a real repository, owned by the user that runs commands."""
    assert sandbox.run_outside("git init -q . && git config user.email a@b && git config user.name n").code == 0
    return sandbox.project / ".git"


def test_the_workspace_is_writable(sandbox: SandboxHarness) -> None:
    done = sandbox.run("echo x > file && mkdir -p a/b && mv file a/b/ && ln a/b/file other && rm other && cat a/b/file")
    assert done.output == "x\n"
    assert (sandbox.project / "a/b/file").read_text() == "x\n"


def test_every_protected_name_is_a_guarded_one() -> None:
    homes = [f"{folder}/{name}" for folder, names in PARTLY_PROTECTED_IN_HOME.items() for name in names]
    assert [name for name in (*ABSENT, *HOME_NAMES, *homes) if not find_protection_reason(f"/{name}")] == []


TRY_ALL = r"""
import contextlib, os, sys

def write(path):
    with open(path, "w") as file:
        file.write("x\n")

def attempt(name, others):
    yield lambda: os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    yield lambda: write(name)
    yield lambda: os.makedirs(name, exist_ok=True)
    yield lambda: write(f"{name}/file")
    if others:
        yield lambda: os.rename(name, "away")
        yield lambda: os.rmdir(name)
        yield lambda: os.symlink("/etc/passwd", name)
        yield lambda: write("new")
        yield lambda: os.rename("new", name)
        yield lambda: os.unlink("new")

for name in sys.argv[2:]:
    for each in attempt(name, sys.argv[1] == "others"):
        with contextlib.suppress(OSError):
            each()
"""
"""One program for all names: a program for every attempt would be 1,500 processes."""


def test_an_absent_protected_name_cannot_be_created(sandbox: SandboxHarness) -> None:
    program = [find_python(), "-c", TRY_ALL]
    assert sandbox.run_arguments([*program, "others", *ABSENT]) == CommandResult(0, "")
    assert os.listdir(sandbox.project) == [], "something is left of it"
    assert sandbox.run_process([*program, "create", *ABSENT], sandbox.build_variables()) == CommandResult(0, "")
    assert [name for name in ABSENT if not (sandbox.project / name).exists()] == []


def test_a_present_protected_file_cannot_be_written_replaced_or_removed(sandbox: SandboxHarness) -> None:
    for name in (".mcp.json", ".npmrc", ".GitModules", ".claude/settings.local.json", ".cargo/credentials.toml"):
        sandbox.put_file(f"project/{name}", "kept\n")
        attempts = (
            f"echo x > {name}",
            f"rm {name}",
            f"mv {name} away",
            f"echo > n; mv -f n {name}",
            f"ln {name} other && echo x > other",
        )
        script = "; ".join(f"{attempt} && echo {GOT_IT}" for attempt in attempts)
        last = assert_refused(sandbox, f"{script}; echo all were tried", works_outside=False)
        assert "all were tried" in last.output
        assert (sandbox.project / name).read_text() == "kept\n"
        assert_refused(sandbox, f"echo x > {name} && rm {name} && echo {GOT_IT}")


def test_git_cannot_be_told_what_to_run(sandbox: SandboxHarness) -> None:
    git = init_repository(sandbox)
    before = (git / "config").read_text()
    for attempt in ("git config core.fsmonitor x", "echo x > .git/hooks/pre-commit", "echo ../evil > .git/commondir"):
        assert_refused(sandbox, f"{attempt} && echo {GOT_IT}", works_outside=False)
    assert (git / "config").read_text() == before
    assert not (git / "commondir").exists()
    assert_refused(sandbox, f"echo x > .git/hooks/pre-commit && git config core.fsmonitor x && echo {GOT_IT}")


def test_whoever_creates_commondir_chooses_what_git_runs(sandbox: SandboxHarness) -> None:
    """Why all of `.git` is read-only, and not only its config and hooks."""
    init_repository(sandbox)
    sandbox.run_outside("cp -r .git evil && git config -f evil/config core.fsmonitor 'touch owned; false'")
    sandbox.run_outside("echo ../evil > .git/commondir; git status")
    assert (sandbox.project / "owned").exists()


def test_a_command_that_runs_git_may_commit_and_leaves_nothing_behind(sandbox: SandboxHarness) -> None:
    git = init_repository(sandbox)
    before = sorted(os.listdir(git))
    done = sandbox.run(
        "(echo 1 > a; git add a; git commit -m first; git checkout -b side; echo 2 > a; git commit -am second;"
        "git tag v1; git checkout -; git merge side; echo 3 > a; git stash; git stash pop;"
        "git rebase --autostash HEAD~1; git gc) > /dev/null 2>&1; git status --short && git log --oneline | wc -l",
        sandbox.build_profile(git_writes=True),
    )
    assert done == CommandResult(0, " M a\n2\n")
    assert sandbox.run_outside("git fsck --strict && git log --format=%s -1").output.endswith("second\n")
    more = {"AUTO_MERGE", "COMMIT_EDITMSG", "ORIG_HEAD", "index", "logs", "packed-refs", "a"}
    assert {*os.listdir(git), *os.listdir(sandbox.project)} - {*before, ".git"} <= more


ESCAPES = {
    "its config": "git config core.fsmonitor x",
    "another config": "echo '[core] fsmonitor = x' > .git/config.worktree",
    "a hook": "echo x > .git/hooks/pre-commit",
    "another folder for hooks": "mv .git/hooks .git/h2",
    "commondir": "echo ../evil > .git/commondir",
    "commondir, by another file": "echo ../e > .git/x.lock && mv -f .git/x.lock .git/commondir || ! rm .git/x.lock",
    "commondir, removed first": "rm -f .git/commondir && mkdir .git/commondir",
    "a filter": "mkdir -p .git/info && echo '* filter=x' > .git/info/attributes",
    "a submodule": "mkdir -p .git/modules/x",
    "another worktree": "mkdir -p .git/worktrees/x",
    "the folder itself": "mv .git g2 && mkdir .git",
}


def test_git_cannot_be_told_what_to_run_by_a_command_that_may_commit(sandbox: SandboxHarness) -> None:
    git = init_repository(sandbox)
    profile = sandbox.build_profile(git_writes=True)
    before = {path: path.read_bytes() for path in git.rglob("*") if path.is_file()}
    script = "; ".join(f"({attempt}) && echo {GOT_IT} {name}" for name, attempt in ESCAPES.items())
    inside = sandbox.run(f"{script}; echo well", profile).output
    assert GOT_IT not in inside
    assert inside.endswith("well\n")
    assert {path: path.read_bytes() for path in git.rglob("*") if path.is_file()} == before
    for name, attempt in ESCAPES.items():  # each of them would do something outside
        done = sandbox.run_outside(f"cp -r .git copy && ({attempt}) && echo {GOT_IT}; rm -rf .git g2; mv copy .git")
        assert GOT_IT in done.output, name


def test_what_a_command_leaves_in_the_git_folder_beside_gits_own_is_set_aside(sandbox: SandboxHarness) -> None:
    git = init_repository(sandbox)
    profile = sandbox.build_profile(git_writes=True)
    made = (
        "ln -s ../a .git/COMMIT_EDITMSG", "ln -s ../a .git/x.lock", "rm .git/logs/HEAD && ln -s ../../b .git/logs/HEAD",
        "ln -s ../../../c .git/refs/heads/y", "mkdir .git/X", "mkdir .git/rebase-merge && echo x > .git/rebase-merge/z",
    )  # fmt: skip
    script = " && ".join(("git commit -q --allow-empty -m x", "rm .git/COMMIT_EDITMSG", *made))
    assert sandbox.run(script, profile) == CommandResult(0, "")
    for name in ("COMMIT_EDITMSG", "x.lock", "logs/HEAD", "refs/heads/y", "X", "rebase-merge"):
        assert not os.path.lexists(git / name), name
        assert os.path.lexists(sandbox.project / f"set-aside.{os.path.basename(name)}.1"), name
    assert sandbox.run("git commit -q --allow-empty -m y", profile) == CommandResult(0, "")


@pytest.mark.parametrize("layout", ["a link among the logs", "a config for each worktree", "another common folder"])
def test_a_git_folder_with_an_unusual_layout_stays_read_only(sandbox: SandboxHarness, layout: str) -> None:
    git = init_repository(sandbox)
    assert sandbox.run_outside("git commit -q --allow-empty -m x").code == 0
    match layout:
        case "a link among the logs":
            (git / "logs/refs/x").symlink_to("/etc/passwd")
        case "a config for each worktree":
            sandbox.run_outside("git config extensions.worktreeConfig true")
        case _:
            sandbox.run_outside("echo ../.git > .git/commondir")
    profile = sandbox.build_profile(git_writes=True)
    assert_refused(sandbox, f"git commit -q --allow-empty -m y && echo {GOT_IT}", profile)


def test_a_protected_folder_cannot_be_renamed_out_of_the_way(sandbox: SandboxHarness) -> None:
    init_repository(sandbox)
    assert_refused(sandbox, f"mv .git g2 && mkdir .git && echo {GOT_IT}")


def test_the_folder_around_protected_names_cannot_be_renamed(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/.claude/settings.json", "{}")
    inside = assert_refused(sandbox, f"echo x > .claude/notes; mv .claude c2 && echo {GOT_IT}")
    assert "busy" in inside.output
    assert sandbox.run("cat c2/notes .claude/notes").output.count("x\n") == 1


def test_a_protected_name_deeper_down_stays_with_all_folders_above_it(sandbox: SandboxHarness) -> None:
    deep = sandbox.put_file("project/packages/a/.npmrc", "kept\n")
    profile, held = hold_workspace(sandbox.build_profile())
    assert profile.protected == (str(deep),)
    assert release_placeholders(held) == []
    for attempt in ("mv packages p2", "mv packages/a packages/b", "echo x > packages/a/.npmrc"):
        assert_refused(sandbox, f"{attempt} && echo {GOT_IT}", profile, works_outside=False)
    assert sandbox.run("echo x > packages/a/file && echo well", profile).output == "well\n"
    assert deep.read_text() == "kept\n"
    assert_refused(sandbox, f"echo x > packages/a/.npmrc && mv packages p2 && echo {GOT_IT}", profile)


def test_a_protected_name_that_is_a_link_refuses_the_sandbox(sandbox: SandboxHarness) -> None:
    for name in (".claude", ".vscode", ".cursorrules"):
        (sandbox.project / name).symlink_to(sandbox.outside_folder)
        with pytest.raises(NotProtectable, match="is a link"):
            sandbox.run("true")
        (sandbox.project / name).unlink()
    assert sandbox.run("true").code == 0


def test_a_root_that_was_replaced_by_a_link_is_refused(sandbox: SandboxHarness) -> None:
    (sandbox.project / "sub").mkdir()
    both = (str(sandbox.project), str(sandbox.project / "sub"))
    assert sandbox.run("true", sandbox.build_profile(roots=both)).code == 0
    # A command that may write only the outer one plants a link where the inner one was.
    sandbox.run(f"mv sub away; ln -s {sandbox.outside_folder} sub")
    for kind in ("read_only", "workspace"):
        with pytest.raises(NotProtectable, match="not a real path"):
            sandbox.run("echo x > sub/planted", sandbox.build_profile(kind, roots=both))


def test_a_folder_above_a_protected_name_that_was_replaced_by_a_link_is_refused(
    sandbox: SandboxHarness,
) -> None:
    deep = sandbox.put_file("project/packages/a/.npmrc")
    profile = sandbox.build_profile(protected=(str(deep),))
    sandbox.put_file("outside/a/.npmrc")
    sandbox.run_outside(f"mv packages away; ln -s {sandbox.outside_folder} packages")
    with pytest.raises(NotProtectable, match="not a real path"):
        sandbox.run("echo x > packages/planted", profile)


def test_a_folder_cannot_be_made_a_bare_repository(sandbox: SandboxHarness) -> None:
    make = "git init -q --bare new; mv new/* . ; git -c safe.bareRepository=all rev-parse --is-bare-repository"
    assert "true" not in sandbox.run(make).output.splitlines()
    sandbox.run_outside("rm -rf ./*")
    assert "true" in sandbox.run_outside(make).output.splitlines()
    with pytest.raises(NotProtectable, match="bare"):
        sandbox.run("true")


def test_where_the_workspace_is_the_home_folder_its_start_up_files_are_protected(
    sandbox: SandboxHarness,
) -> None:
    sandbox.put_file("project/.bashrc", "kept\n")
    sandbox.put_file("project/.ssh/authorized_keys", "kept\n")
    sandbox.put_file("project/.config/app", "kept\n")
    profile = sandbox.build_profile(home=str(sandbox.project))
    for name in (".bashrc", ".ssh/authorized_keys", ".profile", ".zshenv", ".config/systemd/user/a", ".aws/config"):
        sandbox.run(f"mkdir -p $(dirname {name}); echo x > {name}; rm -rf {name}; mv .config c2; mv .ssh s2", profile)
    assert (sandbox.project / ".bashrc").read_text() == "kept\n"
    assert (sandbox.project / ".ssh/authorized_keys").read_text() == "kept\n"
    assert sorted(os.listdir(sandbox.project)) == [".bashrc", ".config", ".ssh"]
    assert os.listdir(sandbox.project / ".config") == ["app"]
    assert_refused(sandbox, f"echo x > .profile && mv .config c2 && echo {GOT_IT}", profile)


def test_git_neither_shows_nor_adds_the_placeholders(sandbox: SandboxHarness) -> None:
    init_repository(sandbox)
    held = hold_placeholders(sandbox.build_profile())
    try:
        assert len(held) > 20
        assert sandbox.run_outside("echo x > a; git add -A && git status --porcelain").output == "A  a\n"
        assert "A  a" in sandbox.run("git status --porcelain").output
    finally:
        release_placeholders(held)
    assert sorted(os.listdir(sandbox.project)) == [".git", "a"]


def test_a_placeholder_stays_while_another_command_needs_it(sandbox: SandboxHarness) -> None:
    first, second = (
        hold_placeholders(sandbox.build_profile()),
        hold_placeholders(sandbox.build_profile()),
    )
    release_placeholders(first)
    assert (sandbox.project / ".vscode").is_dir()
    assert_refused(sandbox, f"rmdir .vscode && echo {GOT_IT}", works_outside=False)
    release_placeholders(second)
    assert os.listdir(sandbox.project) == []


def test_without_its_placeholder_a_running_command_would_lose_the_protection(sandbox: SandboxHarness) -> None:
    """Why they are counted."""
    attempt = "read -r REPLY; mkdir .vscode && echo " + GOT_IT
    with sandbox.wrap_arguments(["/bin/bash", "-c", f"echo began; {attempt}"], filtered=False) as wrapped:
        child = subprocess.Popen(
            [*build_user_change(sandbox.user), *wrapped],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        (sandbox.project / ".vscode").rmdir()
        assert GOT_IT in child.communicate("\n")[0]


def test_what_a_person_put_into_a_placeholder_is_not_removed(sandbox: SandboxHarness) -> None:
    held = hold_placeholders(sandbox.build_profile())
    sandbox.put_file("project/.vscode/tasks.json", "mine")
    release_placeholders(held)
    assert os.listdir(sandbox.project) == [".vscode"]


def test_an_empty_folder_that_a_person_made_is_not_removed(sandbox: SandboxHarness) -> None:
    (sandbox.project / ".vscode").mkdir()
    release_placeholders(hold_placeholders(sandbox.build_profile()))
    assert os.listdir(sandbox.project) == [".vscode"]


def hold_as_dead_daemon(sandbox: SandboxHarness, note: Path, **profile: Any) -> None:
    child = os.fork()
    if child == 0:
        hold_placeholders(sandbox.build_profile(**profile), str(note))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_the_placeholders_that_a_dead_daemon_left_are_removed(sandbox: SandboxHarness, tmp_path: Path) -> None:
    note = tmp_path / "note"
    hold_as_dead_daemon(sandbox, note)
    assert len(os.listdir(sandbox.project)) > 20
    release_noted_placeholders(str(note))
    assert (os.listdir(sandbox.project), note.exists()) == ([], False)


def test_in_a_git_folder_too_what_a_dead_daemon_left_is_removed(sandbox: SandboxHarness, tmp_path: Path) -> None:
    git, note = init_repository(sandbox), tmp_path / "note"
    before = sorted(os.listdir(git))
    hold_as_dead_daemon(sandbox, note, git_writes=True)
    assert (git / "commondir").read_text() == ".\n"
    assert sandbox.run_outside("git commit -q --allow-empty -m x && rm .git/COMMIT_EDITMSG && git status").code == 0
    (git / "logs/link").symlink_to("x")
    release_noted_placeholders(str(note))
    assert sorted(os.listdir(git)) == sorted([*before, "index", "logs"])
    assert sorted(os.listdir(git / "logs")) == ["HEAD", "refs"]
    assert not note.exists()


def test_the_placeholders_of_a_command_that_still_runs_are_held_again(sandbox: SandboxHarness, tmp_path: Path) -> None:
    runs, ended = tmp_path / "runs", tmp_path / "ended"
    hold_as_dead_daemon(sandbox, runs)
    hold_as_dead_daemon(sandbox, ended)
    held = rehold_placeholders(str(runs))
    release_noted_placeholders(str(ended))
    assert len(os.listdir(sandbox.project)) > 20, "another one needs them"
    assert held is not None
    release_placeholders(held)
    assert (os.listdir(sandbox.project), runs.exists()) == ([], False)


@pytest.mark.parametrize("content", ["", '["/'])
def test_a_note_that_was_cut_short_says_nothing(sandbox: SandboxHarness, tmp_path: Path, content: str) -> None:
    note = tmp_path / "note"
    note.write_text(content)
    assert rehold_placeholders(str(note)) is None
    release_noted_placeholders(str(note))
    assert not note.exists()


def test_a_profile_that_is_not_held_is_refused(sandbox: SandboxHarness) -> None:
    with pytest.raises(NotProtectable, match="held first"):
        wrap(["/bin/true"], sandbox.build_profile(), get_support(), filter_descriptor=None)
    assert os.listdir(sandbox.project) == []

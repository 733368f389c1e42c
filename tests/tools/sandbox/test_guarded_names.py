"""Guarded names inside the folders of a workspace: what a command does to them does not stay there to act."""

import os
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.fs.protected_paths import find_protection_reason
from ostler.tools.sandbox import (
    NotProtectable,
    guarded_names,
    hold_workspace,
    protection,
    release_noted_placeholders,
    release_placeholders,
)
from tests.tools.sandbox.sandbox_harness import GOT_IT, SandboxHarness, assert_refused


def list_guarded(sandbox: SandboxHarness) -> list[str]:
    """Guarded names that exist now, found in another way than the daemon's."""
    found = []
    for folder, folders, files in os.walk(sandbox.project):
        for name in (*folders, *files):
            place = str(Path(folder, name)).removeprefix(str(sandbox.project))
            if find_protection_reason(place):
                found.append(place.removeprefix("/"))
    return sorted(found)


CREATED = {
    "a file": "echo x > pkg/.npmrc",
    "in a new folder": "mkdir -p new/deep && echo x > new/deep/.envrc",
    "in another case": "echo x > pkg/.NpmRc; mkdir pkg/.GIT; echo x > pkg/.GIT/config; echo x > .NPMRC",
    "a repository": "mkdir -p pkg/.git && echo x > pkg/.git/config",
    "a file called .git": "echo 'gitdir: ../evil' > pkg/.git",
    "a real repository": "git init -q pkg",
    "moved there": "echo x > plain && mv plain pkg/.envrc",
    "copied with its folder": "mkdir -p t/.vscode && echo x > t/.vscode/tasks.json && cp -r t u",
    "a folder moved into place": "mkdir tmpl && echo '{}' > tmpl/settings.json && mv tmpl pkg/.claude",
    "a hard link": "echo x > plain && ln plain pkg/.npmrc",
    "a link": "echo x > plain && ln -s ../plain pkg/.npmrc",
    "a dangling link": "ln -s ../nothing pkg/.envrc",
    "a link around it": "mkdir tmpl && echo '{}' > tmpl/settings.json && ln -s ../tmpl pkg/.claude",
    "below dependencies": "mkdir -p node_modules/a && echo x > node_modules/a/.npmrc",
    "in a closed folder": "mkdir -p closed/in && echo x > closed/in/.npmrc && chmod 0 closed",
    "in a folder that cannot be written": "echo x > pkg/.npmrc && chmod 555 pkg",
    "unreadable": "echo x > pkg/.npmrc && chmod 0 pkg/.npmrc",
    "many": "mkdir -p many/{1..100}; for each in many/*; do echo x > $each/.npmrc; done",
    "with an old time": "echo x > pkg/.npmrc; touch -d 2001-01-01 pkg/.npmrc pkg",
}


@pytest.mark.parametrize("how", CREATED)
def test_a_guarded_name_that_a_command_makes_in_a_folder_is_not_there_afterwards(
    sandbox: SandboxHarness, how: str
) -> None:
    sandbox.put_file("project/pkg/file")
    done = sandbox.run(f"{CREATED[how]}; echo done")
    assert "done" in done.output, done.output
    assert list_guarded(sandbox) == []
    assert not os.path.islink(sandbox.project / "pkg/.claude")
    assert (sandbox.project / "pkg/file").exists()


def test_what_is_set_aside_is_told_and_kept(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/pkg/file")
    profile, held = hold_workspace(sandbox.build_profile())
    assert profile.protected == ()
    sandbox.run_outside("echo mine > pkg/.npmrc; mkdir -p pkg/.vscode; echo x > pkg/.vscode/tasks.json")
    lines = release_placeholders(held)
    project = sandbox.project
    assert lines == [
        f"{project}/pkg/.npmrc is now {project}/pkg/set-aside.npmrc.1",
        f"{project}/pkg/.vscode is now {project}/pkg/set-aside.vscode.1",
    ]
    assert (project / "pkg/set-aside.npmrc.1").read_text() == "mine\n"
    assert (project / "pkg/set-aside.vscode.1/tasks.json").read_text() == "x\n"


CHANGES = (
    "echo x > {}", "echo x >> {}", "rm -f {}", "rm -rf $(dirname {})", "mv {} away", "mv $(dirname {}) away",
    "chmod 777 {}", "ln {} other && echo x > other", "ln -sf plain {}", "mv sub sub2", "sed -i s/k/x/ {}",
)  # fmt: skip


@pytest.mark.parametrize("name", ["sub/pkg/.npmrc", "sub/.git/config", "sub/.ENVRC", "sub/.claude/settings.json"])
def test_a_guarded_name_that_exists_in_a_folder_stays_as_it_is(sandbox: SandboxHarness, name: str) -> None:
    kept = sandbox.put_file(f"project/{name}", "kept\n")
    sandbox.put_file("project/plain")
    attempts = "; ".join(f"({change.format(name)}) && echo {GOT_IT}" for change in CHANGES)
    assert_refused(sandbox, attempts, works_outside=False)
    assert kept.read_text() == "kept\n"
    assert kept.stat().st_mode & 0o777 == 0o644


def test_a_changed_name_among_dependencies_is_set_aside_and_an_unchanged_one_stays(sandbox: SandboxHarness) -> None:
    for name in ("a/.npmrc", "b/.npmrc", "c/.vscode/tasks.json", "c/.vscode/other.json", "d/.npmrc"):
        sandbox.put_file(f"project/node_modules/{name}", "kept\n")
    os.link(sandbox.project / "node_modules/d/.npmrc", sandbox.project / "other")
    sandbox.run(
        "cd node_modules; echo x > a/.npmrc; touch b/.npmrc; echo x > c/.vscode/tasks.json; echo x >> ../other; "
        "touch -r b/.npmrc a/.npmrc"
    )
    assert list_guarded(sandbox) == [
        "node_modules/b/.npmrc", "node_modules/c/.vscode", "node_modules/c/.vscode/other.json",
    ]  # fmt: skip
    assert sandbox.run("rm -rf node_modules && echo well").output == "well\n"


def test_a_name_with_a_second_link_is_set_aside_when_it_is_changed_through_that(sandbox: SandboxHarness) -> None:
    kept = sandbox.put_file("project/pkg/.npmrc", "kept\n")
    os.link(kept, sandbox.project / "other")
    sandbox.run("echo x > other")
    assert list_guarded(sandbox) == []


def test_a_folder_that_becomes_a_bare_repository_loses_its_head(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/sub/hooks/use.ts", "kept\n")
    sandbox.put_file("project/sub/config", "kept\n")
    sandbox.run("git init -q --bare new && cp -rn new/. sub; cp -r new third")
    for folder in ("sub", "new", "third"):
        asked = f"cd {folder} && git -c safe.bareRepository=all rev-parse --is-bare-repository"
        assert "true" not in sandbox.run_outside(asked).output.splitlines()
    assert (sandbox.project / "sub/hooks/use.ts").read_text() == "kept\n"
    assert (sandbox.project / "sub/config").read_text() == "kept\n"


def test_the_config_of_a_bare_repository_in_a_folder_cannot_be_written(sandbox: SandboxHarness) -> None:
    sandbox.run_outside("git init -q --bare sub")
    before = (sandbox.project / "sub/config").read_text()
    assert_refused(sandbox, f"(echo x > sub/config || mv sub s2 || echo x > sub/hooks/pre-commit) && echo {GOT_IT}",
                   works_outside=False)  # fmt: skip
    assert (sandbox.project / "sub/config").read_text() == before


def test_a_file_that_a_person_let_a_tool_write_meanwhile_stays(sandbox: SandboxHarness) -> None:
    _, held = hold_workspace(sandbox.build_profile())
    approved = sandbox.put_file("project/sub/.vscode/tasks.json", "approved\n")
    guarded_names.record_approved_write(str(approved))
    sandbox.put_file("project/sub/.vscode/other.json", "planted\n")
    other = sandbox.put_file("project/pkg/.npmrc", "approved\n")
    guarded_names.record_approved_write(str(other))
    other.write_text("changed after\n")
    release_placeholders(held)
    assert list_guarded(sandbox) == ["sub/.vscode", "sub/.vscode/tasks.json"]


def test_the_next_daemon_sets_aside_what_a_command_of_the_last_one_made(
    sandbox: SandboxHarness, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    sandbox.put_file("project/node_modules/a/.npmrc", "kept\n")
    hold_workspace(sandbox.build_profile(), str(note))
    protection._hold_counts.clear()  # as in a daemon that starts
    sandbox.put_file("project/sub/.npmrc")
    assert len(release_noted_placeholders(str(note))) == 1
    assert list_guarded(sandbox) == ["node_modules/a/.npmrc"]
    assert not note.exists()


def test_more_names_than_can_be_bound_are_still_found_afterwards(sandbox: SandboxHarness) -> None:
    for number in range(guarded_names._MAX_BOUND + 6):
        sandbox.put_file(f"project/p{number}/.npmrc", "kept\n")
    sandbox.run("for each in p*; do echo x > $each/.npmrc; done")
    left = list_guarded(sandbox)
    assert len(left) == guarded_names._MAX_BOUND
    assert {(sandbox.project / name).read_text() for name in left} == {"kept\n"}


def test_a_name_in_a_folder_that_was_read_before_is_found_whatever_its_time_says(sandbox: SandboxHarness) -> None:
    for number in range(20):
        sandbox.put_file(f"project/d{number}/file")
    root = str(sandbox.project)
    first = guarded_names.scan_guarded_names((root,))
    sandbox.put_file("project/d7/.npmrc")
    os.utime(sandbox.project / "d7", (1, 1))
    second = guarded_names.scan_guarded_names((root,))
    assert first.bound == ()
    assert second.bound == (f"{root}/d7/.npmrc",)


def test_too_many_files_to_look_at_are_refused(sandbox: SandboxHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_names, "_MAX_ENTRIES", 3)
    for number in range(5):
        sandbox.put_file(f"project/{number}")
    with pytest.raises(NotProtectable, match="too many"):
        hold_workspace(sandbox.build_profile())
    assert len(os.listdir(sandbox.project)) == 5


def test_a_folder_that_is_too_deep_to_be_looked_at_is_told(sandbox: SandboxHarness) -> None:
    _, held = hold_workspace(sandbox.build_profile())
    step = "d" * 200
    sandbox.run_outside(f"for each in $(seq 25); do mkdir {step} && cd {step} || exit; done; echo x > .npmrc")
    lines = release_placeholders(held)
    assert lines
    assert all("could not be looked at" in line for line in lines)
    sandbox.run_outside(f"mv {step}/{step}/{step}/{step}/{step}/{step} near; rm -rf {step}")
    assert guarded_names.scan_guarded_names((str(sandbox.project),)).bound != ()


def test_what_a_guarded_link_leads_to_stays_as_it_is(sandbox: SandboxHarness) -> None:
    shared = sandbox.put_file("project/shared/settings.json", "kept\n")
    npmrc = sandbox.put_file("project/pkg/plain", "kept\n")
    (sandbox.project / "pkg/.claude").symlink_to("../shared")
    (sandbox.project / "pkg/.npmrc").symlink_to("plain")
    (sandbox.project / "pkg/.vscode").symlink_to("..")
    attempts = ("echo x > shared/settings.json", "echo x > pkg/plain", "mv shared away", "rm pkg/plain", "mv pkg p2")
    assert_refused(sandbox, "; ".join(f"({each}) && echo {GOT_IT}" for each in attempts), works_outside=False)
    assert (shared.read_text(), npmrc.read_text()) == ("kept\n", "kept\n")
    assert sandbox.run("echo x > pkg/other && echo well").output == "well\n"


def test_a_guarded_link_whose_target_a_command_could_change_is_set_aside(sandbox: SandboxHarness) -> None:
    target = sandbox.put_file("project/pkg/plain", "kept\n")
    os.link(target, sandbox.project / "other")
    (sandbox.project / "pkg/.npmrc").symlink_to("plain")
    sandbox.run("echo x > other")
    assert not os.path.lexists(sandbox.project / "pkg/.npmrc")
    assert os.path.islink(sandbox.project / "pkg/set-aside.npmrc.1")


def test_a_folder_that_has_not_changed_is_not_read_again(
    sandbox: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_names, "_RECENT_NS", -1_000_000_000)  # as if all of it were old
    for number in range(20):
        sandbox.put_file(f"project/d{number}/file")
    root = str(sandbox.project)
    guarded_names.scan_guarded_names((root,))
    read: list[str] = []

    def list_folder(path: str, *rest: Any) -> Any:
        read.append(path)
        return _list_folder(path, *rest)

    _list_folder = guarded_names._list_folder
    monkeypatch.setattr(guarded_names, "_list_folder", list_folder)
    sandbox.put_file("project/d7/.npmrc")
    assert guarded_names.scan_guarded_names((root,)).bound == (f"{root}/d7/.npmrc",)
    assert read == [f"{root}/d7"]

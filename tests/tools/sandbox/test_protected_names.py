"""Protected names in a writable workspace, present or absent."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.tools.fs.protected_paths import why_guarded
from ostler.tools.sandbox import NotProtectable, guarded_inside, hold, hold_again, release, release_noted, wrap
from ostler.tools.sandbox.protected_names import IN_A_HOME, IN_A_PROJECT, PARTLY, PARTLY_IN_A_HOME
from tests.tools.sandbox.box import GOT_IT, Box, refused, support

ABSENT = (*IN_A_PROJECT, *(f"{folder}/{name}" for folder, names in PARTLY.items() for name in names))


def repository(box: Box) -> Path:
    """A real one, of whoever runs commands."""
    assert box.outside("git init -q . && git config user.email a@b && git config user.name n").code == 0
    return box.project / ".git"


def test_the_workspace_is_writable(box: Box) -> None:
    done = box.run("echo x > file && mkdir -p a/b && mv file a/b/ && ln a/b/file other && rm other && cat a/b/file")
    assert done.output == "x\n"
    assert (box.project / "a/b/file").read_text() == "x\n"


def test_every_protected_name_is_a_guarded_one() -> None:
    homes = [f"{folder}/{name}" for folder, names in PARTLY_IN_A_HOME.items() for name in names]
    assert [name for name in (*ABSENT, *IN_A_HOME, *homes) if not why_guarded(f"/{name}")] == []


def test_an_absent_protected_name_cannot_be_created(box: Box) -> None:
    attempts = [
        f"if [ '{os.path.dirname(name)}' ]; then mkdir -p '{os.path.dirname(name)}'; fi; n={name}" for name in ABSENT
    ]
    create = "echo x > $n; mkdir -p $n; echo x > $n/file"
    others = "mv $n away; rmdir $n; ln -s /etc/passwd $n; echo x > new; mv -T new $n; rm -f new"
    box.run("\n".join(f"{attempt}; {create}; {others}" for attempt in attempts))
    assert os.listdir(box.project) == [], "something is left of it"
    box.outside("\n".join(f"{attempt}; {create}" for attempt in attempts))
    assert [name for name in ABSENT if not (box.project / name).exists()] == []


def test_a_present_protected_file_cannot_be_written_replaced_or_removed(box: Box) -> None:
    for name in (".mcp.json", ".npmrc", ".GitModules", ".claude/settings.local.json", ".cargo/credentials.toml"):
        box.put(f"project/{name}", "kept\n")
        for attempt in (f"echo x > {name}", f"rm {name}", f"mv {name} away", f"echo > n; mv -f n {name}"):
            refused(box, f"{attempt} && echo {GOT_IT}", works_outside=False)
        refused(box, f"ln {name} other && echo x > other && echo {GOT_IT}", works_outside=False)
        assert (box.project / name).read_text() == "kept\n"
        refused(box, f"echo x > {name} && rm {name} && echo {GOT_IT}")


def test_git_cannot_be_told_what_to_run(box: Box) -> None:
    git = repository(box)
    before = (git / "config").read_text()
    for attempt in ("git config core.fsmonitor x", "echo x > .git/hooks/pre-commit", "echo ../evil > .git/commondir"):
        refused(box, f"{attempt} && echo {GOT_IT}", works_outside=False)
    assert (git / "config").read_text() == before
    assert not (git / "commondir").exists()
    refused(box, f"echo x > .git/hooks/pre-commit && git config core.fsmonitor x && echo {GOT_IT}")


def test_whoever_creates_commondir_chooses_what_git_runs(box: Box) -> None:
    """Why all of `.git` is read-only, and not only its config and hooks."""
    repository(box)
    box.outside("cp -r .git evil && git config -f evil/config core.fsmonitor 'touch owned; false'")
    box.outside("echo ../evil > .git/commondir; git status")
    assert (box.project / "owned").exists()


def test_a_protected_folder_cannot_be_renamed_out_of_the_way(box: Box) -> None:
    repository(box)
    refused(box, f"mv .git g2 && mkdir .git && echo {GOT_IT}")


def test_the_folder_around_protected_names_cannot_be_renamed(box: Box) -> None:
    box.put("project/.claude/settings.json", "{}")
    inside = refused(box, f"echo x > .claude/notes; mv .claude c2 && echo {GOT_IT}")
    assert "busy" in inside.output
    assert box.run("cat c2/notes .claude/notes").output.count("x\n") == 1


def test_a_protected_name_deeper_down_stays_with_all_folders_above_it(box: Box) -> None:
    deep = box.put("project/packages/a/.npmrc", "kept\n")
    profile = box.profile(protected=tuple(guarded_inside([str(box.project)])))
    assert profile.protected == (str(deep),)
    for attempt in ("mv packages p2", "mv packages/a packages/b", "echo x > packages/a/.npmrc"):
        refused(box, f"{attempt} && echo {GOT_IT}", profile, works_outside=False)
    assert box.run("echo x > packages/a/file && echo well", profile).output == "well\n"
    assert deep.read_text() == "kept\n"
    refused(box, f"echo x > packages/a/.npmrc && mv packages p2 && echo {GOT_IT}", profile)


def test_a_protected_name_that_was_created_deeper_down_is_found_afterwards(box: Box) -> None:
    roots = [str(box.project)]
    before = guarded_inside(roots)
    box.run("mkdir -p sub/.vscode sub/x && echo x > sub/.vscode/tasks.json && echo x > sub/x/.ENVRC")
    assert guarded_inside(roots) - before == {f"{box.project}/sub/.vscode", f"{box.project}/sub/x/.ENVRC"}


def test_a_protected_name_that_is_a_link_refuses_the_sandbox(box: Box) -> None:
    for name in (".claude", ".vscode", ".cursorrules"):
        (box.project / name).symlink_to(box.outside_folder)
        with pytest.raises(NotProtectable, match="is a link"):
            box.run("true")
        (box.project / name).unlink()
    assert box.run("true").code == 0


def test_a_root_that_was_replaced_by_a_link_is_refused(box: Box) -> None:
    (box.project / "sub").mkdir()
    both = (str(box.project), str(box.project / "sub"))
    assert box.run("true", box.profile(roots=both)).code == 0
    # A command that may write only the outer one plants a link where the inner one was.
    box.run(f"mv sub away; ln -s {box.outside_folder} sub")
    for kind in ("read_only", "workspace"):
        with pytest.raises(NotProtectable, match="not a real path"):
            box.run("echo x > sub/planted", box.profile(kind, roots=both))


def test_a_folder_above_a_protected_name_that_was_replaced_by_a_link_is_refused(box: Box) -> None:
    deep = box.put("project/packages/a/.npmrc")
    profile = box.profile(protected=(str(deep),))
    box.put("outside/a/.npmrc")
    box.run(f"mv packages away; ln -s {box.outside_folder} packages")
    with pytest.raises(NotProtectable, match="not a real path"):
        box.run("echo x > packages/planted", profile)


def test_a_folder_cannot_be_made_a_bare_repository(box: Box) -> None:
    make = "git init -q --bare new; mv new/* . ; git -c safe.bareRepository=all rev-parse --is-bare-repository"
    assert "true" not in box.run(make).output.splitlines()
    box.outside("rm -rf ./*")
    assert "true" in box.outside(make).output.splitlines()
    with pytest.raises(NotProtectable, match="bare"):
        box.run("true")


def test_where_the_workspace_is_the_home_folder_its_start_up_files_are_protected(box: Box) -> None:
    box.put("project/.bashrc", "kept\n")
    box.put("project/.ssh/authorized_keys", "kept\n")
    box.put("project/.config/app", "kept\n")
    profile = box.profile(home=str(box.project))
    for name in (".bashrc", ".ssh/authorized_keys", ".profile", ".zshenv", ".config/systemd/user/a", ".aws/config"):
        box.run(f"mkdir -p $(dirname {name}); echo x > {name}; rm -rf {name}; mv .config c2; mv .ssh s2", profile)
    assert (box.project / ".bashrc").read_text() == "kept\n"
    assert (box.project / ".ssh/authorized_keys").read_text() == "kept\n"
    assert sorted(os.listdir(box.project)) == [".bashrc", ".config", ".ssh"]
    assert os.listdir(box.project / ".config") == ["app"]
    refused(box, f"echo x > .profile && mv .config c2 && echo {GOT_IT}", profile)


def test_git_neither_shows_nor_adds_the_placeholders(box: Box) -> None:
    repository(box)
    held = hold(box.profile())
    try:
        assert len(held) > 20
        assert box.outside("echo x > a; git add -A && git status --porcelain").output == "A  a\n"
        assert "A  a" in box.run("git status --porcelain").output
    finally:
        release(held)
    assert sorted(os.listdir(box.project)) == [".git", "a"]


def test_a_placeholder_stays_while_another_command_needs_it(box: Box) -> None:
    first, second = hold(box.profile()), hold(box.profile())
    release(first)
    assert (box.project / ".vscode").is_dir()
    refused(box, f"rmdir .vscode && echo {GOT_IT}", works_outside=False)
    release(second)
    assert os.listdir(box.project) == []


def test_without_its_placeholder_a_running_command_would_lose_the_protection(box: Box) -> None:
    """Why they are counted."""
    attempt = "read -r REPLY; mkdir .vscode && echo " + GOT_IT
    with box.wrapped(["/bin/bash", "-c", f"echo began; {attempt}"]) as wrapped:
        child = subprocess.Popen(
            wrapped, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=box.user, group=box.user, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        (box.project / ".vscode").rmdir()
        assert GOT_IT in child.communicate("\n")[0]


def test_what_a_person_put_into_a_placeholder_is_not_removed(box: Box) -> None:
    held = hold(box.profile())
    box.put("project/.vscode/tasks.json", "mine")
    release(held)
    assert os.listdir(box.project) == [".vscode"]


def test_an_empty_folder_that_a_person_made_is_not_removed(box: Box) -> None:
    (box.project / ".vscode").mkdir()
    release(hold(box.profile()))
    assert os.listdir(box.project) == [".vscode"]


def held_by_a_dead_daemon(box: Box, note: Path) -> None:
    child = os.fork()
    if child == 0:
        hold(box.profile(), str(note))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_the_placeholders_that_a_dead_daemon_left_are_removed(box: Box, tmp_path: Path) -> None:
    note = tmp_path / "note"
    held_by_a_dead_daemon(box, note)
    assert len(os.listdir(box.project)) > 20
    release_noted(str(note))
    assert (os.listdir(box.project), note.exists()) == ([], False)


def test_the_placeholders_of_a_command_that_still_runs_are_held_again(box: Box, tmp_path: Path) -> None:
    runs, ended = tmp_path / "runs", tmp_path / "ended"
    held_by_a_dead_daemon(box, runs)
    held_by_a_dead_daemon(box, ended)
    held = hold_again(str(runs))
    release_noted(str(ended))
    assert len(os.listdir(box.project)) > 20, "another one needs them"
    assert held is not None
    release(held)
    assert (os.listdir(box.project), runs.exists()) == ([], False)


@pytest.mark.parametrize("said", ["", '["/'])
def test_a_note_that_was_cut_short_says_nothing(box: Box, tmp_path: Path, said: str) -> None:
    note = tmp_path / "note"
    note.write_text(said)
    assert hold_again(str(note)) is None
    release_noted(str(note))
    assert not note.exists()


def test_a_profile_that_is_not_held_is_refused(box: Box) -> None:
    with pytest.raises(NotProtectable, match="held first"):
        wrap(["/bin/true"], box.profile(), support())
    assert os.listdir(box.project) == []

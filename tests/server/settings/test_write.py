"""Rules written into settings files: whole or not at all, and nothing else touched."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from ostler.server.settings import CannotWrite, Destination, add_rule, destination, remove_rule
from ostler.server.settings import write as writing_module
from tests.server.settings.machine import Desk, texts


def local(desk: Desk) -> Destination:
    return destination("local", str(desk.folder), desk.places)


@pytest.mark.parametrize(("scope", "name"), [("local", "local"), ("project", "project"), ("user", "user")])
def test_a_remembered_answer_is_written_to_our_own_file_of_its_scope(
    desk: Desk, scope: Literal["local", "project", "user"], name: str
) -> None:
    assert add_rule(destination(scope, str(desk.folder), desk.places), "allow", "Bash(npm test)")
    assert json.loads(desk.file(name).read_text()) == {"permissions": {"allow": ["Bash(npm test)"]}}
    assert texts(desk.rules(trusted=True).allows("Bash")) == [f"allow Bash(npm test) ({name})"]
    assert stat.S_IMODE(desk.file(name).stat().st_mode) == (0o600 if scope == "user" else 0o644)


def test_everything_else_in_the_file_stays_in_its_order(desk: Desk) -> None:
    before = (
        '{\n\t"hooks": {},\n\t"env": {"Z": "é", "A": "1"},\n\t"permissions": {"mode": "plan", "allow": ["Bash(a)"]}\n}'
    )
    path = desk.write("project", before)
    path.chmod(0o640)
    to = destination("project", str(desk.folder), desk.places)
    assert add_rule(to, "deny", "Bash(rm:*)")
    assert path.read_text().startswith('{\n\t"hooks": {},\n\t"env": {\n\t\t"Z": "é",\n\t\t"A": "1"\n\t},')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert remove_rule(to, "deny", " Bash(rm:*) ")
    expected = json.loads(before)
    expected["permissions"]["deny"] = []
    assert json.loads(path.read_text()) == expected
    assert list(json.loads(path.read_text())) == ["hooks", "env", "permissions"]


def test_a_rule_is_written_once(desk: Desk) -> None:
    to = local(desk)
    assert add_rule(to, "allow", "Bash(a)")
    before = desk.file("local").stat()
    assert not add_rule(to, "allow", " Bash(a)")
    assert desk.file("local").stat().st_ino == before.st_ino
    assert remove_rule(to, "allow", "Bash(a)")
    assert not remove_rule(to, "allow", "Bash(a)")


def test_removing_from_a_file_that_is_not_there_makes_none(desk: Desk) -> None:
    assert not remove_rule(local(desk), "allow", "Bash(a)")
    assert not (desk.folder / ".ostler").exists()


def test_grants_can_expire(desk: Desk) -> None:
    to = local(desk)
    add_rule(to, "allow", "Bash(a)", "2099-01-01T00:00:00+00:00")
    add_rule(to, "allow", "Bash(b)", "2020-01-01T00:00:00Z")
    assert json.loads(desk.file("local").read_text())["permissions"]["expires"] == {
        "Bash(a)": "2099-01-01T00:00:00.000Z",
        "Bash(b)": "2020-01-01T00:00:00.000Z",
    }
    assert texts(desk.rules(trusted=True).rules) == ["allow Bash(a) (local)"]
    assert add_rule(to, "allow", "Bash(b)")
    assert len(desk.rules(trusted=True).rules) == 2
    assert remove_rule(to, "allow", "Bash(a)")
    assert "expires" not in json.loads(desk.file("local").read_text())["permissions"]


@pytest.mark.parametrize(
    ("rule", "until"), [("Bash()", None), ("", None), ("Bash(a)", "soon"), ("Bash(a)", "2099-01-01")]
)
def test_what_could_not_be_read_back_is_not_written(desk: Desk, rule: str, until: str | None) -> None:
    with pytest.raises(CannotWrite):
        add_rule(local(desk), "allow", rule, until)
    assert not desk.file("local").exists()


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": {}}}', '{"a": 1, "a": 2}']
)
def test_a_broken_file_is_not_overwritten(desk: Desk, broken: str) -> None:
    desk.write("local", broken)
    with pytest.raises(CannotWrite, match="Mend it first"):
        add_rule(local(desk), "allow", "Bash(a)")
    assert desk.file("local").read_text() == broken


def test_no_link_leads_a_rule_out_of_the_project(desk: Desk) -> None:
    outside = desk.root / "me" / "victim.json"
    outside.write_text("{}")
    (desk.folder / ".ostler").mkdir()
    (desk.folder / ".ostler" / "settings.local.json").symlink_to(outside)
    with pytest.raises(CannotWrite, match="leads out"):
        add_rule(local(desk), "allow", "Bash(a)")
    (desk.folder / ".ostler" / "settings.local.json").unlink()
    (desk.folder / ".ostler").rmdir()
    (desk.folder / ".ostler").symlink_to(desk.root / "me")
    with pytest.raises(CannotWrite, match="leads out"):
        add_rule(local(desk), "allow", "Bash(a)")
    assert outside.read_text() == "{}"
    assert sorted(os.listdir(desk.root / "me")) == ["victim.json"]


def test_nothing_is_ever_written_into_claude(desk: Desk) -> None:
    (desk.folder / ".claude").mkdir()
    (desk.folder / ".ostler").symlink_to(".claude")
    with pytest.raises(CannotWrite, match="another product"):
        add_rule(local(desk), "allow", "Bash(a)")
    assert os.listdir(desk.folder / ".claude") == []


def test_the_local_file_is_kept_out_of_git_and_gitignore_is_left_alone(desk: Desk) -> None:
    desk.git("init", "-q")
    (desk.folder / ".git" / "info").mkdir(exist_ok=True)
    (desk.folder / ".git" / "info" / "exclude").write_text("*.o")
    add_rule(local(desk), "allow", "Bash(a)")
    add_rule(local(desk), "allow", "Bash(b)")
    assert (desk.folder / ".git" / "info" / "exclude").read_text() == "*.o\n/.ostler/settings.local.json\n"
    assert desk.git("status", "--porcelain") == ""
    assert not (desk.folder / ".gitignore").exists()


def test_below_the_root_of_a_repository_the_root_is_written_to(desk: Desk) -> None:
    desk.git("init", "-q")
    (desk.folder / "a").mkdir()
    add_rule(destination("local", str(desk.folder / "a"), desk.places), "deny", "Bash(a)")
    assert desk.file("local").exists()
    assert desk.git("status", "--porcelain") == ""


def test_in_a_worktree_the_local_file_is_kept_out_of_git_too(desk: Desk) -> None:
    desk.git("init", "-q")
    desk.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x")
    desk.git("worktree", "add", "-q", "../tree")
    add_rule(destination("local", str(desk.root / "tree"), desk.places), "deny", "Bash(a)")
    assert (desk.root / "tree" / ".ostler" / "settings.local.json").exists()
    assert desk.git("-C", str(desk.root / "tree"), "status", "--porcelain") == ""


def test_a_git_file_that_names_somebody_elses_worktree_gets_nothing_written_there(desk: Desk) -> None:
    victim = desk.root / "me" / "repo"
    desk.git("init", "-q", str(victim))
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    desk.git("-C", str(victim), *who, "commit", "-q", "--allow-empty", "-m", "x")
    desk.git("-C", str(victim), "worktree", "add", "-q", "../tree")
    exclude = victim / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.o\n")
    for named in (victim / ".git" / "worktrees" / "tree", victim / ".git"):
        (desk.folder / ".git").write_text(f"gitdir: {named}\n")
        assert add_rule(local(desk), "deny", f"Bash({named.name})")
        assert exclude.read_text() == "*.o\n"


def test_rules_of_many_daemons_all_arrive(desk: Desk) -> None:
    program = (
        "import sys; from ostler.server.settings import *\n"
        "to = Destination(sys.argv[1], sys.argv[2], 0o022)\n"
        "for number in range(10): add_rule(to, 'allow', f'Bash({sys.argv[3]} {number})')\n"
    )
    to = local(desk)
    running = [subprocess.Popen([sys.executable, "-c", program, to.file, to.root, name]) for name in ("a", "b", "c")]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(json.loads(Path(to.file).read_text())["permissions"]["allow"]) == 30
    assert os.listdir(os.path.dirname(to.file)) == ["settings.local.json"]


def test_who_waits_too_long_for_somebody_else_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing_module, "_WAIT_S", 0.0)
    folder = desk.file("local").parent
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(CannotWrite, match="Somebody else"):
            add_rule(local(desk), "allow", "Bash(a)")
    finally:
        os.close(descriptor)

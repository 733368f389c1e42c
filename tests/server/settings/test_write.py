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

from ostler.server.settings import CannotWrite, Destination, add_rule, remove_rule, resolve_destination
from ostler.server.settings import write as writing_module
from tests.server.settings.machine import PersonMachine, format_rules


def local(machine: PersonMachine) -> Destination:
    return resolve_destination("local", str(machine.folder), machine.places)


@pytest.mark.parametrize(("scope", "name"), [("local", "local"), ("project", "project"), ("user", "user")])
def test_a_remembered_answer_is_written_to_our_own_file_of_its_scope(
    machine: PersonMachine, scope: Literal["local", "project", "user"], name: str
) -> None:
    assert add_rule(resolve_destination(scope, str(machine.folder), machine.places), "allow", "Bash(npm test)")
    assert json.loads(machine.file(name).read_text()) == {"permissions": {"allow": ["Bash(npm test)"]}}
    assert format_rules(machine.load_rules(trusted=True).find_allow_rules("Bash")) == [f"allow Bash(npm test) ({name})"]
    assert stat.S_IMODE(machine.file(name).stat().st_mode) == (0o600 if scope == "user" else 0o644)


def test_everything_else_in_the_file_stays_in_its_order(machine: PersonMachine) -> None:
    before = (
        '{\n\t"hooks": {},\n\t"env": {"Z": "é", "A": "1"},\n\t"permissions": {"mode": "plan", "allow": ["Bash(a)"]}\n}'
    )
    path = machine.write("project", before)
    path.chmod(0o640)
    to = resolve_destination("project", str(machine.folder), machine.places)
    assert add_rule(to, "deny", "Bash(rm:*)")
    assert path.read_text().startswith('{\n\t"hooks": {},\n\t"env": {\n\t\t"Z": "é",\n\t\t"A": "1"\n\t},')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert remove_rule(to, "deny", " Bash(rm:*) ")
    expected = json.loads(before)
    expected["permissions"]["deny"] = []
    assert json.loads(path.read_text()) == expected
    assert list(json.loads(path.read_text())) == ["hooks", "env", "permissions"]


def test_a_rule_is_written_once(machine: PersonMachine) -> None:
    to = local(machine)
    assert add_rule(to, "allow", "Bash(a)")
    before = machine.file("local").stat()
    assert not add_rule(to, "allow", " Bash(a)")
    assert machine.file("local").stat().st_ino == before.st_ino
    assert remove_rule(to, "allow", "Bash(a)")
    assert not remove_rule(to, "allow", "Bash(a)")


def test_removing_from_a_file_that_is_not_there_makes_none(machine: PersonMachine) -> None:
    assert not remove_rule(local(machine), "allow", "Bash(a)")
    assert not (machine.folder / ".ostler").exists()


def test_grants_can_expire(machine: PersonMachine) -> None:
    to = local(machine)
    add_rule(to, "allow", "Bash(a)", "2099-01-01T00:00:00+00:00")
    add_rule(to, "allow", "Bash(b)", "2020-01-01T00:00:00Z")
    assert json.loads(machine.file("local").read_text())["permissions"]["expires"] == {
        "Bash(a)": "2099-01-01T00:00:00.000Z",
        "Bash(b)": "2020-01-01T00:00:00.000Z",
    }
    assert format_rules(machine.load_rules(trusted=True).rules) == ["allow Bash(a) (local)"]
    assert add_rule(to, "allow", "Bash(b)")
    assert len(machine.load_rules(trusted=True).rules) == 2
    assert remove_rule(to, "allow", "Bash(a)")
    assert "expires" not in json.loads(machine.file("local").read_text())["permissions"]


@pytest.mark.parametrize(
    ("rule", "until"), [("Bash()", None), ("", None), ("Bash(a)", "soon"), ("Bash(a)", "2099-01-01")]
)
def test_what_could_not_be_read_back_is_not_written(machine: PersonMachine, rule: str, until: str | None) -> None:
    with pytest.raises(CannotWrite):
        add_rule(local(machine), "allow", rule, until)
    assert not machine.file("local").exists()


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": {}}}', '{"a": 1, "a": 2}']
)
def test_a_broken_file_is_not_overwritten(machine: PersonMachine, broken: str) -> None:
    machine.write("local", broken)
    with pytest.raises(CannotWrite, match="Mend it first"):
        add_rule(local(machine), "allow", "Bash(a)")
    assert machine.file("local").read_text() == broken


def test_no_link_leads_a_rule_out_of_the_project(machine: PersonMachine) -> None:
    outside = machine.root / "me" / "victim.json"
    outside.write_text("{}")
    (machine.folder / ".ostler").mkdir()
    (machine.folder / ".ostler" / "settings.local.json").symlink_to(outside)
    with pytest.raises(CannotWrite, match="leads out"):
        add_rule(local(machine), "allow", "Bash(a)")
    (machine.folder / ".ostler" / "settings.local.json").unlink()
    (machine.folder / ".ostler").rmdir()
    (machine.folder / ".ostler").symlink_to(machine.root / "me")
    with pytest.raises(CannotWrite, match="leads out"):
        add_rule(local(machine), "allow", "Bash(a)")
    assert outside.read_text() == "{}"
    assert sorted(os.listdir(machine.root / "me")) == ["victim.json"]


def test_nothing_is_ever_written_into_claude(machine: PersonMachine) -> None:
    (machine.folder / ".claude").mkdir()
    (machine.folder / ".ostler").symlink_to(".claude")
    with pytest.raises(CannotWrite, match="another product"):
        add_rule(local(machine), "allow", "Bash(a)")
    assert os.listdir(machine.folder / ".claude") == []


def test_the_local_file_is_kept_out_of_git_and_gitignore_is_left_alone(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    (machine.folder / ".git" / "info").mkdir(exist_ok=True)
    (machine.folder / ".git" / "info" / "exclude").write_text("*.o")
    add_rule(local(machine), "allow", "Bash(a)")
    add_rule(local(machine), "allow", "Bash(b)")
    assert (machine.folder / ".git" / "info" / "exclude").read_text() == "*.o\n/.ostler/settings.local.json\n"
    assert machine.git("status", "--porcelain") == ""
    assert not (machine.folder / ".gitignore").exists()


def test_below_the_root_of_a_repository_the_root_is_written_to(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    (machine.folder / "a").mkdir()
    add_rule(resolve_destination("local", str(machine.folder / "a"), machine.places), "deny", "Bash(a)")
    assert machine.file("local").exists()
    assert machine.git("status", "--porcelain") == ""


def test_in_a_worktree_the_local_file_is_kept_out_of_git_too(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    machine.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x")
    machine.git("worktree", "add", "-q", "../tree")
    add_rule(resolve_destination("local", str(machine.root / "tree"), machine.places), "deny", "Bash(a)")
    assert (machine.root / "tree" / ".ostler" / "settings.local.json").exists()
    assert machine.git("-C", str(machine.root / "tree"), "status", "--porcelain") == ""


def test_a_git_file_that_names_somebody_elses_worktree_gets_nothing_written_there(machine: PersonMachine) -> None:
    victim = machine.root / "me" / "repo"
    machine.git("init", "-q", str(victim))
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    machine.git("-C", str(victim), *who, "commit", "-q", "--allow-empty", "-m", "x")
    machine.git("-C", str(victim), "worktree", "add", "-q", "../tree")
    exclude = victim / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.o\n")
    for named in (victim / ".git" / "worktrees" / "tree", victim / ".git"):
        (machine.folder / ".git").write_text(f"gitdir: {named}\n")
        assert add_rule(local(machine), "deny", f"Bash({named.name})")
        assert exclude.read_text() == "*.o\n"


def test_rules_of_many_daemons_all_arrive(machine: PersonMachine) -> None:
    program = (
        "import sys; from ostler.server.settings import *\n"
        "to = Destination(sys.argv[1], sys.argv[2], 0o022)\n"
        "for number in range(10): add_rule(to, 'allow', f'Bash({sys.argv[3]} {number})')\n"
    )
    to = local(machine)
    running = [subprocess.Popen([sys.executable, "-c", program, to.file, to.root, name]) for name in ("a", "b", "c")]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(json.loads(Path(to.file).read_text())["permissions"]["allow"]) == 30
    assert os.listdir(os.path.dirname(to.file)) == ["settings.local.json"]


def test_who_waits_too_long_for_somebody_else_is_told(machine: PersonMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing_module, "_WAIT_S", 0.0)
    folder = machine.file("local").parent
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(CannotWrite, match="Somebody else"):
            add_rule(local(machine), "allow", "Bash(a)")
    finally:
        os.close(descriptor)

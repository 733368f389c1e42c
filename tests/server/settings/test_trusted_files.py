"""Trust covers what runs: the content of every script that a hook or an MCP entry of the project names."""

from typing import Any

import pytest

from ostler.server.settings import is_stale, locations
from tests.server.settings.machine import PersonMachine

HOOKS = [
    "./scripts/h.sh", "scripts/h.sh", "bash scripts/h.sh", "sh -c ./scripts/h.sh", "sh -c 'cd scripts && ./h.sh'",
    "env A=b bash scripts/h.sh", "timeout 5 scripts/h.sh", "$CLAUDE_PROJECT_DIR/scripts/h.sh",
    '"$CLAUDE_PROJECT_DIR"/scripts/h.sh', '"${CLAUDE_PROJECT_DIR}/scripts/h.sh"', "$OSTLER_PROJECT_DIR/scripts/h.sh",
    "${CLAUDE_PROJECT_DIR:-.}/scripts/h.sh", "cd scripts; . ./h.sh", "cat scripts/h.sh | bash", "bash < scripts/h.sh",
    "python3 -u scripts/h.sh --x", "node --require ./scripts/h.sh x", "bash scripts/*.sh", "@PROJECT@/scripts/h.sh",
    "nohup nice -n 5 scripts/h.sh >/dev/null 2>&1 &", "if true; then scripts/h.sh; fi", "make -f scripts/h.sh",
    "bash $PWD/scripts/h.sh", "bash -c \"$(cat scripts/h.sh)\"", "sudo -E ./scripts/h.sh", "exec scripts/h.sh",
]  # fmt: skip
SERVERS: list[dict[str, Any]] = [
    {"command": "./scripts/h.sh"},
    {"command": "node", "args": ["scripts/h.sh"]},
    {"command": "sh", "args": ["-c", "exec ./scripts/h.sh"]},
    {"command": "env", "args": ["A=b", "python3", "scripts/h.sh"]},
    {"command": "./h.sh", "cwd": "scripts"},
    {"command": "node", "args": ["x"], "env": {"NODE_OPTIONS": "--require ./scripts/h.sh"}},
    {"command": "${NAME:-./scripts/h.sh}"},
]


@pytest.fixture
def project(machine: PersonMachine) -> PersonMachine:
    (machine.folder / "scripts").mkdir()
    (machine.folder / "scripts" / "h.sh").write_text("echo trusted\n")
    return machine


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written just now counts as read, as it does a moment later: else everything would be stale."""
    monkeypatch.setattr(locations, "_RACY_NS", 0)


def declare(machine: PersonMachine, command: str, name: str = "project") -> None:
    line = command.replace("@PROJECT@", str(machine.folder))
    machine.write(name, {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": line}]}]}})


@pytest.mark.parametrize("command", HOOKS)
def test_trust_is_bound_to_the_scripts_that_a_hook_names(project: PersonMachine, command: str) -> None:
    declare(project, command)
    before = project.load().project_effects
    assert project.load().project_effects == before
    assert str(project.folder / "scripts" / "h.sh") in before.guarded
    (project.folder / "scripts" / "h.sh").write_text("echo planted\n")
    after = project.load().project_effects
    assert after.digest != before.digest
    assert after.lines == before.lines


@pytest.mark.parametrize("entry", SERVERS, ids=str)
def test_trust_is_bound_to_the_scripts_that_an_mcp_entry_names(project: PersonMachine, entry: dict[str, Any]) -> None:
    project.write("local", {"mcp_servers": {"db": entry}})
    before = project.load().project_effects
    assert str(project.folder / "scripts" / "h.sh") in before.guarded
    (project.folder / "scripts" / "h.sh").write_text("echo planted\n")
    assert project.load().project_effects.digest != before.digest


@pytest.mark.usefixtures("settled")
def test_a_script_that_comes_later_is_another_one_and_guarded_before(project: PersonMachine) -> None:
    declare(project, "bash scripts/new.sh")
    before = project.load()
    assert not is_stale(before, project.places)
    assert str(project.folder / "scripts" / "new.sh") in before.project_effects.guarded
    (project.folder / "scripts" / "new.sh").write_text("echo planted\n")
    assert is_stale(before, project.places)
    assert project.load().project_effects.digest != before.project_effects.digest


NAMED = [
    # Whatever it is called: an interpreter runs it.
    ("bash scripts/h.txt", "h.txt"), ("sh scripts/h.md", "h.md"), ("python3 scripts/h.log", "h.log"),
    ("./scripts/h.html", "h.html"), ("cat scripts/h.txt | bash", "h.txt"), ("swift scripts/h.swift", "h.swift"),
    ("go run ./scripts/h.go", "h.go"), ("java scripts/H.java", "H.java"), ("elixir scripts/h.exs", "h.exs"),
    ("groovy scripts/h.groovy", "h.groovy"), ("dotnet run scripts/h.cs", "h.cs"), ("ts-node scripts/h", "h.ts"),
    ("run-parts scripts", "h"), ("python3 -c 'import scripts.h'", "h.py"),
    # By what the line itself puts together.
    ('bash "$(git rev-parse --show-toplevel)/scripts/h.sh"', "h.sh"),
    ('"$(git rev-parse --show-toplevel)"/scripts/h.sh', "h.sh"), ("bash `dirname $0`/scripts/h.sh", "h.sh"),
    ("${CLAUDE_PROJECT_DIR%/}/scripts/h.sh", "h.sh"), ('D="$CLAUDE_PROJECT_DIR/scripts"; bash "$D/h.sh"', "h.sh"),
    ("for each in scripts/*; do . $each; done", "h"), ("D=$(pwd)/scripts; E=$D/h; . $E", "h"),
    ("bash -c '. \"$0\"' scripts/h", "h"),
    # By a variable or an option that makes a program run it.
    ("BASH_ENV=scripts/h bash -c :", "h"), ("env BASH_ENV=scripts/h bash -c :", "h"),
    ("export ENV=scripts/h; sh -i", "h"), ("LD_PRELOAD=./scripts/h.so ls", "h.so"),
    ("tar cf x --checkpoint-action=exec=scripts/h.sh .", "h.sh"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "name"), NAMED)
def test_trust_is_bound_to_a_script_however_it_is_called_and_named(
    project: PersonMachine, command: str, name: str
) -> None:
    (project.folder / ".git").mkdir()
    script = project.folder / "scripts" / name
    script.write_text("trusted\n")
    declare(project, command)
    before = project.load().project_effects
    assert str(script) in before.guarded
    script.write_text("planted\n")
    assert project.load().project_effects.digest != before.digest


def test_a_script_is_guarded_by_its_real_path_too(project: PersonMachine) -> None:
    (project.folder / "link.sh").symlink_to("scripts/h.sh")
    declare(project, "./link.sh")
    guarded = project.load().project_effects.guarded
    assert {str(project.folder / "link.sh"), str(project.folder / "scripts" / "h.sh")} <= set(guarded)


@pytest.mark.parametrize("name", ["user", "policy"])
def test_the_persons_own_hooks_need_no_trust(project: PersonMachine, name: str) -> None:
    declare(project, "@PROJECT@/scripts/h.sh", name)
    assert project.load().project_effects.files == ()
    assert project.load().own_scripts == (str(project.folder / "scripts" / "h.sh"),)


@pytest.mark.parametrize("command", ["cat notes.md", "echo scripts/h.sh", "mdlint notes.md", "/usr/bin/env true"])
def test_what_nothing_runs_is_not_bound(project: PersonMachine, command: str) -> None:
    (project.folder / "notes.md").write_text("x")
    declare(project, command)
    effects = project.load().project_effects
    assert [path for path, digest in effects.files if digest] == []


@pytest.mark.usefixtures("settled")
def test_settings_are_read_again_when_a_script_changes(project: PersonMachine) -> None:
    declare(project, "scripts/h.sh")
    settings = project.load()
    assert not is_stale(settings, project.places)
    (project.folder / "scripts" / "h.sh").write_text("echo planted, and longer\n")
    assert is_stale(settings, project.places)


@pytest.mark.parametrize(
    "command",
    ["sh scripts/h.sh state", "scripts/h.sh --state=state", "scripts/h.sh --state state >> state",
     "STATE=state scripts/h.sh", "if [ ! -e state ]; then touch state; scripts/h.sh; fi",
     "jq . state | scripts/h.sh", "cat state | python3 scripts/h.sh"],
)  # fmt: skip
def test_what_a_hook_keeps_for_itself_may_change(project: PersonMachine, command: str) -> None:
    declare(project, command)
    before = project.load().project_effects
    (project.folder / "state").write_text("1")
    assert project.load().project_effects.digest == before.digest
    (project.folder / "state").write_text("2")
    assert project.load().project_effects.digest == before.digest
    assert str(project.folder / "state") not in before.guarded

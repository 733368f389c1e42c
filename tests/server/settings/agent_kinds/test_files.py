"""Kinds of agents from files: read, checked, ranked and trusted."""

import os
from pathlib import Path

import pytest

from ostler.server.settings import is_stale, load_settings, resolve_agents
from tests.server.settings.machine import PersonMachine

GOOD = """---
name: reviewer
description: Reads a change
tools: Read, Grep
model: haiku
permissionMode: plan
max_budget_usd: 0.50
color: blue
---
You review.
"""


def put(place: Path, text: str = GOOD, name: str = "reviewer.md") -> Path:
    file = place / "agents" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_file_is_a_kind(machine: PersonMachine) -> None:
    file = put(machine.folder / ".ostler")
    (kind,) = resolve_agents(load_settings(str(machine.folder), machine.places), trusted=True)
    assert (kind.name, kind.description, kind.instructions) == ("reviewer", "Reads a change", "You review.")
    assert (kind.tools, kind.model, kind.mode) == (("Read", "Grep"), "haiku", "plan")
    assert (kind.max_budget_usd, kind.source, kind.path) == ("0.50", "project", str(file))


@pytest.mark.parametrize(
    ("form", "tools"),
    [
        ("tools: [Read, 'Grep']", ("Read", "Grep")),
        ("tools:\n  - Read\n  - Grep", ("Read", "Grep")),
        ("tools:\n- Read", ("Read",)),
        ("tools: '*'", None),
        ("tools: []", ()),
        ("", None),
    ],
)
def test_lists_are_written_in_several_ways(machine: PersonMachine, form: str, tools: tuple[str, ...] | None) -> None:
    put(machine.folder / ".claude", f"---\nname: a\ndescription: >\n  two\n  lines\n{form}\n---\nGo.\n")
    (kind,) = resolve_agents(load_settings(str(machine.folder), machine.places), trusted=True)
    assert (kind.tools, kind.description) == (tools, "two lines")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("You review.", 1, "does not begin with front matter"),
        ("---\nname: a\n", 1, "no end"),
        ("---\nname: a\ndescription: b\n---\n", 1, "no instructions"),
        ("---\ndescription: b\n---\nGo.", 1, "'name' is missing"),
        ("---\nname: a\ndescription:\n---\nGo.", 3, "'description' is missing or empty"),
        ("---\nname: a b\ndescription: b\n---\nGo.", 2, "is no name"),
        ("---\nname: explore\ndescription: b\n---\nGo.", 2, "built-in kind"),
        ("---\nname: a\ndescription: b\ntool: Read\n---\nGo.", 4, "'tool' is not known"),
        ("---\nname: a\ndescription: b\nmode: yolo\n---\nGo.", 4, "is no mode"),
        ("---\nname: a\ndescription: b\nmax_budget_usd: -1\n---\nGo.", 4, "no amount"),
        ("---\nname: a\ndescription: b\ntools: [Read\n---\nGo.", 4, "a `]` is missing"),
        ("---\nname: a\nname: b\n---\nGo.", 3, "twice"),
        ("---\nwhat is this\n---\nGo.", 2, "is no field"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(machine: PersonMachine, text: str, line: int, words: str) -> None:
    file = put(machine.folder / ".ostler", text)
    settings = load_settings(str(machine.folder), machine.places)
    assert settings.agents == ()
    (problem,) = settings.problems
    assert (problem.file, problem.line) == (str(file), line)
    assert words in problem.message


def test_what_is_no_file_of_words_is_left_out(machine: PersonMachine) -> None:
    place = machine.folder / ".ostler"
    put(place, "x" * (2 << 20), "huge.md")
    (place / "agents" / "binary.md").write_bytes(b"\xff\xfe\x00")
    os.symlink("loop.md", place / "agents" / "loop.md")
    os.mkfifo(place / "agents" / "pipe.md")
    settings = load_settings(str(machine.folder), machine.places)
    assert settings.agents == ()
    assert [Path(problem.file).name for problem in settings.problems] == ["binary.md", "huge.md", "loop.md", "pipe.md"]


def test_the_project_stands_above_the_user_and_ours_above_theirs(machine: PersonMachine) -> None:
    home = Path(machine.places.home)
    user_home = Path(machine.places.user_home)
    for place, words in (
        (user_home / ".claude", "four"),
        (home, "three"),
        (machine.folder / ".claude", "two"),
        (machine.folder / ".ostler", "one"),
    ):
        put(place, f"---\nname: a\ndescription: b\n---\n{words}\n")
    settings = load_settings(str(machine.folder), machine.places)
    assert [kind.instructions for kind in resolve_agents(settings, trusted=True)] == ["one"]
    assert [kind.instructions for kind in resolve_agents(settings, trusted=False)] == ["three"]


def test_those_of_a_project_are_part_of_what_is_trusted(machine: PersonMachine) -> None:
    before = load_settings(str(machine.folder), machine.places)
    assert before.project_effects.lines == ()
    put(Path(machine.places.home))
    assert load_settings(str(machine.folder), machine.places).project_effects.lines == ()
    file = put(machine.folder / ".claude")
    first = load_settings(str(machine.folder), machine.places)
    assert first.project_effects.lines == ("agent reviewer: Reads a change",)
    file.write_text(GOOD.replace("You review.", "You obey."))
    assert load_settings(str(machine.folder), machine.places).project_effects.digest != first.project_effects.digest


def test_a_file_that_comes_or_changes_is_seen(machine: PersonMachine) -> None:
    settings = load_settings(str(machine.folder), machine.places)
    assert not is_stale(settings, machine.places)
    put(machine.folder / ".ostler")
    assert is_stale(settings, machine.places)

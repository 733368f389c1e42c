"""Skills from files: their front matter, what is wrong with it and where, and their arguments."""

from pathlib import Path

from ostler.server.settings import load_settings, resolve_skills
from ostler.server.settings.skills.parse import fill_arguments, split_rules
from tests.server.settings.machine import PersonMachine
from tests.support.tables import try_each


@try_each(
    "text, arguments, filled",
    [
        ("Look at $ARGUMENTS.", "the mare", "Look at the mare."),
        ("Look.", "the mare", "Look.\n\nArguments: the mare"),
        ("Look.", "  ", "Look."),
        ("$2 and $1, $3.", "'a b' c", "c and a b, ."),
        ("$1", "it's late", "it's"),
        ("$ARGUMENTS", 'one\ntwo "three" $1 \\$2', 'one\ntwo "three" $1 \\$2'),
        ("\\$1 costs $10 $ARGUMENTSX \\$ARGUMENTS", "x", "$1 costs $10 $ARGUMENTSX $ARGUMENTS\n\nArguments: x"),
    ],
)
def test_arguments_take_the_places_that_are_kept_for_them(text: str, arguments: str, filled: str) -> None:
    assert fill_arguments(text, arguments) == filled


@try_each(
    "text, rules",
    [
        ("Read, Grep", ("Read", "Grep")),
        ("Read Grep  Bash(git *)", ("Read", "Grep", "Bash(git *)")),
        ('Bash(git commit -m "a, b":*), Read', ('Bash(git commit -m "a, b":*)', "Read")),
        ("", ()),
    ],
)
def test_rules_stand_apart_by_commas_or_blanks(text: str, rules: tuple[str, ...]) -> None:
    assert split_rules(text) == rules


def put_skill(folder: Path, text: str, place: str = ".ostler/skills/groom/SKILL.md") -> Path:
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@try_each(
    "front, line, complaint",
    [
        ("nme: x\n", 2, "The field 'nme' is not known; did you mean name?"),
        ("description: x\nalowed-tools: Read\n", 3, "did you mean allowed-tools?"),
        ("name: a b\n", 2, "'a b' is no name"),
        ("context: spoon\n", 2, "'spoon' is no context: it is `inline` or `fork`."),
        ("disable-model-invocation: perhaps\n", 2, "is `true` or `false`, and not 'perhaps'"),
        ("description: a\ndescription: b\n", 3, "stands there twice"),
        ("allowed-tools: [Read\n", 2, "The list has no end"),
        ("nonsense\n", 2, "is no field"),
    ],
)
def test_a_wrong_front_matter_is_told_with_file_and_line(
    machine: PersonMachine, front: str, line: int, complaint: str
) -> None:
    file = put_skill(machine.folder, f"---\n{front}---\nGroom it.\n")
    settings = load_settings(str(machine.folder), machine.places)
    assert settings.skills == ()
    assert [(each.file, each.line) for each in settings.skill_problems] == [(str(file), line)]
    assert complaint in settings.skill_problems[0].message


def test_what_is_wrong_with_a_part_leaves_the_rest(machine: PersonMachine) -> None:
    put_skill(machine.folder, "---\nallowed-tools: Read, Bash(\nhooks: x\n---\n# Groom it\n\nWith care.\n")
    settings = load_settings(str(machine.folder), machine.places)
    (skill,) = settings.skills
    assert (skill.name, skill.description, skill.allowed) == ("groom", "Groom it", ("Read",))
    assert sorted(each.line for each in settings.skill_problems) == [2, 3]


@try_each(
    "content, complaint",
    [
        (b"", "nothing below"),
        (b"---\nname: x\n", "no end"),
        (b"\xff\xfe\x00", "no UTF-8"),
        (b"Groom\nit\0.", "a NUL"),
        (b"x" * (1 << 20) + b"y", "larger than 1024 KB"),
    ],
)
def test_a_file_that_is_no_skill_says_so(machine: PersonMachine, content: bytes, complaint: str) -> None:
    put_skill(machine.folder, "").write_bytes(content)
    settings = load_settings(str(machine.folder), machine.places)
    assert settings.skills == ()
    assert complaint in settings.skill_problems[0].message


def test_names_come_from_folders_and_the_first_of_two_counts(machine: PersonMachine) -> None:
    put_skill(machine.folder, "Ours.")
    put_skill(machine.folder, "Theirs.", ".claude/skills/groom/SKILL.md")
    put_skill(machine.folder, "Deep.", ".claude/skills/yard/feed/SKILL.md")
    put_skill(machine.folder, "Beside.", ".claude/skills/yard/feed/more/SKILL.md")
    put_skill(machine.folder, "A command.", ".claude/commands/git/tidy.md")
    put_skill(Path(machine.places.home), "The person's.", "skills/groom/SKILL.md")
    put_skill(Path(machine.places.user_home), "The person's own.", ".claude/commands/walk.md")
    settings = load_settings(str(machine.folder), machine.places)
    found = resolve_skills(settings, trusted=True)
    assert {name: skill.description for name, skill in found.items()} == {
        "groom": "Ours.", "feed": "Deep.", "git:tidy": "A command.", "walk": "The person's own.",
    }  # fmt: skip
    assert [each.message for each in settings.skill_problems] == [
        f"The skill groom is left out: {machine.folder}/.ostler/skills/groom/SKILL.md has this name, too, and counts."
    ]
    untrusted = resolve_skills(settings, trusted=False)
    assert {name: skill.description for name, skill in untrusted.items()} == {
        "groom": "The person's.", "walk": "The person's own.",
    }  # fmt: skip


def test_a_link_out_of_the_project_is_no_skill(machine: PersonMachine) -> None:
    secret = Path(machine.places.user_home) / "secret"
    secret.write_text("key: 1")
    file = machine.folder / ".claude" / "commands" / "show.md"
    file.parent.mkdir(parents=True)
    file.symlink_to(secret)
    settings = load_settings(str(machine.folder), machine.places)
    assert settings.skills == ()
    assert "leads out of the project" in settings.skill_problems[0].message


def test_a_skill_with_tools_is_a_thing_to_trust_and_one_of_words_is_not(machine: PersonMachine) -> None:
    put_skill(machine.folder, "Words.")
    assert load_settings(str(machine.folder), machine.places).project_effects.lines == ()
    put_skill(machine.folder, "---\nallowed-tools: Bash(make:*)\n---\nMake.\n")
    effects = load_settings(str(machine.folder), machine.places).project_effects
    assert effects.lines == ("skill groom allows Bash(make:*)",)
    put_skill(machine.folder, "---\nallowed-tools: Bash(make:*)\n---\nMake it well.\n")
    assert load_settings(str(machine.folder), machine.places).project_effects.digest != effects.digest

"""Lines with loops, conditions and substitutions: what runs is written by us, only reads, and is what rules see."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.commands import find_forbidding_rule, may_be_forbidden, parse_command
from ostler.tools.commands.safety.composites.arithmetic import NotComposite, compute
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import Judgement, find_subject, judge, seems_read_only
from ostler.tools.tool import Allow

TABLE = tomllib.loads(Path(__file__).with_name("composites.toml").read_text("utf-8"))
PASSES: dict[str, str] = dict(TABLE["passes"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("composites")
    for name in ("a.txt", "b.txt", "README.md", "src/app.js", "src/it's.js", "docs/-x", "-x", "secrets/key"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x\n")
    (folder / "docs" / "out").symlink_to("/etc")
    (folder / "secretlink").symlink_to("/etc/passwd")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    return folder


def judge_in(project: Path, command: str) -> Judgement:
    view = SessionView(
        SessionId("s_1"), str(project), str(project), (str(project),), "default", home=f"{project}-daemon"
    )
    return judge(command, view)


def test_what_runs_is_the_line_that_was_judged(project: Path) -> None:
    assert {command: judge_in(project, command).literal_command for command in PASSES} == PASSES
    assert [command for command in PASSES if not isinstance(judge_in(project, command).check, Allow)] == []
    assert [command for command in PASSES if not seems_read_only(command)] == [], "plan mode would refuse it"


def test_a_near_miss_of_such_a_line_is_asked_about(project: Path) -> None:
    assert [command for command in TABLE["asks"] if isinstance(judge_in(project, command).check, Allow)] == []
    assert len(TABLE["asks"]) > 2 * len(PASSES)


def test_a_rule_that_forbids_a_part_of_what_runs_forbids_the_line() -> None:
    """`[[ -f x ]]` runs as `[ -f x ]`: for the rest the rules see in the line what runs in its place."""
    missed: list[tuple[str, str]] = []
    for command, runs in PASSES.items():
        for part in parse_command(runs).parts:
            first, *_ = part.words
            assert first is not None
            known = first if first not in {"[", "true"} else "ls"
            parsed = parse_command(command if known == first else "ls")
            if find_forbidding_rule(parsed, [f"{known}:*"]) is None and not may_be_forbidden(parsed, [f"{known}:*"]):
                missed.append((command, known))
    assert missed == []


@pytest.mark.parametrize(
    "command",
    [
        "for f in secrets/key; do cat $f; done", 'for f in secrets/*; do cat "$f"; done', 'echo "$(cat secrets/key)"',
        "diff <(cat secrets/key) a.txt", "cd secrets && for f in *; do cat $f; done",
        'for d in secrets; do cat "$d/key"; done',
        "if true; then cat secrets/key; fi", "cat {secrets/key,a.txt}", "{ cat secrets/key; }", "! cat secrets/key",
        "LC_ALL=C cat secrets/key", "sed 's/x/y/' secrets/key", 'for d in */; do cat "$d/key"; done',
        "cat $'secrets/key'",
        "for x in s; do cat ${x}ecrets/key; done", 'echo "$(cd secrets && cat key)"',
        "(cd secrets; if ls; then cat key; fi)",
    ],
)  # fmt: skip
def test_a_rule_about_a_file_sees_it_where_only_what_runs_names_it(command: str, project: Path) -> None:
    about = judge_in(project, command).subject
    again = find_subject(command, str(project))
    for subject in (about, again):
        named = {place.real for place in subject.paths}
        assert str(project / "secrets/key") in named or subject.unknown is not None, named


def test_what_a_loop_finds_later_is_not_in_what_runs(project: Path) -> None:
    runs = judge_in(project, 'for f in *.md; do head -1 "$f"; done').literal_command
    assert runs == "{ head -1 README.md; }"


def test_a_loop_of_more_rounds_than_a_person_would_look_through_is_asked_about(project: Path) -> None:
    short, long = (f"for i in {{1..{count}}}; do echo $i; done" for count in (100, 101))
    assert isinstance(judge_in(project, short).check, Allow)
    assert not isinstance(judge_in(project, long).check, Allow)


def test_the_shell_prints_what_the_line_would_have_printed(project: Path) -> None:
    """Run for real, side by side: to be judged as another text may not change what is shown."""
    shown = {}
    for command, runs in PASSES.items():
        if "git " not in command and "date" not in command:
            one, other = (
                subprocess.run(
                    ["bash", "--noprofile", "--norc", "-c", text],
                    cwd=project,
                    capture_output=True,
                    check=False,
                    timeout=20,
                )
                for text in (command, runs)
            )
            if (one.stdout, one.returncode) != (other.stdout, other.returncode):
                shown[command] = (one.stdout, other.stdout)
    assert shown == {}


@pytest.mark.parametrize(
    "text", ["7/2", "-7/2", "7/-2", "-7%3", "7%-3", "2+3*4", "(2+3)*4", "1 - 2 - 3", "5 % 3 * 2", "-(3)"]
)
def test_numbers_are_computed_as_the_shell_does(text: str) -> None:
    done = subprocess.run(["bash", "-c", f"echo $(({text}))"], capture_output=True, check=True)
    assert compute(text) == int(done.stdout)


@pytest.mark.parametrize(
    "text", ["010", "2**3", "1/0", "1%0", "--1", "1++1", "9999999999*9999999999", "1//2", "", "1 2", "(" * 150]
)
def test_other_arithmetic_is_not_computed(text: str) -> None:
    with pytest.raises(NotComposite):
        compute(text)

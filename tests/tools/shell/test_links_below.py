"""A recursive read that follows links is judged by where the links below lead."""

from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.commands.effects import file_access
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import judge
from ostler.tools.tool import Allow, AskFirst
from tests.support.tables import try_each


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in ("src/a.py", "other/a.py", "deep/one/two/b.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    (place / "leads" / "inner").mkdir(parents=True)
    (place / "leads" / "inner" / "out").symlink_to(tmp_path / "outside" / "secret")
    (place / "folder").mkdir()
    (place / "folder" / "away").symlink_to(tmp_path / "outside")
    (place / "chain").mkdir()
    (place / "chain" / "first").symlink_to(place / "folder")
    (place / "stays").mkdir()
    (place / "stays" / "in").symlink_to(place / "src")
    (place / "stays" / "loop").symlink_to(place / "stays")
    return place


def judge_in(project: Path, command: str, mode: Mode = "default") -> object:
    home = str(project.parent / "daemon")
    return judge(
        command, SessionView(SessionId("s_1"), str(project), str(project), (str(project),), mode, home=home)
    ).check


FOLLOWING = [
    "grep -R x {}", "grep -nR x {}", "grep --dereference-recursive x {}", "rg -L x {}", "rg --follow x {}",
    "rg -nL x {}",
    "diff -r {} other", "diff -r other {}", "diff --recursive {} other", "diff -ru {} other", "find -L {}",
    "find {} -follow", "find -L {} -type f",
    "ls -LR {}", "ls -L {}", "ls -lL {}", "ls --dereference {}", "ls -R --dereference {}", "du -L {}", "du -shL {}",
    "du --dereference {}",
    "tree -l {}", "tree -al {}", "fd -L x {}", "fd --follow x {}", "egrep -R x {}", "fgrep -R x {}",
    "cd {} && grep -R x .", "cd {} && rg -L x", "cd {} && find -L", "cd {} && tree -l", "grep -R x ./{}*",
    "grep -R x .",
]  # fmt: skip


@try_each("folder", ["leads", "folder", "chain"])
@try_each("command", FOLLOWING)
def test_a_read_that_follows_links_out_of_the_roots_asks(project: Path, command: str, folder: str) -> None:
    assert isinstance(judge_in(project, command.format(folder)), AskFirst)


@try_each("folder", ["src", "deep", "stays"])
@try_each("command", [each for each in FOLLOWING if not each.endswith(" .") or each.startswith("cd")])
def test_one_that_stays_inside_needs_no_question(project: Path, command: str, folder: str) -> None:
    assert judge_in(project, command.format(folder)) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "grep -r x leads",
        "rg x leads",
        "find leads",
        "ls -R leads",
        "du -s leads",
        "tree leads",
        "diff -r --no-dereference leads other",
        "find leads -type f -exec grep -l x {} +",
    ],
)
def test_one_that_follows_no_links_needs_no_question(project: Path, command: str) -> None:
    assert judge_in(project, command) == Allow()


@pytest.mark.parametrize(
    "command", ["cp -rL leads new", "cp -rL folder new", "cp -RL chain new", "cp -r --dereference leads new"]
)
def test_a_copy_through_links_out_of_the_roots_asks(project: Path, command: str) -> None:
    assert isinstance(judge_in(project, command, "acceptEdits"), AskFirst)


def test_more_files_than_can_be_looked_at_ask(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "_MAX_BELOW", 100)
    (project / "many").mkdir()
    for number in range(101):
        (project / "many" / str(number)).touch()
    assert isinstance(judge_in(project, "grep -R x many"), AskFirst)
    assert judge_in(project, "grep -r x many") == Allow()

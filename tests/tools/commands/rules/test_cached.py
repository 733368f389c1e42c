"""What is said about a command without a wait is what is said with one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.shell.bash_policy import bound, bound_at_once, judge, judge_at_once
from tests.tools.commands.generated_commands import plain_commands, shell_text
from tests.tools.commands.safety.test_program_table import ASKS, PASSES

OTHERS = [
    "npm test", "make -j4 all | head -3", "pwd; whoami", "ls", "ls -R", "echo $HOME", "cargo build 2>&1", "a > b",
    "a < b", "cd sub && ls", "cd && make", "pushd x; ls", "(cd x; make)", "make &", "f() { make; }; f",
    "for i in a b; do make; done", "~/x a", "./x", "$X a", "x/y", "bash x.sh", "python3 x.py",
    "python3 -c 'print(1)'", "source x", ". x", "sudo make", "timeout 5 make", "bash -c 'git push'", "xargs rm",
    "find . -name x", "git status", "/usr/bin/git status", "\\git log", "env git log", "rm -rf x", "rm", "mkdir a",
    "touch ~/x", "cat ./*.py", "echo *", "echo ~/x", "make 2>/dev/null", "npm run build -- --out=/etc/x", "dd of=x",
    "dd", "make 'a", "ls\x0bx", "", " ", "x=1", "x=1 make", "X=1", "head -3", "cat", "cat -", "tee x", "tee",
    "wc -l <<E\na\nE", "wc -l <<<x", "test -f x", "[ 1 = 1 ]", "true && false || true", "echo $(cat f)",
    "echo `cat f`", "make >/dev/null", "exec 3<>f", "eval ls", "alias x=y", "sed -i s/a/b/ f", "sed p",
]  # fmt: skip
MODES: list[Mode] = ["default", "acceptEdits", "plan"]


class WouldWait(Exception):
    """The disk would have to be asked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judged") / "project"
    (place / "sub").mkdir(parents=True)
    (place.parent / "linked").symlink_to(place)
    for name in ("a", "f", "x.sh"):
        (place / name).write_text("x\n")
    return place


def surroundings(folder: Path, mode: Mode = "default", start: str | None = None) -> Surroundings:
    roots = (str(folder), str(folder.parent / "other"))
    home = str(folder.parent / "home")
    return Surroundings(SessionId("s_1"), str(folder), start or str(folder), roots, mode, home=home)


def agrees(command: str, about: Surroundings) -> bool:
    """Whether there was an answer at once, which then is the one that a look at the disk gives."""
    asked: list[str] = []

    def real(path: str) -> str:
        asked.append(path)
        return paths.real(path)

    judged, tied = judge_at_once(command, about, real), bound_at_once(command, about)
    assert judged is None or judged == judge(command, about)
    assert tied is None or tied == bound(command, about)
    assert set(asked) <= {about.shell_folder, about.home, *about.roots}
    return judged is not None and tied is not None


@pytest.mark.parametrize("mode", MODES)
def test_every_known_command_is_judged_at_once_as_with_a_wait_or_not_at_all(mode: Mode, folder: Path) -> None:
    about = surroundings(folder, mode)
    answered = [command for command in (*PASSES, *ASKS, *OTHERS) if agrees(command, about)]
    assert len(answered) > 100


def test_a_shell_that_is_elsewhere_or_behind_a_link_is_judged_the_same(folder: Path) -> None:
    for start in (str(folder / "sub"), str(folder.parent / "linked"), "/", f"{folder}/../project", f"{folder}/"):
        about = surroundings(folder, start=start)
        assert agrees("npm test", about)
        for command in OTHERS:
            agrees(command, about)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(command=st.one_of(plain_commands(most=4), shell_text).filter(lambda text: "\0" not in text))
def test_any_command_is_judged_at_once_as_with_a_wait_or_not_at_all(command: str, folder: Path) -> None:
    agrees(command, surroundings(folder))


@pytest.mark.parametrize(
    "command", ["npm test", "pwd", "ls", "ls -la | head -3", "make -j4 2>&1", "x=1 make", "echo $X"]
)
def test_what_names_no_file_is_judged_at_once(command: str, folder: Path) -> None:
    assert agrees(command, surroundings(folder))


@pytest.mark.parametrize(
    "command",
    ["git status", "env git log", "cat f", "rm f", "a > f", "a < f", "cd sub && ls", "echo ./*", "cat ~/x", "./x",
     "~/x", "bash x.sh", "python3 x.py", ". x", "sudo make", "bash -c ls", "find", "$X", "make " + "x" * 2048,
     "a|" * 101 + "a"],
)  # fmt: skip
def test_what_needs_a_look_at_the_disk_is_not_judged_at_once(command: str, folder: Path) -> None:
    assert judge_at_once(command, surroundings(folder), paths.real) is None


@pytest.mark.parametrize("command", ["./x", "~/x", "bash x.sh", "python3 x.py", ". x", "sudo ./x", "bash -c ./x"])
def test_a_script_is_not_bound_without_a_look_at_it(command: str, folder: Path) -> None:
    assert bound_at_once(command, surroundings(folder)) is None


def test_what_the_resolver_raises_passes_through(folder: Path) -> None:
    def real(path: str) -> str:
        raise WouldWait(path)

    with pytest.raises(WouldWait):
        judge_at_once("npm test | head -3 && ls", surroundings(folder), real)


OPENED: list[str] = []
watched = False


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """What this interpreter opens or lists meanwhile."""
    global watched  # noqa: PLW0603 - an audit hook is for ever, and has to be told when to look
    OPENED.clear()
    watched = True
    try:
        yield OPENED
    finally:
        watched = False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if watched and event in {"open", "os.listdir", "os.scandir", "glob.glob", "os.walk"}:
        OPENED.append(f"{event} {arguments[0]}")


sys.addaudithook(_watch)


def test_nothing_is_opened_for_an_answer_at_once(folder: Path, opened: list[str]) -> None:
    about = surroundings(folder)
    # The tables of the package are read once.
    judge("ls && make && dd", about)
    opened.clear()
    for command in (*PASSES, *ASKS, *OTHERS):
        judge_at_once(command, about, lambda path: path)
        bound_at_once(command, about)
    assert opened == []
    judge("cat ./*", about)
    assert opened, "the hook notices"

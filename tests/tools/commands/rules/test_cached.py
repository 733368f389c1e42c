"""Judging a command without waiting for the disk gives the same answer as judging it with the disk."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.shell.approval_binding import compute_binding
from ostler.tools.shell.bash_policy import compute_binding_nowait, judge, judge_nowait
from tests.support.examples import count_examples
from tests.tools.commands.generated_commands import plain_commands, shell_text
from tests.tools.commands.safety.test_program_table import ASKS, PASSES

OTHER_COMMANDS = [
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
    """Raised where the disk would have to be read."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judged") / "project"
    (place / "sub").mkdir(parents=True)
    (place.parent / "linked").symlink_to(place)
    for name in ("a", "f", "x.sh"):
        (place / name).write_text("x\n")
    return place


def build_view(folder: Path, mode: Mode = "default", start: str | None = None) -> SessionView:
    roots = (str(folder), str(folder.parent / "other"))
    home = str(folder.parent / "home")
    return SessionView(SessionId("s_1"), str(folder), start or str(folder), roots, mode, home=home)


def answers_nowait(command: str, view: SessionView) -> bool:
    """Whether there was an answer without waiting, which must equal the one that reads the disk."""
    resolved_paths: list[str] = []

    def real(path: str) -> str:
        resolved_paths.append(path)
        return paths.resolve_path(path)

    judgement, binding = judge_nowait(command, view, real), compute_binding_nowait(command, view)
    assert judgement is None or judgement == judge(command, view)
    assert binding is None or binding == compute_binding(command, view)
    assert set(resolved_paths) <= {view.shell_folder, view.home, *view.roots}
    return judgement is not None and binding is not None


@pytest.mark.parametrize("mode", MODES)
def test_every_known_command_is_judged_at_once_as_with_a_wait_or_not_at_all(mode: Mode, folder: Path) -> None:
    view = build_view(folder, mode)
    answered = [command for command in (*PASSES, *ASKS, *OTHER_COMMANDS) if answers_nowait(command, view)]
    assert len(answered) > 100


def test_a_shell_that_is_elsewhere_or_behind_a_link_is_judged_the_same(folder: Path) -> None:
    for start in (str(folder / "sub"), str(folder.parent / "linked"), "/", f"{folder}/../project", f"{folder}/"):
        view = build_view(folder, start=start)
        assert answers_nowait("npm test", view)
        for command in OTHER_COMMANDS:
            answers_nowait(command, view)


@settings(
    max_examples=count_examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(command=st.one_of(plain_commands(most=4), shell_text).filter(lambda text: "\0" not in text))
def test_any_command_is_judged_at_once_as_with_a_wait_or_not_at_all(command: str, folder: Path) -> None:
    answers_nowait(command, build_view(folder))


@pytest.mark.parametrize(
    "command", ["npm test", "pwd", "ls", "ls -la | head -3", "make -j4 2>&1", "x=1 make", "echo $X"]
)
def test_what_names_no_file_is_judged_at_once(command: str, folder: Path) -> None:
    assert answers_nowait(command, build_view(folder))


@pytest.mark.parametrize(
    "command",
    ["git status", "env git log", "cat f", "rm f", "a > f", "a < f", "cd sub && ls", "echo ./*", "cat ~/x", "./x",
     "~/x", "bash x.sh", "python3 x.py", ". x", "sudo make", "bash -c ls", "find", "$X", "make " + "x" * 2048,
     "a|" * 101 + "a"],
)  # fmt: skip
def test_what_needs_a_look_at_the_disk_is_not_judged_at_once(command: str, folder: Path) -> None:
    assert judge_nowait(command, build_view(folder), paths.resolve_path) is None


@pytest.mark.parametrize("command", ["./x", "~/x", "bash x.sh", "python3 x.py", ". x", "sudo ./x", "bash -c ./x"])
def test_a_script_is_not_bound_without_a_look_at_it(command: str, folder: Path) -> None:
    assert compute_binding_nowait(command, build_view(folder)) is None


def test_what_the_resolver_raises_passes_through(folder: Path) -> None:
    def real(path: str) -> str:
        raise WouldWait(path)

    with pytest.raises(WouldWait):
        judge_nowait("npm test | head -3 && ls", build_view(folder), real)


OPENED: list[str] = []
watched = False


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files and folders that this interpreter opens or lists during the test."""
    global watched  # noqa: PLW0603 - an audit hook is for ever, and has to be told when to look
    OPENED.clear()
    watched = True
    try:
        yield OPENED
    finally:
        watched = False


def _record_access(event: str, arguments: tuple[object, ...]) -> None:
    if watched and event in {"open", "os.listdir", "os.scandir", "glob.glob", "os.walk"}:
        OPENED.append(f"{event} {arguments[0]}")


sys.addaudithook(_record_access)


def test_nothing_is_opened_for_an_answer_at_once(folder: Path, opened: list[str]) -> None:
    view = build_view(folder)
    # The tables of the package are read once.
    for command in OTHER_COMMANDS:
        judge(command, view)
    opened.clear()
    for command in (*PASSES, *ASKS, *OTHER_COMMANDS):
        judge_nowait(command, view, lambda path: path)
        compute_binding_nowait(command, view)
    assert opened == []
    judge("cat ./*", view)
    assert opened, "the hook notices"

"""Files that are guarded in one session and not in every one: what trusted hooks run, and what git runs as hooks."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.context import SessionView
from ostler.tools.permissions.guards import GuardCheck
from ostler.tools.shell.bash_policy import judge
from ostler.tools.tool import Allow, AskFirst
from tests.support.tables import try_each


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in ("scripts/h.sh", "scripts/other.sh", "f", "tools/hooks/pre-commit"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
    return place


def build_view(project: Path, mode: Mode = "acceptEdits", trusted: tuple[str, ...] = ("scripts/h.sh",)) -> SessionView:
    files = tuple(str(project / name) for name in trusted)
    return SessionView(SessionId("s_1"), str(project), str(project), (str(project),), mode, trusted_files=files)


def is_guarded(command: str, view: SessionView) -> bool:
    check = judge(command, view).check
    return isinstance(check, AskFirst) and check.safety


@try_each("mode", ["acceptEdits", "bypassPermissions"])
@try_each(
    "command",
    [
        "echo x > scripts/h.sh", "cp f scripts/h.sh", "mv f scripts/h.sh", "rm scripts/h.sh", "rm -r scripts",
        "mv scripts away", "sed -i s/a/b/ scripts/h.sh", "tee -a scripts/h.sh", "cp scripts/other.sh scripts/H.SH",
        "cd scripts && cp ../f h.sh", "ln -sf f scripts/h.sh", "install f scripts/h.sh", "dd of=scripts/h.sh if=f",
        "cp f PROJECT/scripts/h.sh", "sh -c 'echo x > scripts/h.sh'", "chmod +x scripts/h.sh",
        "truncate -s0 scripts/h.sh",
    ],
)  # fmt: skip
def test_a_script_that_runs_by_trust_is_asked_about_however_it_is_written(
    project: Path, command: str, mode: Mode
) -> None:
    line = command.replace("PROJECT", str(project))
    assert is_guarded(line, build_view(project, mode))
    assert not is_guarded(line, build_view(project, mode, trusted=()))


@pytest.mark.parametrize("command", ["touch scripts/new", "cp f scripts/other.sh", "rm f", "mkdir -p scripts"])
def test_what_lies_beside_it_is_not_guarded(project: Path, command: str) -> None:
    assert isinstance(judge(command, build_view(project)).check, Allow)


def run_git(folder: Path, *arguments: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=environment)


def test_where_git_takes_hooks_from_is_guarded(project: Path) -> None:
    view = build_view(project, trusted=())
    run_git(project, "init", "-q")
    assert not is_guarded("cp f tools/hooks/pre-commit", view)
    run_git(project, "config", "core.hooksPath", "tools/hooks")
    for command in (
        "cp f tools/hooks/pre-commit",
        "touch tools/hooks/new",
        "mv tools away",
        "rm -r tools",
        "mkdir tools/hooks",
    ):
        assert is_guarded(command, view), command
    assert not is_guarded("touch tools/other", view)
    assert GuardCheck(view).find_reason(f"{project}/tools/hooks/x", f"{project}/tools/hooks/x") is not None


def test_the_hooks_of_a_repository_below_are_guarded(project: Path) -> None:
    nested = project / "nested"
    (nested / "h").mkdir(parents=True)
    run_git(nested, "init", "-q")
    run_git(nested, "config", "core.hooksPath", str(nested / "h"))
    assert is_guarded("cp f nested/h/pre-push", build_view(project, trusted=()))

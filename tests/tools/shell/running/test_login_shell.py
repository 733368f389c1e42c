"""The environment of commands, of people who log in with another shell than bash."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.running import profile as shell_profile
from ostler.tools.shell.running.login_shell import find_login_shell
from ostler.tools.shell.running.profile import ShellProfile
from ostler.tools.tool import ToolResult
from tests.support.programs import needs
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
MakeProfile = Callable[..., ShellProfile]
ZSH = pytest.param("zsh", ".zshrc", "export", "=", marks=needs("zsh"))
FISH = pytest.param("fish", ".config/fish/config.fish", "set -gx", " ", marks=needs("fish"))
BOTH = pytest.mark.parametrize(("shell", "file", "export", "equals"), [ZSH, FISH])


@pytest.fixture
def reports() -> list[str]:
    """The messages about shells that could not be used."""
    return []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "person"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def make_profile(home: Path, tmp_path: Path, reports: list[str], monkeypatch: pytest.MonkeyPatch) -> MakeProfile:
    def make(shell: str, file: str, text: str) -> ShellProfile:
        monkeypatch.setenv("SHELL", shutil.which(shell) or shell)
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
        return ShellProfile(tmp_path / "data", reports.append)

    return make


def test_the_shell_is_named_by_its_variable_or_by_the_list_of_users() -> None:
    assert find_login_shell({"SHELL": "/usr/bin/zsh"}) == "/usr/bin/zsh"
    assert find_login_shell({"SHELL": "/opt/bin/fish"}) == "/opt/bin/fish"
    assert find_login_shell({}) == find_login_shell({"SHELL": "zsh"}), "what is no path names no program"
    for name in ("bash", "sh", "nologin", "false"):
        assert find_login_shell({"SHELL": f"/bin/{name}"}) is None, "bash stands for it"


@BOTH
async def test_variables_come_from_the_shell_of_the_person_and_commands_run_in_bash(
    session: Session, make_profile: MakeProfile, reports: list[str], shell: str, file: str, export: str, equals: str
) -> None:
    made = make_profile(shell, file, f"echo noise\necho more >&2\n{export} WHO{equals}'a b\nc'\n")
    session.change_config(profile=made)
    result = await Bash().run(
        Bash().parse({"command": 'echo "$WHO"; echo ${BASH_VERSION:+bash}; [[ a == a ]] && echo fine'}),
        session.make_context(),
    )
    assert isinstance(result, ToolResult)
    assert result.output.stdout == "a b\nc\nbash\nfine\n"
    assert reports == []


@BOTH
async def test_what_is_ours_or_about_that_shell_is_not_taken(
    make_profile: MakeProfile, monkeypatch: pytest.MonkeyPatch, shell: str, file: str, export: str, equals: str
) -> None:
    monkeypatch.setenv("OSTLER_TOKEN", "sesame")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sesame")
    monkeypatch.setenv("PATH", f"/venv/bin:{os.environ['PATH']}")
    names = ("ANTHROPIC_API_KEY", "BASH_ENV", "PROMPT_COMMAND", "SSH_AUTH_SOCK", "OLDPWD")
    lines = "".join(f"{export} {name}{equals}/dev/null\n" for name in names)
    lines += f'{export} SEEN{equals}"$OSTLER_TOKEN$ANTHROPIC_API_KEY."\n{export} PATH{equals}/own/bin:/usr/bin\n'
    variables = (await make_profile(shell, file, lines).load_current()).variables
    # Set before its files are read, and given here: they see no secret of the daemon's.
    assert "sesame" not in "".join(variables.values())
    assert not {*names, "SHLVL", "PWD", "_", "OSTLER_TOKEN", "OSTLER_CALL"} & set(variables)
    assert variables["PATH"].split(":")[0] == "/venv/bin"
    assert variables["PATH"].endswith("/own/bin:/usr/bin")


@BOTH
async def test_a_change_of_its_files_is_noticed(
    make_profile: MakeProfile, monkeypatch: pytest.MonkeyPatch, shell: str, file: str, export: str, equals: str
) -> None:
    made = make_profile(shell, file, f"{export} A{equals}1\n")
    assert (await made.load_current()).variables["A"] == "1"
    monkeypatch.setattr(shell_profile, "LOOK_EVERY", -1.0)
    make_profile(shell, file, f"{export} A{equals}22\n")
    assert (await made.load_current()).variables["A"] == "22"


@BOTH
async def test_one_that_hangs_is_given_up_and_told_once(
    make_profile: MakeProfile,
    home: Path,
    reports: list[str],
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    file: str,
    export: str,
    equals: str,
) -> None:
    monkeypatch.setattr(shell_profile, "TIME_LIMIT", 0.2)
    monkeypatch.setattr(shell_profile, "_GRACE_SECONDS", 0.05)
    # `.zshenv` is read by every zsh, and so is the only file of fish.
    made = make_profile(shell, ".zshenv" if shell == "zsh" else file, "sleep 1000\n")
    assert (await made.load_current()).variables == {}
    assert "longer than" in reports[0]
    assert len(reports) == 2, "that shell, and that there was no time for bash"


@BOTH
async def test_one_that_hangs_only_in_a_terminal_is_asked_as_a_script_would(
    make_profile: MakeProfile,
    home: Path,
    reports: list[str],
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    file: str,
    export: str,
    equals: str,
) -> None:
    monkeypatch.setattr(shell_profile, "TIME_LIMIT", 1.0)
    monkeypatch.setattr(shell_profile, "_GRACE_SECONDS", 0.05)
    if shell == "zsh":
        (home / ".zprofile").write_text("export A=1\n")
        made = make_profile(shell, file, "exec sleep 1000\n")
    else:
        made = make_profile(shell, file, "set -gx A 1\nstatus is-interactive; and exec sleep 1000\n")
    assert (await made.load_current()).variables["A"] == "1"
    assert reports == []


@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho 'A=1'; exec true\n"])
async def test_the_profile_of_bash_is_taken_where_the_shell_is_missing_or_fails(
    make_profile: MakeProfile, tmp_path: Path, reports: list[str], text: str | None
) -> None:
    shell = tmp_path / "strange-shell"
    if text is not None:
        shell.write_text(text)
        shell.chmod(0o755)
    made = make_profile(str(shell), ".bash_profile", "export FROM=bash\nf() { :; }\n")
    snapshot = await made.load_current()
    assert snapshot.variables["FROM"] == "bash"
    assert "f" in snapshot.names
    [said] = reports
    assert said.startswith(f"{shell}: ")
    assert said.endswith("The profile of bash is used instead.")

"""The person's profile: sourced once, for the variables of every command and the functions and aliases of some."""

import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.running import profile as shell_profile
from ostler.tools.shell.running.profile import ProfileSnapshot, ShellProfile
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import ToolResult
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()
WriteProfile = Callable[..., ShellProfile]


@pytest.fixture
def reports() -> list[str]:
    """The messages about profiles that could not be used."""
    return []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "person"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.fixture
def write_profile(home: Path, tmp_path: Path, reports: list[str], monkeypatch: pytest.MonkeyPatch) -> WriteProfile:
    monkeypatch.setattr(shell_profile, "TIME_LIMIT", 2.0)

    def write(text: str, name: str = ".bash_profile") -> ShellProfile:
        (home / name).write_text(text)
        return ShellProfile(tmp_path / "data", reports.append)

    return write


async def run_command(session: Session, command: str, *, only_reads: bool = False) -> str:
    context = replace(session.make_context(), only_reads=only_reads)
    result = await session.call(BASH, {"command": command}, context)
    assert isinstance(result, ToolResult)
    return str(result.output.stdout)


async def test_variables_functions_and_aliases_are_there_for_what_was_allowed(
    session: Session, write_profile: WriteProfile
) -> None:
    session.change_config(profile=write_profile("export WHO=me\ngreet() { echo \"hi $1\"; }\nalias ll='echo listed'\n"))
    assert await run_command(session, "echo $WHO; greet you; ll") == "me\nhi you\nlisted\n"


async def test_folders_of_the_path_that_a_profile_does_not_know_stay_in_front(
    session: Session, write_profile: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/venv/bin:/usr/bin:/bin")
    session.change_config(profile=write_profile("PATH=/own/bin:/usr/bin:/bin\n"))
    assert await run_command(session, "echo $PATH") == "/venv/bin:/own/bin:/usr/bin:/bin\n"


async def test_a_command_that_only_reads_has_the_variables_and_means_just_its_words(
    session: Session, write_profile: WriteProfile
) -> None:
    session.change_config(
        profile=write_profile("export WHO=me\nls() { echo a function; }\nalias cat='echo an alias'\n")
    )
    (session.folder / "file").write_text("content\n")
    assert await run_command(session, "ls; cat file", only_reads=True) == "file\ncontent\n"
    assert await run_command(session, "ls; cat file") == "a function\nan alias file\n"
    assert await run_command(session, "echo $WHO", only_reads=True) == "me\n"


async def test_what_the_person_gave_the_session_stands_above_the_profile(
    session: Session, write_profile: WriteProfile
) -> None:
    session.change_view(environment={"A": "session"})
    session.change_config(profile=write_profile("export A=profile B=profile PAGER=less GIT_EDITOR=vi\n"))
    assert await run_command(session, "echo $A $B $PAGER $GIT_EDITOR") == "session profile cat true\n"


async def test_what_a_profile_takes_away_is_gone(
    session: Session, write_profile: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNWANTED", "1")
    session.change_config(profile=write_profile("unset UNWANTED\n"))
    assert await run_command(session, "echo ${UNWANTED-gone}") == "gone\n"


async def test_our_secrets_and_what_meddles_with_the_shell_do_not_come_by_way_of_the_profile(
    session: Session, write_profile: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_TOKEN", "sesame")
    text = (
        "export SEEN=${OSTLER_TOKEN-none} ANTHROPIC_API_KEY=x BASH_ENV=/dev/stdin IFS=x PROMPT_COMMAND=ls\n"
        "function f { :; }; export -f f\n"
    )
    snapshot = await write_profile(text).load_current()
    assert snapshot.variables["SEEN"] == "none"
    assert not {"ANTHROPIC_API_KEY", "BASH_ENV", "IFS", "PROMPT_COMMAND"} & set(snapshot.variables)
    assert not [name for name in snapshot.variables if name.startswith("BASH_FUNC")]


async def test_the_functions_are_in_a_private_file(write_profile: WriteProfile) -> None:
    snapshot = await write_profile("f() { echo; }\n").load_current()
    assert snapshot.definitions is not None
    assert stat.S_IMODE(os.stat(snapshot.definitions).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(snapshot.definitions)).st_mode) == 0o700
    assert "f" in snapshot.names


async def test_any_function_and_alias_comes_back_as_it_was(session: Session, write_profile: WriteProfile) -> None:
    text = (
        "shopt -s extglob\n"
        "f() { case $1 in !(a|b)) echo other;; *) echo ab;; esac; cat <<'END'\nin a 'heredoc' $x\nEND\n}\n"
        "my-name() { echo dashed; }\nalias q='echo \"it is\"'\nalias -- -='echo minus'\nshift() { echo wrong; }\n"
    )
    session.change_config(profile=write_profile(text))
    assert await run_command(session, "f c; my-name; q; echo $#") == "other\nin a 'heredoc' $x\ndashed\nit is\n0\n"


async def test_the_start_of_interactive_shells_is_taken_where_there_is_no_profile(
    session: Session, write_profile: WriteProfile
) -> None:
    session.change_config(profile=write_profile("export FROM=bashrc\n", ".bashrc"))
    assert await run_command(session, "echo $FROM") == "bashrc\n"


GUARDED = "case $- in *i*) ;; *) return ;; esac\nexport BELOW=1\nalias ll='echo listed'\nshort() { echo short; }\n"
"""As Debian's own begins: it defines nothing where nobody is to type."""


async def test_what_is_only_defined_for_a_terminal_is_there_too(
    session: Session, write_profile: WriteProfile, home: Path, reports: list[str]
) -> None:
    (home / ".bashrc").write_text(GUARDED)
    session.change_config(profile=write_profile("export ABOVE=1\n. ~/.bashrc\n", ".profile"))
    assert await run_command(session, "echo $ABOVE$BELOW; ll; short") == "11\nlisted\nshort\n"
    assert reports == []


@pytest.mark.parametrize("becomes", ["exec sh", "exit 1", "sleep 100"])
async def test_a_profile_that_goes_elsewhere_in_a_terminal_is_asked_as_a_script_would(
    session: Session, write_profile: WriteProfile, reports: list[str], becomes: str
) -> None:
    session.change_config(profile=write_profile(f"export ABOVE=1\ncase $- in *i*) {becomes} ;; esac\nexport BELOW=1\n"))
    assert await run_command(session, "echo $ABOVE$BELOW") == "11\n"
    assert reports == []


async def test_aliases_that_ask_back_are_left_out_since_nobody_answers(
    session: Session, write_profile: WriteProfile
) -> None:
    text = "alias rm='rm -i' cp='cp -vi' mv='mv --interactive' ln='ln -v'\nalias mkdir='mkdir -v'\n"
    session.change_config(profile=write_profile(text))
    shown = await run_command(session, "touch a b; cp a b; rm a; mkdir c; ln b d; alias")
    assert sorted(path.name for path in session.folder.iterdir()) == ["b", "c", "d"]
    assert "alias ln='ln -v'" in shown
    assert "alias rm" not in shown


async def test_aliases_of_a_terminal_do_not_meddle_with_the_question(
    session: Session, write_profile: WriteProfile
) -> None:
    text = "alias for='exit 1' [='exit 1' declare='exit 1' builtin='exit 1' printf='exit 1'\nexport FINE=1\n"
    session.change_config(profile=write_profile(text))
    assert await run_command(session, "\\echo $FINE") == "1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sleep 100\n", "longer than"),
        ("export GOOD=1\nexit 3\n", "ends the shell"),
        ("exec true\n", "becomes another program"),
        ("exec cat /dev/zero\n", "longer than"),
        ("trap '' TERM INT HUP; while :; do :; done\n", "longer than"),
        ("read -p 'who? ' x </dev/tty || sleep 100\n", "longer than"),
        ("x() { " + ": aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;\n" * 80_000 + "}\n", "more than"),
    ],
)
async def test_a_profile_that_cannot_be_used_is_harmless_and_told_once(
    session: Session,
    write_profile: WriteProfile,
    reports: list[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    words: str,
) -> None:
    used = write_profile(text)
    if words == "longer than":  # no limit is long enough for these, and some keep a processor busy until it
        monkeypatch.setattr(shell_profile, "TIME_LIMIT", 0.2)
        monkeypatch.setattr(shell_profile, "_GRACE_SECONDS", 0.1)
    session.change_config(profile=used)
    began = time.monotonic()
    assert await run_command(session, "echo ran") == "ran\n"
    assert time.monotonic() - began < 15
    assert await run_command(session, "echo ${GOOD-none}") == "none\n"
    assert len(reports) == 1
    assert words in reports[0]


async def test_what_a_profile_prints_and_fails_at_is_nobodys_news(
    session: Session, write_profile: WriteProfile, reports: list[str]
) -> None:
    session.change_config(
        profile=write_profile("echo noise; echo more >&2; false; set -eu; export A=1; cd /; IFS=:; set -f; PATH=\n")
    )
    assert await run_command(session, 'echo "$A"; builtin pwd') == f"1\n{session.folder}\n"
    assert reports == []


async def test_nothing_that_a_profile_starts_lives_on(write_profile: WriteProfile, home: Path) -> None:
    text = "(setsid sleep 1000 & echo $! >$HOME/one)\nsleep 1000 & echo $! >$HOME/two; disown\nexport A=1\n"
    snapshot = await write_profile(text).load_current()
    assert snapshot.variables["A"] == "1"
    for name in ("one", "two"):
        pid = int((home / name).read_text())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_sixteen_that_wait_for_a_profile_keep_nobody_from_a_file(write_profile: WriteProfile, home: Path) -> None:
    used = write_profile("touch $HOME/begun; until [ -e $HOME/go ]; do sleep 0.05; done; export A=1\n")
    async with anyio.create_task_group() as group:
        for _ in range(16):
            group.start_soon(used.load_current)
        await poll_until((home / "begun").exists)
        assert await read_in_thread((home / "begun").read_text) == ""
        (home / "go").touch()
    snapshot = used.get_cached()
    assert snapshot is not None
    assert snapshot.variables["A"] == "1"


async def test_who_waits_behind_one_that_gave_up_has_the_profile_too(write_profile: WriteProfile, home: Path) -> None:
    used = write_profile("echo $$ >>$HOME/begun; until [ -e $HOME/go ]; do sleep 0.05; done; export A=1\n")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(used.load_current)
            await poll_until((home / "begun").exists)
            scope.cancel()
    given_up = int((home / "begun").read_text())
    assert not is_alive(given_up)
    (home / "go").touch()
    assert (await used.load_current()).variables["A"] == "1"


async def test_an_agent_that_ended_with_the_profile_is_not_pointed_to(write_profile: WriteProfile) -> None:
    given = (
        await write_profile("export SSH_AUTH_SOCK=/tmp/x SSH_AGENT_PID=1 SHLVL=9 OTHER=1\n").load_current()
    ).variables
    assert "OTHER" in given
    assert not {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "SHLVL", "PWD", "_"} & set(given)


async def test_a_change_is_noticed_and_nothing_else_is_sourced_again(
    write_profile: WriteProfile, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = write_profile("echo x >>$HOME/count; export A=1\n")
    assert (await used.load_current()).variables["A"] == "1"
    assert (await used.load_current()).variables["A"] == "1"
    assert (home / "count").read_text() == "x\n"
    assert used.get_cached() == await used.load_current()
    monkeypatch.setattr(shell_profile, "LOOK_EVERY", -1.0)
    assert used.get_cached() is None, "it is time to look"
    (home / ".bash_profile").write_text("echo x >>$HOME/count; export A=22\n")
    assert (await used.load_current()).variables["A"] == "22"
    assert (home / "count").read_text() == "x\nx\n"


async def test_it_costs_a_command_nothing_that_could_be_measured(write_profile: WriteProfile) -> None:
    used = write_profile("".join(f"export A{number}=1\n" for number in range(100)))
    await used.load_current()
    before = time.thread_time()
    for _ in range(1000):
        snapshot = used.get_cached()
        assert snapshot is not None
        snapshot.apply_to(os.environ)
    assert (time.thread_time() - before) < 0.2, "a thousand times 0.2 ms"


def test_an_empty_one_changes_nothing() -> None:
    assert ProfileSnapshot().apply_to({"A": "1"}) == {"A": "1"}


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("true", False),
        ("make test && ls -l | head", False),
        ("greet", True),
        ("ls; greet you", True),
        ("'greet'", True),
        ("\\greet", True),
        ("$x", True),
        ("gre''et", True),
        ("eval 'gre''et'", True),
        (". ./script", True),
        ("if true; then ls; fi", True),
        ("sh -c greeting", False),
    ],
)
async def test_many_functions_are_read_only_for_commands_that_may_use_them(
    write_profile: WriteProfile, command: str, needed: bool
) -> None:
    assert (await write_profile("greet() { echo; }\n").load_current()).may_be_used_by(command) is needed


async def test_a_handler_of_unknown_commands_is_always_there(session: Session, write_profile: WriteProfile) -> None:
    session.change_config(profile=write_profile('command_not_found_handle() { echo "no $1"; }\n'))
    assert await run_command(session, "unheard-of") == "no unheard-of\n"

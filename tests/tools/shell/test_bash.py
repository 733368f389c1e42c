"""Bash: what a command sees, what the model sees of it, and how it ends."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.tools.call_subject import find_rule_text
from ostler.tools.formats import terminal_text
from ostler.tools.formats.terminal_text import clean_ahead, clean_for_model
from ostler.tools.shell import base
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.output.text import explain_exit_code
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.running import command as running_command
from ostler.tools.shell.sleep_detection import begins_with_sleep, only_sleeps
from ostler.tools.tool import AskFirst, Failure, FolderChanged
from tests.support.clock import expire_limit_when
from tests.support.tables import try_each
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()


async def run_text(session: Session, command: str, **given: Any) -> str:
    return await session.expect_text(BASH, command=command, **given)


async def test_both_streams_come_in_the_order_written(session: Session) -> None:
    assert await run_text(session, "echo one; echo two >&2; echo three") == "one\ntwo\nthree"


async def test_the_exit_code_is_told_only_when_it_matters(session: Session) -> None:
    assert await run_text(session, "true") == ""
    result = await session.expect_result(BASH, command="echo no; exit 3")
    assert result.is_error
    assert BASH.render(result.output)[0]["text"] == "no\n(exit code 3)"


async def test_no_match_of_grep_is_no_error(session: Session) -> None:
    result = await session.expect_result(BASH, command="echo a | grep b")
    assert not result.is_error
    assert BASH.render(result.output)[0]["text"] == "(exit code 1: no match)"


@try_each(
    ("command", "harmless"),
    [
        ("grep a f", True),
        ("cat f | /usr/bin/grep -q 'a && b'", True),
        ("A=1 rg x; ", True),
        ("ls; diff a b", True),
        ("echo\ntest -f x", True),
        ("[ -f x ]", True),
        ("find / -name x 2>/dev/null", True),
        ("cd src && grep a f", True),
        ("cd '/a b' && cat f | rg x", True),
        ("cd src && make && grep a f", False),
        ("cd src || grep a f", False),
        ("cd $(make) && grep a f", False),
        ("cd a 2>/dev/null && grep a f", False),
        ("false && grep a f", False),
        ("grep a f && make", False),
        ("grep a f || false", False),
        ("(grep a f)", False),
        ("echo $(grep a f)", False),
        ("make", False),
        ("grep 'a", False),
        ("", False),
    ],
)
def test_exit_code_one_is_harmless_only_where_the_last_program_says_so(command: str, harmless: bool) -> None:
    assert (explain_exit_code(command, 1) is not None) is harmless
    assert explain_exit_code(command, 2) is None


async def test_no_match_in_a_folder_that_is_not_there_is_an_error(session: Session) -> None:
    (session.folder / "sub").mkdir()
    (session.folder / "sub" / "f").touch()
    assert await run_text(session, "cd sub && grep a f") == "(exit code 1: no match)"
    result = await session.expect_result(BASH, command="cd none && grep a f")
    assert result.is_error
    assert "cd: none: No such file or directory" in result.output.stdout


def measure_milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of this thread's own time, so that a busy machine does not count; the best of some."""
    found = []
    for _ in range(5):
        before = time.thread_time()
        work()
        found.append((time.thread_time() - before) * 1000)
    return min(found)


@try_each("length", [1_200, 100_000])
@try_each("part", ["a\n", "a|", "word ", "'", "''", "(", "&", ";", "\\", "#", "A=1 ", "x", " ", "sleep 1 ", "\n"])
def test_a_command_is_judged_at_once_whatever_it_is(part: str, length: int) -> None:
    command = (part * length)[: length - 8] + " grep x"
    assert measure_milliseconds(lambda: explain_exit_code(command, 1)) < 5


async def test_a_signal_is_told_by_its_name(session: Session) -> None:
    for command in ("kill -SEGV $$", "bash -c 'kill -SEGV $$'"):
        result = await session.expect_result(BASH, command=command)
        assert result.is_error
        assert result.output.signal == "SIGSEGV"
        assert "(ended by SIGSEGV)" in BASH.render(result.output)[0]["text"]


async def test_the_folder_stays_inside_the_roots(session: Session, tmp_path: Path) -> None:
    (session.folder / "sub dir").mkdir()
    result = await session.expect_result(BASH, command="cd 'sub dir'; false")
    assert result.changes == [FolderChanged(str(session.folder / "sub dir"))]
    session.change_view(shell_folder=str(session.folder / "sub dir"))
    assert await run_text(session, "pwd") == str(session.folder / "sub dir")
    result = await session.expect_result(BASH, command=f"cd {tmp_path}; exit 0")
    assert result.changes == []
    assert "outside the session's folders" in BASH.render(result.output)[0]["text"]


async def test_a_command_with_an_end_of_its_own_still_says_where_it_was(session: Session) -> None:
    (session.folder / "sub").mkdir()
    result = await session.expect_result(BASH, command="trap 'echo bye $?' EXIT; cd sub; false")
    assert (result.output.stdout, result.output.exit_code) == ("bye 1\n", 1)
    assert result.changes == [FolderChanged(str(session.folder / "sub"))]


@pytest.mark.parametrize("end", ["false", "exit 1", "set -e; false; echo no"])
async def test_a_command_that_shows_what_it_runs_shows_nothing_of_ours(session: Session, end: str) -> None:
    command = f"trap 'echo \"> $BASH_COMMAND\"' DEBUG; PS4='+ '; set -x; cd /; {end}"
    shown = (await session.expect_result(BASH, command=command)).output.stdout
    assert "cd /" in shown
    assert "pwd" not in shown
    assert "builtin" not in shown


async def test_a_folder_that_is_gone_is_replaced_by_the_sessions_own(session: Session) -> None:
    gone = session.folder / "gone"
    gone.mkdir()
    session.change_view(shell_folder=str(gone))
    result = await session.expect_result(BASH, command="cd ..; rmdir gone; mkdir x; cd x; rmdir ../x")
    assert not result.changes
    result = await session.expect_result(BASH, command="pwd")
    assert result.output.stdout == f"{session.folder}\n"
    assert "is gone" in result.output.stderr
    assert result.changes == [FolderChanged(str(session.folder))]


async def test_nothing_else_stays(session: Session) -> None:
    await session.expect_result(BASH, command="export A=1; f() { :; }; alias x=ls; set -e")
    assert await run_text(session, 'echo "$A"; type f x 2>/dev/null; false; echo $-') == "\nhBc"


async def test_there_is_no_folder_before_the_first_one(session: Session) -> None:
    """The daemon's own would be `/`, and what comes after a `cd -` may delete things."""
    shown = await run_text(session, "cd - && echo went; pwd")
    assert shown == f"bash: line 1: cd: OLDPWD not set\n{session.folder}"


async def test_the_command_sees_no_secret_of_ours(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OSTLER_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "RIPGREP_CONFIG_PATH"):
        monkeypatch.setenv(name, "sesame")
    monkeypatch.setenv("BASH_ENV", "/dev/stdin")
    monkeypatch.setenv("OWN", "kept")
    session.change_view(environment={"GIVEN": "given", "PAGER": "more"})
    shown = (await run_text(session, "env")).split("\n")
    assert not [line for line in shown if "sesame" in line or line.startswith("BASH_ENV")]
    expected = {"OWN=kept", "GIVEN=given", "PAGER=more", "GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0"}
    assert expected <= set(shown)


async def test_input_is_at_its_end(session: Session) -> None:
    assert await run_text(session, "cat; read x || echo end; readlink /proc/self/fd/0") == "end\n/dev/null"


async def test_the_command_has_the_persons_mask_and_signals(session: Session) -> None:
    session.change_config(umask=0o027)
    assert await run_text(session, "umask; yes | head -1; echo ${PIPESTATUS[0]}") == "0027\ny\n141"


async def test_any_command_reaches_the_shell_as_it_is(session: Session) -> None:
    assert await run_text(session, "-v") == "bash: line 1: -v: command not found\n(exit code 127)"
    assert await run_text(session, "cat <<'X'\n$a 'b' \"c\" \\d\nX") == "$a 'b' \"c\" \\d"
    assert "syntax error" in await run_text(session, "if then")
    assert await run_text(session, "echo $# $0; trap 'echo bye' EXIT") == "0 bash\nbye"


async def test_an_error_of_the_shell_is_about_the_command_and_nothing_of_ours(session: Session) -> None:
    said = "bash: eval: line 1: syntax error near unexpected token `)'\nbash: eval: line 1: `echo hi )'\n(exit code 2)"
    assert await run_text(session, "echo hi )") == said
    assert await run_text(session, 'echo "$BASH_EXECUTION_STRING"') == 'echo "$BASH_EXECUTION_STRING"'


async def test_output_is_cleaned_for_the_model_and_kept_for_clients(session: Session) -> None:
    result = await session.expect_result(BASH, command=r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\n\xff\0\n'")
    assert result.output.stdout == "\x1b[31mred\x1b[0m\n10%\r50%\r100%\n\ufffd\0\n"
    assert BASH.render(result.output)[0]["text"] == "red\n100%\n\ufffd"
    assert clean_for_model("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 a\r\nb\r") == "link a\nb"


def test_long_output_is_cleaned_as_short_output_is() -> None:
    part = "\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 a\r\n10%\r\x1b[1;31m20%\x1b[m\r\n\x1bPq\x1b\\\x1bc中\0\n"
    assert clean_for_model(part) == "link a\n20%\n中\n"
    output = part * 5000
    assert clean_for_model(output) == "link a\n20%\n中\n" * 5000
    clean_ahead(output)
    assert clean_for_model(output) == "link a\n20%\n中\n" * 5000
    assert clean_for_model("\r\r\na\r\r\n" * 20_000) == "\na\n" * 20_000


def test_outputs_that_nobody_asks_for_are_forgotten() -> None:
    for number in range(100):
        clean_ahead(f"{number}\0" + "x" * 20_000)
    assert len(terminal_text._cleaned_ahead) <= terminal_text._MAX_AHEAD
    assert clean_for_model("0\0" + "x" * 20_000) == "0" + "x" * 20_000


@pytest.mark.parametrize(
    "part", ["\\033[31mx\\033[0m", "\\033", "\\033]", "x\\033[\\r\\n", "\\r", "a\\rb\\n", "\\001é"]
)
async def test_a_megabyte_of_output_is_cleaned_beside_the_event_loop(session: Session, part: str) -> None:
    command = f"s=$(printf '{part}%.0s' {{1..1000}}; echo .); for i in {{1..1000}}; do printf %s \"${{s%.}}\"; done"
    output = (await session.expect_result(BASH, command=command)).output
    assert len(output.stdout.encode()) > 900_000
    before = time.thread_time()
    shown = BASH.render(output)[0]["text"]
    assert (time.thread_time() - before) * 1000 < 20
    assert "\x1b" not in shown
    assert "\r" not in shown


async def test_characters_are_whole_wherever_the_output_is_cut_for_reading(session: Session) -> None:
    result = await session.expect_result(
        BASH, command="printf x; for i in {1..30000}; do printf '中é'; done; printf '\\xe4\\xb8'"
    )
    assert result.output.stdout == "x" + "中é" * 30_000 + "\ufffd"


async def test_of_very_long_output_the_beginning_and_the_end_are_kept(session: Session) -> None:
    result = await session.expect_result(
        BASH, command="echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"
    )
    stdout = result.output.stdout
    assert stdout.startswith("first\n")
    assert stdout.endswith("\nlast\n")
    assert len(stdout) < 1_100_000
    assert "bytes left out" in stdout


async def test_output_without_end_is_stopped(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_command, "MAX_BYTES", 1_000_000)
    result = await session.expect_result(BASH, command="yes")
    assert result.is_error
    assert "printed more than" in result.output.stderr


async def test_a_timeout_ends_it_and_returns_what_was_printed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    command = "echo so far; touch ready; while :; do sleep 1; done"
    result = await session.expect_result(BASH, command=command, timeout=limit)
    assert result.is_error
    assert result.output.timed_out
    shown = BASH.render(result.output)[0]["text"]
    assert shown.startswith("so far\n")
    assert "Timed out after 600 s" in shown


async def test_a_timeout_is_not_over_before_its_time(session: Session) -> None:
    result = await session.expect_result(BASH, command="while :; do sleep 1; done", timeout=300)
    assert result.output.timed_out
    assert "Timed out after 0.3 s" in result.output.stderr
    assert result.output.duration_ms >= 300


async def test_the_timeout_has_bounds_that_the_environment_can_move(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert base.read_timeouts() == (120_000, 600_000)
    assert "600000" in (await session.expect_failure(BASH, command="true", timeout=600_001)).message
    assert (await session.expect_failure(BASH, command="true", timeout=0)).message
    monkeypatch.setenv("BASH_DEFAULT_TIMEOUT_MS", "700000")
    monkeypatch.setenv("BASH_MAX_TIMEOUT_MS", "rubbish")
    assert base.read_timeouts() == (700_000, 700_000)
    assert "700000" in BASH.description(session.view)


async def test_progress_comes_while_it_runs(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_command, "_PROGRESS_AFTER", 0.1)
    monkeypatch.setattr(running_command, "_PROGRESS_EVERY", 0.1)
    (session.folder / "gate").touch()
    result: list[str] = []

    async def run() -> None:
        result.append(await run_text(session, "echo one; while [ -e gate ]; do sleep 0.05; done; echo two"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await poll_until(lambda: any("one" in data["output"] for data in session.progress))
        (session.folder / "gate").unlink()
    assert result == ["one\ntwo"]
    assert session.progress[0]["lines"] == 1
    assert "".join(data["output"] for data in session.progress) == "one\n"


async def test_the_output_file_is_private_and_does_not_stay(session: Session) -> None:
    shown = await run_text(session, f"stat -c %a {session.outputs} {session.outputs}/call-*.out")
    assert shown == "700\n600"
    await poll_until(lambda: not list(session.outputs.iterdir()))


@try_each(
    ("command", "refused"),
    [
        ("sleep 5", True),
        ("  sleep 2; ls", True),
        ("sleep 1m && ls", True),
        ("sleep 30 | cat", True),
        ("# give the server time\n\n  # to start\nsleep 5\nls", True),
        ("sleep 5 # seconds", True),
        ("sleep 5 \n ls", True),
        ("sleep 5 2>/dev/null; ls", True),
        ("sleep 5 >/dev/null 2>&1 && ls", True),
        ("sleep 5 &>log", True),
        ("sleep 5 >/dev/null & ls", False),
        ("sleep 5#", False),
        ("# sleep 5\nls", False),
        ("echo a # b\nsleep 5", False),
        ("sleep 1", False),
        ("sleep 0.5; ls", False),
        ("sleep 5 & ls", False),
        ("sleeper 5", False),
        ("ls; sleep 5", False),
        ('sleep "5"', True),
        ("'sleep' 5", True),
        ("\\sleep 5", True),
        ("/usr/bin/sleep 5", True),
        ("sleep -- 5", True),
        ("sleep 1e1", True),
        ("sleep 0x5", True),
        ("sleep 0x1p5 # half a minute", True),
        ("sleep 0x1p99999", True),
        ("sleep +5", True),
        ("sleep .5 1.5", True),
        ("sleep infinity", True),
        ("LC_ALL=C sleep 5", True),
        ("{ sleep 5; }; ls", True),
        ("(sleep 5)", True),
        ("! sleep 5", True),
        ("command sleep 5", True),
        ("time sleep 5", True),
        ("env -i A=1 sleep 5", True),
        ("timeout 10 sleep 5", True),
        ("builtin command nice -n 5 sleep 5", True),
        ("bash -c 'sleep 5; ls'", True),
        ("bash -c 'ls; sleep 5'", False),
        ("if sleep 5; then ls; fi", True),
        ("while sleep 5; do ls; done", False),
        ("until ls; do sleep 5; done", False),
        ("for i in 1 2; do sleep 5; ls; done", False),
        ("f() { sleep 5; }; ls", False),
        ("echo $(sleep 5)", False),
        ("trap 'sleep 5' EXIT; ls", False),
        ("find . -exec sleep 5 ';'", False),
        ("coproc sleep 5; ls", False),
        ("sleep $pause", False),
        ("sleep", False),
        ("sleep nan", False),
        ("sleep 5 x", False),
        ("sleep -5", False),
        ("echo sleep 5", False),
    ],
)
def test_a_command_that_begins_by_waiting_is_recognised(command: str, refused: bool) -> None:
    assert begins_with_sleep(command) is refused


@try_each(
    ("command", "only"),
    [
        ("sleep 1; sleep 0.5", True),
        ("timeout 3 sleep $pause", True),
        ("(sleep 1) && bash -c 'sleep 1'", True),
        ("bash -c 'sleep 1; ls'", False),
        ("sleep 1 | cat", False),
        ("echo sleep", False),
        ("while true; do sleep 1; done", False),
    ],
)
def test_a_command_that_does_nothing_but_wait_is_recognised(command: str, only: bool) -> None:
    assert only_sleeps(command) is only


@pytest.mark.parametrize(
    ("command", "words"),
    [("", "empty"), (" \n", "empty"), ("a\0b", "NUL"), ("x" * 200_000, "longer than"), ("sleep 60", "waiting")],
)
async def test_bad_input_is_a_clear_failure(session: Session, command: str, words: str) -> None:
    failure = await session.call(BASH, {"command": command})
    assert isinstance(failure, Failure)
    assert words in failure.message


async def test_the_longest_command_that_is_taken_runs(session: Session) -> None:
    command = "echo " + "'" * 2 * 24_000 + "x" * 50_000  # quotes would grow if they were quoted once more
    assert len(await run_text(session, command)) == 50_000


async def test_what_is_not_in_the_table_is_asked_and_rules_see_the_command(session: Session) -> None:
    check = await session.check(BASH, command="rm -rf /")
    assert isinstance(check, AskFirst)
    assert not check.safety
    assert check.reason == "`rm -rf /`: rm is not in the table of programs that only read."
    given = BASH.parse({"command": "git  status"})
    assert find_rule_text(BASH, given) == "git  status"
    assert BASH.summary(given) == "git status"
    assert BASH.is_read_only(given)
    assert BASH.is_concurrency_safe(given)
    moving = BASH.parse({"command": "cd src"})
    assert BASH.is_read_only(moving)
    assert not BASH.is_concurrency_safe(moving), "the next command starts where this one went"


async def test_a_session_without_a_folder_is_a_failure(session: Session) -> None:
    session.folder.rmdir()
    assert "does not exist any more" in (await session.expect_failure(BASH, command="true")).message


async def test_many_commands_run_side_by_side(session: Session) -> None:
    results: list[str] = []

    async def one(number: int) -> None:
        results.append(await run_text(session, f"echo {number}"))

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert sorted(map(int, results)) == list(range(20))
    assert len(session.processes.started) == len(session.processes.ended) == 20
    assert not any(map(is_alive, (pid for _, pid, _ in session.processes.started)))


POWERSHELL = PowerShell()


# Without a terminal.


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo lost >/dev/tty", "No such device or address"),
        ("exec 1>&- 2>&-; exec cat", ""),
        ("printf 'no end of line'", "no end of line"),
    ],
)
async def test_there_is_no_terminal_to_ask_somebody_on(session: Session, command: str, shown: str) -> None:
    with anyio.fail_after(20):
        assert shown in await session.expect_text(BASH, command=command)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "true"), ("GIT_TERMINAL_PROMPT", "0")],
)
async def test_nothing_opens_a_pager_an_editor_or_a_question(session: Session, name: str, value: str) -> None:
    assert await session.expect_text(BASH, command=f"printenv {name}") == value


async def test_a_program_that_insists_on_a_terminal_gets_one_as_the_description_says(session: Session) -> None:
    described = re.search(r"`(printf .* \| script -qec 'COMMAND' /dev/null)`", BASH.description(session.view))
    assert described is not None
    command = described[1].replace("COMMAND", "test -t 0 && read answer && echo got $answer")
    shown = await session.expect_text(BASH, command=command)
    assert "got y" in shown.split("\n")

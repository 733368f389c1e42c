"""Commands that behave badly: each has a clear result, and nothing of it is left behind."""

import os
import re
import time
from pathlib import Path

import anyio
import psutil
import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.running import command as running_command
from ostler.tools.tool import Failure
from tests.support.clock import expire_limit_when
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()
_ALL_BYTES = "import sys; sys.stdout.buffer.write(bytes(each for each in range(256) if each != 27) * 400)"


def make_unique(command: str) -> str:
    """Puts numbers of this run alone into a command: others may run the same test on this machine."""
    return re.sub(r"\b(sleep|bomb|chain|for-ever-)( ?)(424\d)", rf"\1\2\3.{os.getpid()}", command)


def list_left_over(marker: str) -> list[int]:
    """Living processes that have a word of the test's in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if marker in " ".join(words) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return [pid for pid in found if is_alive(pid)]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("stty -echo raw; echo after", "after"),
        ("tput clear; reset; echo after", "after"),
        ("exec >&-; echo lost; true", ""),
        ("exec >&- 2>&-; echo lost", "(exit code 1)"),
        ("cat; echo after", "after"),
        ("read line; echo \"got '$line'\"", "got ''"),
        ("head -c 1; wc -c", "0"),
        ("python3 -c 'input()' 2>&1 | tail -1", "EOFError: EOF when reading a line"),
        ("exec 0<&-; cat 2>&1", "cat: -: Bad file descriptor"),
        ("tty", "not a tty"),
        ("PS1=x bash -i -c 'echo inside' 2>/dev/null", "inside"),
        ("set -o noclobber; exec 2>/dev/null; false; echo $?", "1"),
        ("trap '' EXIT; exit 0", ""),
    ],
)
async def test_a_command_that_meddles_with_its_terminal_or_its_streams(
    session: Session, command: str, shown: str
) -> None:
    with anyio.fail_after(20):
        text = await session.expect_text(BASH, command=command)
    assert shown in text
    assert len(session.processes.ended) == 1


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.pager='sleep 4248' log",
        "git -c user.name=A -c user.email=a@b.c commit --allow-empty",
        "GIT_EDITOR= git rebase -i --root",
        "git push https://127.0.0.1:1/x.git",
        "git clone ssh://nobody@127.0.0.1:1/x y",
    ],
)
async def test_no_pager_editor_or_question_of_git_blocks(session: Session, command: str) -> None:
    await session.expect_result(
        BASH,
        command="git init -q . && git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x",
    )
    with anyio.fail_after(20):
        await session.expect_result(BASH, command=make_unique(command), timeout=15_000)
    assert not list_left_over(f"4248.{os.getpid()}")


async def test_no_other_pager_blocks(session: Session) -> None:
    with anyio.fail_after(20):
        assert (await session.expect_text(BASH, command="$PAGER /dev/null; echo x | ${PAGER}")) == "x"


async def test_children_that_are_left_are_ended_and_named(session: Session) -> None:
    result = await session.expect_result(
        BASH,
        command=make_unique("sleep 4242 & (setsid sleep 4242 &); nohup sleep 4242 >/dev/null 2>&1 & disown; echo done"),
    )
    assert result.output.stdout == "done\n"
    assert result.output.stderr.startswith("What it had left running was ended: ")
    assert "sleep" in result.output.stderr
    assert not list_left_over(f"4242.{os.getpid()}")


async def test_many_processes_at_once_are_all_ended(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    command = "for i in {1..200}; do (exec -a bomb4243 sleep 4243) & done; echo started; touch ready; wait"
    result = await session.expect_result(BASH, command=make_unique(command), timeout=limit)
    assert result.is_error
    assert result.output.timed_out
    assert result.output.stdout.startswith("started\n")
    assert not list_left_over(f"4243.{os.getpid()}")


async def test_a_chain_that_forks_faster_than_one_can_look_is_ended(session: Session) -> None:
    # As a bomb does, but with an end: each passes the work on to its child, in a session of its own.
    script = 'n=$1; [ "$n" -gt 0 ] && { setsid bash "$0" $((n - 1)) & }; exec -a chain4244 sleep 4244'
    (session.folder / "chain.sh").write_text(make_unique(script))
    result = await session.expect_result(BASH, command="bash chain.sh 60; true", timeout=2000)
    assert result.output.timed_out
    assert not list_left_over(f"4244.{os.getpid()}")


@pytest.mark.usefixtures("short_grace")
async def test_what_ignores_the_wish_to_end_is_killed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    inner = 'trap "" TERM; echo ready; touch ready; while :; do sleep 4245; done'
    command = f"trap '' TERM INT HUP; bash -c '{inner}' & wait"
    with anyio.fail_after(30):
        result = await session.expect_result(BASH, command=make_unique(command), timeout=limit)
    assert result.output.timed_out
    # Where its child falls before it does, the shell says so.
    assert result.output.stdout.startswith("ready\n")
    assert not list_left_over(f"4245.{os.getpid()}")


async def test_a_shell_that_stops_itself_is_ended_in_time(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    looking = "until grep -q '^State:.T' /proc/$$/status; do sleep 0.02; done; touch ready"
    command = f"echo before; ({looking}) & kill -STOP $$ $BASHPID; echo after"
    with anyio.fail_after(30):
        result = await session.expect_result(BASH, command=command, timeout=limit)
    assert result.output.timed_out
    assert "before\n" in result.output.stdout
    await poll_until(lambda: not any(is_alive(pid) for _, pid, _ in session.processes.started))


async def test_what_prints_for_ever_is_ended_and_told_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_command, "MAX_BYTES", 2_000_000)
    with anyio.fail_after(30):
        result = await session.expect_result(BASH, command=make_unique("while :; do echo for-ever-4246; done"))
    assert result.is_error
    assert "printed more than" in result.output.stderr
    assert len(result.output.stdout) < 1_100_000
    assert not list_left_over(f"4246.{os.getpid()}")


async def test_binary_output_is_decoded_with_marks_for_what_is_no_text(session: Session) -> None:
    result = await session.expect_result(BASH, command=f"python3 -c '{_ALL_BYTES}'; echo; printf 'a\\0b\\xffc'")
    assert result.output.stdout.endswith("\na\0b\ufffdc")
    text = BASH.render(result.output)[0]["text"]
    assert text.endswith("\nab\ufffdc")
    text.encode()


async def test_progress_that_is_drawn_over_itself_is_shown_as_it_ended(session: Session) -> None:
    text = await session.expect_text(
        BASH, command=r"for i in {1..500}; do printf '\r\033[K%s of 500' $i; done; echo; echo end"
    )
    assert text == "500 of 500\nend"


@pytest.mark.parametrize(
    ("command", "name"), [("kill -9 $$", "SIGKILL"), ("kill $$", "SIGTERM"), ("bash -c 'kill -ABRT $$'", "SIGABRT")]
)
async def test_an_end_by_a_signal_is_told_by_its_name(session: Session, command: str, name: str) -> None:
    result = await session.expect_result(BASH, command=command)
    assert result.is_error
    assert f"(ended by {name})" in BASH.render(result.output)[0]["text"]


@pytest.mark.parametrize(
    "command",
    ["sleep 2", "sleep infinity", "sleep 1 1; ls", "\\sleep 5", "/bin/sleep 5 && ls", "/usr/bin/sleep 1m", "sleep .1h"],
)
async def test_a_first_statement_that_waits_is_refused_and_pointed_elsewhere(session: Session, command: str) -> None:
    refused = await session.call(BASH, {"command": command})
    assert isinstance(refused, Failure)
    for tool in ("Sleep", "TaskOutput", "Monitor"):
        assert tool in refused.message
    assert session.processes.started == []


@pytest.mark.parametrize("command", ["sleep 1.9", "sleep 0.5 0.5", "sleep", "sleep x", "sleep 5 &", "echo; sleep 0"])
async def test_a_short_wait_is_not(session: Session, command: str) -> None:
    assert not isinstance(await session.call(BASH, {"command": f"{command} \n true"}), Failure)


async def test_a_shell_that_is_replaced_still_tells_how_it_ended(session: Session) -> None:
    result = await session.expect_result(BASH, command="exec sh -c 'echo other; exit 7'")
    assert (result.output.stdout, result.output.exit_code) == ("other\n", 7)
    await poll_until(lambda: len(session.processes.ended) == 1)


POWERSHELL = PowerShell()


TIDY_SCRIPT = """
import signal, sys, time
def tidy(*_):
    time.sleep(0.7)
    open("tidy", "w").write("done")
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
open("ready", "w").close()
signal.pause()
"""


def _has_name(pid: str, name: str) -> bool:
    try:
        return name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def test_what_is_asked_to_end_has_time_to_tidy_up(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    (session.folder / "tidy.py").write_text(TIDY_SCRIPT)
    result = await session.expect_result(BASH, command="exec python3 tidy.py", timeout=limit)
    assert result.output.timed_out
    assert (session.folder / "tidy").read_text() == "done"


async def test_what_does_not_end_is_killed_after_two_seconds(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    command = "trap '' TERM; echo $BASHPID >pid; touch ready; while :; do read -t 0.05 <> <(:); done"
    began = time.monotonic()
    result = await session.expect_result(BASH, command=command, timeout=limit)
    assert result.output.timed_out
    assert time.monotonic() - began >= 2
    assert not is_alive(int((session.folder / "pid").read_text()))


async def test_a_tree_of_processes_that_doubles_itself_is_ended(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a fork bomb does, up to 255 processes."""
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    name = f"bomb.{os.getpid()}"
    script = (
        f'n=$1; if [ "$n" -gt 0 ]; then "$0" $((n-1)) & "$0" $((n-1)) & fi; echo >>count; exec -a {name} sleep 1000'
    )
    (session.folder / "bomb").write_text(f"#!/bin/bash\n{script}\n")
    (session.folder / "bomb").chmod(0o755)
    command = "./bomb 7 & until [ $(wc -l <count) -ge 255 ]; do sleep 0.05; done 2>/dev/null; touch ready; wait"
    with anyio.fail_after(60):
        result = await session.expect_result(BASH, command=command, timeout=limit)
    assert result.output.timed_out
    assert (session.folder / "count").read_text().count("\n") == 255
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _has_name(pid, name)]

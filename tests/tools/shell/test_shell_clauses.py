"""Bash and PowerShell, clause by clause: what other tests take for granted."""

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.write import Write
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import command as running_command
from tests.support.clock import time_is_over_when
from tests.support.tool_calls import Session, alive, until

pytestmark = pytest.mark.anyio
BASH, POWERSHELL = Bash(), PowerShell()


# What is offered and given back.


def test_the_output_tells_all_that_clients_are_promised() -> None:
    assert {
        "stdout", "stderr", "exit_code", "interrupted", "timed_out", "is_image", "background_task_id",
        "backgrounded_by", "return_code_interpretation", "no_output_expected", "persisted_result_id",
        "persisted_size", "sandboxed", "duration_ms", "git",
    } <= set(ShellOutput.model_fields)  # fmt: skip
    assert PowerShell.Output is Bash.Output is ShellOutput
    assert PowerShell.Input is Bash.Input
    assert (Bash.max_result_chars, PowerShell.max_result_chars) == (30_000, 30_000)


def test_the_descriptions_carry_the_rules_of_the_house(session: Session) -> None:
    bash = BASH.description(session.surroundings)
    for words in (
        "use Read, Glob, Grep, Edit and Write rather than cat, find, grep, sed or echo",
        "Commit, push or open a pull request only when you were asked to",
        "Never change git's configuration",
        "--no-verify",
        "never force-push or amend unless you were told to",
        "Add files by name",
    ):
        assert words in bash, words
    assert "Documentation, notes and READMEs only when they were asked for" in Write().description(session.surroundings)
    assert "Change existing files rather than adding new ones" in Edit().description(session.surroundings)


# How it ends.


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("echo a | grep b", "no match"),
        ("echo a >f; rg -q b f", "no match"),
        ("echo a >f; echo b >g; diff f g >/dev/null", "the files differ"),
        ("test -e nothing", "the condition is false"),
        ("[ 1 = 2 ]", "the condition is false"),
        ("find nothing 2>/dev/null", "some folders could not be looked into"),
    ],
)
async def test_exit_code_one_of_these_is_no_mistake(session: Session, command: str, meaning: str) -> None:
    if "rg " in command and shutil.which("rg") is None:
        pytest.skip("there is no rg on the PATH")
    result = await session.done(BASH, command=command)
    assert (result.is_error, result.output.exit_code) == (False, 1)
    assert result.output.return_code_interpretation == meaning
    assert BASH.render(result.output)[0]["text"].endswith(f"(exit code 1: {meaning})")


@pytest.mark.parametrize("command", ["grep a nothing", "diff nothing none", "[ 1 -eq x ]"])
async def test_exit_code_two_of_the_same_is_one(session: Session, command: str) -> None:
    result = await session.done(BASH, command=command)
    assert (result.is_error, result.output.exit_code) == (True, 2)
    assert result.output.return_code_interpretation is None


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("rg needle", "no match"),
        ("Get-Content a.txt | grep needle", "no match"),
        ("Get-Date; diff a b", "the files differ"),
        ("make; false && grep a b", None),
        ("grep a b || false", None),
        ("grep a b; make", None),
        ("grep $pattern b", None),
        ("Select-String a b", None),
    ],
)
def test_powershell_knows_the_same_exit_codes(command: str, meaning: str | None) -> None:
    assert POWERSHELL.harmless(command) == meaning


TIDY = """
import signal, sys, time
def tidy(*_):
    time.sleep(0.7)
    open("tidy", "w").write("done")
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
open("ready", "w").close()
signal.pause()
"""


async def test_what_is_asked_to_end_has_time_to_tidy_up(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = time_is_over_when(session.folder / "ready", monkeypatch)
    (session.folder / "tidy.py").write_text(TIDY)
    result = await session.done(BASH, command="exec python3 tidy.py", timeout=limit)
    assert result.output.timed_out
    assert (session.folder / "tidy").read_text() == "done"


async def test_what_does_not_end_is_killed_after_two_seconds(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = time_is_over_when(session.folder / "ready", monkeypatch)
    command = "trap '' TERM; echo $BASHPID >pid; touch ready; while :; do read -t 0.05 <> <(:); done"
    began = time.monotonic()
    result = await session.done(BASH, command=command, timeout=limit)
    assert result.output.timed_out
    assert time.monotonic() - began >= 2
    assert not alive(int((session.folder / "pid").read_text()))


async def test_a_tree_of_processes_that_doubles_itself_is_ended(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a fork bomb does, up to 255 processes."""
    limit = time_is_over_when(session.folder / "ready", monkeypatch)
    name = f"bomb.{os.getpid()}"
    script = (
        f'n=$1; if [ "$n" -gt 0 ]; then "$0" $((n-1)) & "$0" $((n-1)) & fi; echo >>count; exec -a {name} sleep 1000'
    )
    (session.folder / "bomb").write_text(f"#!/bin/bash\n{script}\n")
    (session.folder / "bomb").chmod(0o755)
    command = "./bomb 7 & until [ $(wc -l <count) -ge 255 ]; do sleep 0.05; done 2>/dev/null; touch ready; wait"
    with anyio.fail_after(60):
        result = await session.done(BASH, command=command, timeout=limit)
    assert result.output.timed_out
    assert (session.folder / "count").read_text().count("\n") == 255
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_called(pid, name)]


def _is_called(pid: str, name: str) -> bool:
    try:
        return name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


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
        assert shown in await session.text(BASH, command=command)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "true"), ("GIT_TERMINAL_PROMPT", "0")],
)
async def test_nothing_opens_a_pager_an_editor_or_a_question(session: Session, name: str, value: str) -> None:
    assert await session.text(BASH, command=f"printenv {name}") == value


# While it runs.


async def test_progress_comes_after_two_seconds_and_then_every_second(session: Session) -> None:
    told: list[float] = []
    record = session.progress.append
    began = time.monotonic()

    class Noting(list[dict[str, object]]):
        def append(self, data: dict[str, object]) -> None:
            told.append(time.monotonic() - began)
            record(data)

    session.progress = Noting()

    async def go() -> None:
        await until(lambda: len(told) >= 3)
        (session.folder / "go").touch()

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await session.done(BASH, command="echo one; until [ -e go ]; do sleep 0.05; done")
    assert [seconds >= least for seconds, least in zip(told, (2, 3, 4), strict=False)] == [True, True, True]


async def test_a_short_command_tells_nothing_on_its_way(session: Session) -> None:
    await session.done(BASH, command="echo one")
    assert session.progress == []


async def test_of_very_much_output_the_disk_holds_the_beginning_and_the_end(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_command, "_PROGRESS_AFTER", 0.05)
    monkeypatch.setattr(running_command, "_PROGRESS_EVERY", 0.05)
    megabyte = 1024 * 1024

    def held() -> int:
        [path] = session.outputs.glob("*.out")
        return os.stat(path).st_blocks * 512 if os.stat(path).st_size > 200 * megabyte else 2**40

    async def go() -> None:
        await until((session.folder / "printed").exists)
        await until(lambda: held() <= 64 * megabyte)
        (session.folder / "go").touch()

    command = "yes | head -c 250M; echo; echo the end; touch printed; until [ -e go ]; do sleep 0.05; done"
    async with anyio.create_task_group() as group:
        group.start_soon(go)
        output = (await session.done(BASH, command=command)).output
        assert output.stdout.startswith("y\ny\n")
        assert output.stdout.endswith("\nthe end\n")


# Waiting.


@pytest.mark.parametrize(
    ("tool", "command", "only"),
    [
        (BASH.only_sleeps, "sleep 1", True),
        (BASH.only_sleeps, " sleep 0.5s; ", True),
        (BASH.only_sleeps, "# wait\nsleep 1 >/dev/null # a moment", True),
        (BASH.only_sleeps, "sleep 1; ls", False),
        (BASH.only_sleeps, "ls", False),
        (POWERSHELL.only_sleeps, "Start-Sleep -Milliseconds 500", True),
        (POWERSHELL.only_sleeps, "Start-Sleep 1; Get-Date", False),
    ],
)
def test_what_only_waits_is_known(tool: Callable[[str], bool], command: str, only: bool) -> None:
    assert tool(command) is only


@pytest.mark.parametrize("given", [{"run_in_background": True}, {"timeout": 600_000}, {}])
async def test_a_wait_is_refused_however_it_is_to_be_run(session: Session, given: dict[str, object]) -> None:
    failure = await session.call(BASH, {"command": "sleep 2", **given})
    assert re.search("Sleep.*TaskOutput.*Monitor", getattr(failure, "message", ""))
    assert session.processes.begun == []


async def test_a_program_that_insists_on_a_terminal_gets_one_as_the_description_says(session: Session) -> None:
    described = re.search(r"`(printf .* \| script -qec 'COMMAND' /dev/null)`", BASH.description(session.surroundings))
    assert described is not None
    command = described[1].replace("COMMAND", "test -t 0 && read answer && echo got $answer")
    shown = await session.text(BASH, command=command)
    assert "got y" in shown.split("\n")


@pytest.mark.parametrize("command", ["sleep 1", "sleep ${PAUSE-1000}", "(sleep 1; sleep 1)"])
async def test_what_only_sleeps_is_not_started_in_the_background(session: Session, command: str) -> None:
    failure = await session.call(BASH, {"command": command, "run_in_background": True})
    assert "never sent to the background" in getattr(failure, "message", "")
    assert session.processes.begun == []

"""Processes of commands: none begins before its start is stored, and none is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ostler.protocol.ids import CallId
from ostler.tools.process import orphans, tree
from ostler.tools.process.environment import MARKER
from ostler.tools.shell.bash import Bash
from tests.support.clock import expire_limit_when
from tests.support.repository import ROOT
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()

# A child in the group, one in a session of its own, one that forked twice, and one that wants no TERM.
PROCESS_TREE_SCRIPT = """
echo $$ > pids/shell
(echo $BASHPID > pids/group; exec sleep 1000) &
setsid bash -c 'echo $$ > pids/session; exec sleep 1000' &
python3 -c '
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("pids/twice.new", "w").write(str(os.getpid()))
        os.rename("pids/twice.new", "pids/twice")
        signal.pause()
' &
(trap "" TERM; echo $BASHPID > pids/stubborn; while :; do sleep 0.1; done) &
"""
NAMES = ("shell", "group", "session", "twice", "stubborn")


def read_pids(session: Session) -> list[int]:
    texts = [path.read_text().strip() for name in NAMES if (path := session.folder / "pids" / name).exists()]
    return [int(text) for text in texts if text]


def list_survivors(session: Session) -> list[int]:
    return [pid for pid in read_pids(session) if is_alive(pid)]


@pytest.mark.usefixtures("short_grace")
async def test_nobody_survives_a_cancellation(session: Session) -> None:
    (session.folder / "pids").mkdir()
    async with anyio.create_task_group() as group:
        group.start_soon(session.call, BASH, {"command": "echo so far;" + PROCESS_TREE_SCRIPT + "wait"})
        await poll_until(lambda: len(read_pids(session)) == len(NAMES))
        assert len(list_survivors(session)) == len(NAMES)
        group.cancel_scope.cancel()
    assert list_survivors(session) == []
    assert session.progress[-1]["output"].startswith("so far\n")
    assert len(session.processes.ended) == 1
    await poll_until(lambda: not list(session.outputs.iterdir()))


@pytest.mark.usefixtures("short_grace")
async def test_nobody_survives_a_timeout(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (session.folder / "pids").mkdir()
    wait = "until [ -e pids/twice ] && [ -e pids/session ]; do sleep 0.02; done; touch ready; sleep 1000"
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    result = await session.expect_result(BASH, command=PROCESS_TREE_SCRIPT + wait, timeout=limit)
    assert result.output.timed_out
    assert "shell" in os.listdir(session.folder / "pids")
    assert list_survivors(session) == []


@pytest.mark.usefixtures("short_grace")
async def test_what_a_command_left_behind_is_ended_and_told(session: Session) -> None:
    (session.folder / "pids").mkdir()
    wait = "until [ -e pids/twice ] && [ -e pids/session ] && [ -e pids/stubborn ]; do sleep 0.02; done; exit 0"
    result = await session.expect_result(BASH, command=PROCESS_TREE_SCRIPT + wait)
    assert result.output.exit_code == 0
    assert not result.is_error
    assert "sleep" in result.output.stderr
    assert list_survivors(session) == []


async def test_a_short_command_leaves_nobody_either(session: Session) -> None:
    result = await session.expect_result(BASH, command="setsid sleep 1000 & echo $!")
    assert not is_alive(int(result.output.stdout))


async def test_a_stopped_process_ends_too(session: Session) -> None:
    result = await session.expect_result(BASH, command="sleep 1000 & kill -STOP $!; echo $!")
    assert not is_alive(int(result.output.stdout))


class HeldProcesses:
    """Records a start only when it is released."""

    def __init__(self) -> None:
        self.start_requested = anyio.Event()
        self.released = anyio.Event()
        self.ended: list[int] = []
        self.pid = 0

    async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
        self.pid = pid
        assert start_time == tree.read_start_time(pid)
        assert start_time.isdigit()
        self.start_requested.set()
        await self.released.wait()

    def record_end(self, call_id: CallId, pid: int) -> None:
        self.ended.append(pid)


async def test_the_command_begins_only_when_its_start_is_stored(session: Session) -> None:
    processes = HeldProcesses()
    session.processes = processes  # type: ignore[assignment]  # another fake of the same interface
    async with anyio.create_task_group() as group:
        group.start_soon(session.call, BASH, {"command": "touch begun"})
        await processes.start_requested.wait()
        await poll_until(lambda: Path(f"/proc/{processes.pid}/syscall").read_text().split()[:2] == ["0", "0x0"])
        assert not (session.folder / "begun").exists()
        processes.released.set()
    assert (session.folder / "begun").exists()
    assert processes.ended == [processes.pid]


async def test_a_call_cancelled_at_the_gate_never_begins(session: Session) -> None:
    processes = HeldProcesses()
    session.processes = processes  # type: ignore[assignment]  # another fake of the same interface
    async with anyio.create_task_group() as group:
        group.start_soon(session.call, BASH, {"command": "touch begun"})
        await processes.start_requested.wait()
        group.cancel_scope.cancel()
    assert not is_alive(processes.pid)
    assert processes.ended == [processes.pid]
    assert not (session.folder / "begun").exists()


def start_sleep(**environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"], start_new_session=True, env={**os.environ, **environment})


DAEMON_SCRIPT = """
import anyio, os, sys
from pathlib import Path
from tests.support.tool_calls import Session, is_alive, poll_until
from ostler.tools.shell.bash import Bash

class Never:
    async def record_start(self, call_id, pid, start_time):
        print(pid, flush=True)
        if sys.argv[2] == "gate":
            await anyio.sleep_forever()
        print(start_time, call_id, flush=True)
    def record_end(self, call_id, pid): ...

session = Session(Path(sys.argv[1]), Path(sys.argv[1]) / "outputs")
session.processes = Never()
anyio.run(session.call, Bash(), {"command": sys.argv[3]})
"""


def start_daemon(session: Session, where: str, command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", DAEMON_SCRIPT, str(session.folder), where, command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


async def test_a_daemon_that_dies_at_the_gate_leaves_no_command(session: Session) -> None:
    with start_daemon(session, "gate", "touch begun") as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        daemon.kill()
    await poll_until(lambda: not is_alive(pid))
    assert not (session.folder / "begun").exists()


@pytest.mark.usefixtures("short_grace")
async def test_what_a_dead_daemon_left_is_found_and_ended(session: Session) -> None:
    (session.folder / "pids").mkdir()
    with start_daemon(session, "run", PROCESS_TREE_SCRIPT + "wait") as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        start_time, call_id = daemon.stdout.readline().split()
        await poll_until(lambda: len(read_pids(session)) == len(NAMES))
        daemon.kill()
    assert is_alive(pid)
    ended = await orphans.kill_left_over(pid, start_time, call_id)
    assert len(ended) >= len(NAMES)
    assert list_survivors(session) == []


async def test_what_a_dead_daemon_left_without_the_marker_is_found_by_its_output(session: Session) -> None:
    bare = "env -i setsid bash -c 'echo $$ >stray.new; mv stray.new stray; exec sleep 1000' &"
    with start_daemon(session, "run", bare + "wait") as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        start_time, call_id = daemon.stdout.readline().split()
        await poll_until((session.folder / "stray").exists)
        daemon.kill()
    os.kill(pid, signal.SIGKILL)
    await poll_until(lambda: not is_alive(pid))
    assert "sleep" in await orphans.kill_left_over(pid, start_time, call_id)
    assert not is_alive(int((session.folder / "stray").read_text()))


async def test_what_a_dead_daemon_left_in_a_session_of_the_call_is_ended_with_it(session: Session) -> None:
    bare = "env -i bash -c 'echo $$ >stray.new; mv stray.new stray; exec sleep 1000' >/dev/null 2>&1 & sleep 1000 &"
    with start_daemon(session, "run", bare + "wait") as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        start_time, call_id = daemon.stdout.readline().split()
        await poll_until((session.folder / "stray").exists)
        daemon.kill()
    os.kill(pid, signal.SIGKILL)
    await poll_until(lambda: not is_alive(pid))
    await orphans.kill_left_over(pid, start_time, call_id)
    assert not is_alive(int((session.folder / "stray").read_text()))


async def test_a_stranger_with_the_same_number_is_left_alone(session: Session) -> None:
    with start_sleep() as other_process:
        try:
            assert await orphans.kill_left_over(other_process.pid, "1", "m_other#0") == []
            assert await orphans.kill_left_over(other_process.pid, "", "m_other#0") == []
            assert other_process.poll() is None
        finally:
            other_process.kill()


async def test_marked_processes_are_ended_also_when_their_shell_is_gone() -> None:
    with start_sleep(**{MARKER: "m_mine#0"}) as marked:
        await poll_until(lambda: tree._has_marker(marked.pid, b"OSTLER_CALL=m_mine#0"))
        assert await orphans.kill_left_over(2**22, "1", "m_mine#0") == ["sleep"]
        assert marked.wait() == -signal.SIGTERM


def test_without_pidfds_a_thread_waits(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    async def run() -> None:
        result = await session.expect_result(BASH, command="sleep 1000 & echo $!; exit 5")
        assert result.output.exit_code == 5
        assert not is_alive(int(result.output.stdout))

    anyio.run(run)


async def test_a_kill_does_not_hold_up_the_loop(session: Session) -> None:
    late = 0.0

    async def tick() -> None:
        nonlocal late
        while True:
            before = time.monotonic()
            await anyio.sleep(0.01)
            late = max(late, time.monotonic() - before)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await session.expect_result(BASH, command="trap '' TERM; while :; do sleep 0.05; done", timeout=100)
        group.cancel_scope.cancel()
    assert late < tree.GRACE_SECONDS  # which the kill waits for


async def test_a_call_that_is_stopped_before_its_command_began_leaves_neither_file_nor_descriptor(
    session: Session,
) -> None:
    await session.call(BASH, {"command": "true"})  # what is loaded for the first command is open by then
    await poll_until(lambda: not list(session.outputs.iterdir()))
    before = len(os.listdir("/proc/self/fd"))
    for ticks in range(12):
        async with anyio.create_task_group() as group:
            group.start_soon(session.call, BASH, {"command": "true"})
            for _ in range(ticks):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    await poll_until(lambda: not list(session.outputs.iterdir()))
    await poll_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_stopped_process_gets_to_clean_up_before_it_ends(tmp_path: Path) -> None:
    script = f"trap 'echo clean >{tmp_path}/after; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)

        def alive() -> list[tree.ProcessInfo]:
            found = tree.read_process(child.pid)
            return [found] if found is not None else []

        tree.end_all(alive, patience=20)
        assert child.wait() == 3, "and was not killed"
    assert (tmp_path / "after").read_text() == "clean\n"

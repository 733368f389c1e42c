"""The pipe copier carries the output of a command to its file: a command that reopens its stdout loses nothing."""

import os
from pathlib import Path

import anyio
import psutil
import pytest

from ostler.tools.process import tree
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.running import command as running_command
from ostler.tools.shell.running.pipe_copier import PipeCopier
from ostler.tools.tool import FolderChanged
from tests.support.clock import expire_limit_when
from tests.support.tool_calls import Session, is_alive

pytestmark = pytest.mark.anyio
BASH = Bash()
REOPEN_SCRIPT = "import sys; open('/dev/stdout', 'w').write('two\\n')"


async def run_text(session: Session, command: str) -> str:
    return await session.expect_text(BASH, command=command)


@pytest.mark.parametrize(
    "second",
    [
        "echo two >/dev/stderr",
        "echo two >/dev/stdout",
        "echo two >/proc/self/fd/1",
        "echo two | tee /dev/stderr >/dev/null",
        "bash -c 'echo two >/dev/stderr'",
        f'python3 -c "{REOPEN_SCRIPT}"',
    ],
)
async def test_a_stream_that_is_opened_anew_loses_nothing(session: Session, second: str) -> None:
    (session.folder / "script.sh").write_text(f"echo one\n{second}\necho three\n")
    assert await run_text(session, "echo before; bash script.sh") == "before\none\ntwo\nthree"


async def test_of_a_command_that_ends_at_once_every_word_is_there(session: Session) -> None:
    for _ in range(20):
        assert (await run_text(session, "seq 1 3000; exec true")).endswith("2999\n3000")


async def test_what_is_left_writing_is_ended_and_its_words_are_kept(session: Session) -> None:
    shown = await run_text(
        session, "(trap 'echo last; exit' TERM; echo begun; while :; do sleep 0.01; done) & sleep 0.3"
    )
    assert "\nlast\n" in shown
    assert "left running was ended" in shown


async def test_what_only_has_the_pipe_is_ended_too(session: Session) -> None:
    shown = await run_text(session, "env -i setsid /bin/sh -c 'echo $$; exec sleep 1000' & sleep 0.3")
    assert not is_alive(int(shown.split()[0]))


async def test_a_pipe_that_somebody_hides_is_not_waited_for_long(session: Session) -> None:
    hidden = "env -i setsid /bin/sh -c 'exec sleep 1000' 5>&1 >/dev/null 2>&1 & echo $!; sleep 0.2"
    pid = int(await run_text(session, hidden))
    if is_alive(pid):  # elsewhere than in a daemon nobody inherits orphans, and so nobody finds it
        psutil.Process(pid).kill()


async def test_nobody_carries_anything_after_the_end(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {child.pid for child in psutil.Process().children()}
    await run_text(session, "echo one")
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    await session.call(BASH, {"command": "touch ready; sleep 1000", "timeout": limit})
    assert {child.pid for child in psutil.Process().children()} == before


async def test_the_file_has_it_all_when_the_copier_is_done(tmp_path: Path) -> None:
    path = tmp_path / "out"
    output = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    copier = PipeCopier.start(output)
    assert tree.read_pipe_name(copier.pipe).startswith("pipe:[")
    assert tree.read_pipe_name(output) == ""
    for number in range(2000):
        await anyio.to_thread.run_sync(os.write, copier.pipe, b"%d\n" % number)
    await copier.finish()
    assert path.read_text().split() == [str(number) for number in range(2000)]
    assert not psutil.pid_exists(copier.pid)
    os.close(output)


async def test_much_output_takes_little_of_the_disk(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0

    def look() -> None:
        nonlocal most
        for path in session.outputs.glob("*.out"):
            most = max(most, path.stat().st_blocks * 512)

    monkeypatch.setattr(running_command, "MAX_BYTES", 600 * 1024 * 1024)

    async def watch() -> None:
        while True:
            look()
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        shown = await run_text(session, "yes some words that nobody reads")
        assert "It printed more than" in shown
        group.cancel_scope.cancel()
    assert 0 < most < 400 * 1024 * 1024


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("exec python3 -c 'import os; os.abort()'", "(ended by SIGABRT)"),
        ("echo one; kill -9 $BASHPID", "one\n(ended by SIGKILL)"),
        ("kill -SEGV $BASHPID", "(ended by SIGSEGV)"),
        ("kill -RTMIN $BASHPID", "(ended by SIGRTMIN)"),
        ("kill -RTMIN+5 $$", "(ended by SIGRTMIN+5)"),
        ("set -v; echo one", "one"),
        ("nothing-of-that-name", "bash: line 1: nothing-of-that-name: command not found\n(exit code 127)"),
    ],
)
async def test_our_own_shell_says_nothing(session: Session, command: str, shown: str) -> None:
    assert await run_text(session, command) == shown


async def test_the_folder_is_kept_where_nothing_may_be_overwritten(session: Session) -> None:
    (session.folder / "sub").mkdir()
    ran = await session.expect_result(BASH, command="set -C; cd sub")
    assert ran.changes == [FolderChanged(str(session.folder / "sub"))]

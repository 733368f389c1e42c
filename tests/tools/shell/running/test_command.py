"""A running command: its progress, and how much of its output the disk holds."""

import os
import time

import anyio
import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.running import command as running_command
from tests.support.tool_calls import Session, poll_until

pytestmark = pytest.mark.anyio


BASH, POWERSHELL = Bash(), PowerShell()


# While it runs.


async def test_progress_comes_after_two_seconds_and_then_every_second(session: Session) -> None:
    reported: list[float] = []
    record = session.progress.append
    began = time.monotonic()

    class Noting(list[dict[str, object]]):
        def append(self, data: dict[str, object]) -> None:
            reported.append(time.monotonic() - began)
            record(data)

    session.progress = Noting()

    async def go() -> None:
        await poll_until(lambda: len(reported) >= 3)
        (session.folder / "go").touch()

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await session.expect_result(BASH, command="echo one; until [ -e go ]; do sleep 0.05; done")
    assert [seconds >= least for seconds, least in zip(reported, (2, 3, 4), strict=False)] == [True, True, True]


async def test_a_short_command_tells_nothing_on_its_way(session: Session) -> None:
    await session.expect_result(BASH, command="echo one")
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
        await poll_until((session.folder / "printed").exists)
        await poll_until(lambda: held() <= 64 * megabyte)
        (session.folder / "go").touch()

    command = "yes | head -c 250M; echo; echo the end; touch printed; until [ -e go ]; do sleep 0.05; done"
    async with anyio.create_task_group() as group:
        group.start_soon(go)
        output = (await session.expect_result(BASH, command=command)).output
        assert output.stdout.startswith("y\ny\n")
        assert output.stdout.endswith("\nthe end\n")

"""Nothing is left of a command, however it ends: no process, no descriptor, no file, no zombie."""

import io
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest
from PIL import Image

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.running import command as running_command
from tests.support.clock import time_is_over_when
from tests.support.tool_calls import Session, alive, until

pytestmark = pytest.mark.anyio
BASH = Bash()
LEAVES = "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &); nohup sleep 1000 >/dev/null 2>&1 & disown;"


def open_files() -> set[str]:
    """What is open here, by number and by what it is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


def marked(session: Session) -> list[int]:
    """Living processes that carry the mark of a call of this session's."""
    mark = f"OSTLER_CALL=m_{id(session):x}#".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if mark in Path(f"/proc/{name}/environ").read_bytes() and alive(int(name)):
                found.append(int(name))
    return found


def children() -> set[int]:
    """Dead ones that nobody has buried, too."""
    return {child.pid for child in psutil.Process().children()}


@pytest.fixture
def spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "spare"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "exit 3",
        "kill -9 $$",
        "kill -9 $$ $BASHPID",
        "exec >&- 2>&-; true",
        "exec bash -c 'exit 1'",
        "cat",
        "cat picture.png",
        "printf 'data:image/png;base64,'; base64 picture.png",
        "head -c 3000000 /dev/urandom",
        "sed -i s/a/b/ file.txt",
        "git init -q . && git add -A",
        f"{LEAVES} exit 0",
        f"{LEAVES} kill -9 $$",
        "if then",
    ],
)
async def test_of_a_command_that_ends_by_itself(session: Session, spare: Path, command: str) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(picture, "PNG")
    (session.folder / "picture.png").write_bytes(picture.getvalue())
    (session.folder / "file.txt").write_text("a\n")
    await _warm(session)
    before, own = open_files(), children()
    for _ in range(2):
        await session.done(BASH, command=command)
        (session.folder / "file.txt").write_text("a\n")
    await _left(session, spare, before, own)


async def test_of_a_command_whose_time_is_over(session: Session, spare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = time_is_over_when(session.folder / "ready", monkeypatch)
    await _warm(session)
    before, own = open_files(), children()
    result = await session.done(BASH, command=f"trap '' TERM; {LEAVES} touch ready; wait", timeout=limit)
    assert result.output.timed_out
    await _left(session, spare, before, own)


async def test_of_a_command_that_printed_too_much(
    session: Session, spare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _warm(session)
    before, own = open_files(), children()
    monkeypatch.setattr(running_command, "MAX_BYTES", 1_000_000)
    assert (await session.done(BASH, command=f"{LEAVES} yes")).is_error
    await _left(session, spare, before, own)


async def test_of_a_call_that_is_cancelled(session: Session, spare: Path) -> None:
    await _warm(session)
    before, own = open_files(), children()
    async with anyio.create_task_group() as group:
        group.start_soon(session.call, BASH, {"command": f"{LEAVES} touch ready; wait"})
        await until((session.folder / "ready").exists)
        group.cancel_scope.cancel()
    await _left(session, spare, before, own)


async def test_of_a_command_that_could_not_be_started(session: Session, spare: Path) -> None:
    await _warm(session)
    before, own = open_files(), children()
    session.inside(environment={"LONG": "x" * 200_000})
    failure = await session.failure(BASH, command="true")
    assert failure.message == "The command could not be started: Argument list too long."
    await _left(session, spare, before, own)


async def _warm(session: Session) -> None:
    """What is loaded for the first command stays open, or alive."""
    await session.done(BASH, command="cat picture.png; sed -i s/a/b/ file.txt")
    await session.done(BASH, command="cat picture.png")
    await until(lambda: not os.listdir(session.outputs))


async def _left(session: Session, spare: Path, before: set[str], own: set[int]) -> None:
    # Files and descriptors are let go of a moment after the result is there.
    with suppress(TimeoutError):
        await until(lambda: not os.listdir(session.outputs) and not open_files() - before and not children() - own)
    assert os.listdir(session.outputs) == []
    assert open_files() - before == set()
    assert children() - own == set()
    assert marked(session) == []
    assert os.listdir(spare) == []

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
from tests.support.clock import expire_limit_when
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()
LEAVES_PROCESSES = "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &); nohup sleep 1000 >/dev/null 2>&1 & disown;"


def list_open_files() -> set[str]:
    """The open descriptors of this process: number and target."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


def list_marked_processes(session: Session) -> list[int]:
    """Living processes that carry the marker of one of the session's calls."""
    mark = f"OSTLER_CALL=m_{id(session):x}#".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if mark in Path(f"/proc/{name}/environ").read_bytes() and is_alive(int(name)):
                found.append(int(name))
    return found


def list_children() -> set[int]:
    """Children of this process, zombies included."""
    return {child.pid for child in psutil.Process().children()}


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
        f"{LEAVES_PROCESSES} exit 0",
        f"{LEAVES_PROCESSES} kill -9 $$",
        "if then",
    ],
)
async def test_of_a_command_that_ends_by_itself(session: Session, temporary_folder: Path, command: str) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(picture, "PNG")
    (session.folder / "picture.png").write_bytes(picture.getvalue())
    (session.folder / "file.txt").write_text("a\n")
    await _warm_up(session)
    before, own_children = list_open_files(), list_children()
    for _ in range(2):
        await session.expect_result(BASH, command=command)
        (session.folder / "file.txt").write_text("a\n")
    await _assert_nothing_left(session, temporary_folder, before, own_children)


@pytest.mark.usefixtures("short_grace")
async def test_of_a_command_whose_time_is_over(
    session: Session, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    await _warm_up(session)
    before, own_children = list_open_files(), list_children()
    result = await session.expect_result(
        BASH, command=f"trap '' TERM; {LEAVES_PROCESSES} touch ready; wait", timeout=limit
    )
    assert result.output.timed_out
    await _assert_nothing_left(session, temporary_folder, before, own_children)


async def test_of_a_command_that_printed_too_much(
    session: Session, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _warm_up(session)
    before, own_children = list_open_files(), list_children()
    monkeypatch.setattr(running_command, "MAX_BYTES", 1_000_000)
    assert (await session.expect_result(BASH, command=f"{LEAVES_PROCESSES} yes")).is_error
    await _assert_nothing_left(session, temporary_folder, before, own_children)


async def test_of_a_call_that_is_cancelled(session: Session, temporary_folder: Path) -> None:
    await _warm_up(session)
    before, own_children = list_open_files(), list_children()
    async with anyio.create_task_group() as group:
        group.start_soon(session.call, BASH, {"command": f"{LEAVES_PROCESSES} touch ready; wait"})
        await poll_until((session.folder / "ready").exists)
        group.cancel_scope.cancel()
    await _assert_nothing_left(session, temporary_folder, before, own_children)


async def test_of_a_command_that_could_not_be_started(session: Session, temporary_folder: Path) -> None:
    await _warm_up(session)
    before, own_children = list_open_files(), list_children()
    session.change_view(environment={"LONG": "x" * 200_000})
    failure = await session.expect_failure(BASH, command="true")
    assert failure.message == "The command could not be started: Argument list too long."
    await _assert_nothing_left(session, temporary_folder, before, own_children)


async def _warm_up(session: Session) -> None:
    """Runs commands once: what the first one loads stays open, or alive."""
    await session.expect_result(BASH, command="cat picture.png; sed -i s/a/b/ file.txt")
    await session.expect_result(BASH, command="cat picture.png")
    await poll_until(lambda: not os.listdir(session.outputs))


async def _assert_nothing_left(
    session: Session, temporary_folder: Path, before: set[str], own_children: set[int]
) -> None:
    # Files and descriptors are let go of a moment after the result is there.
    with suppress(TimeoutError):
        await poll_until(
            lambda: (
                not os.listdir(session.outputs)
                and not list_open_files() - before
                and not list_children() - own_children
            )
        )
    assert os.listdir(session.outputs) == []
    assert list_open_files() - before == set()
    assert list_children() - own_children == set()
    assert list_marked_processes(session) == []
    assert os.listdir(temporary_folder) == []

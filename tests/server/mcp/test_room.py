"""Connections to servers that fail in ways that take long: the limits are small here."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp  # noqa: F401 - the first one who needs it would wait for it within its limits
import pytest

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import following
from ostler.server.engine.tasks.following import Following, new_lines
from ostler.server.log import EventLog
from ostler.server.mcp import room as mcp_room
from ostler.server.mcp import stdio
from ostler.server.mcp.connection import NotThere, Unreachable
from ostler.server.mcp.entries import Program
from ostler.server.mcp.opening import Site
from ostler.server.mcp.room import McpRoom, Want
from ostler.storage import open_store
from ostler.tools.environment import clean_environment
from tests.daemon import wait_until
from tests.engine.driver import is_gone

pytestmark = pytest.mark.anyio

# By its own process: what belongs to a call is ended with it, in whichever test that runs.
WANT = Want(SessionId("s_1"), "notes", "digest", CallId(f"m_{os.getpid()}#0"))
PLAIN = str(Path(__file__).parents[2] / "mcp_servers" / "plain.py")


class Scene:
    """A room whose one server can be made another."""

    def __init__(self, folder: Path, log: EventLog) -> None:
        self.log_file = folder / "log"
        self.log_file.write_text("old\n")
        self.behaviours: tuple[str, ...] = ()
        self.there = True
        self.room = McpRoom(log, self._find, anyio.lowlevel.checkpoint)

    async def _find(self, want: Want) -> Site:
        if not self.there:
            raise NotThere("It was taken away.")
        program = Program(sys.executable, (PLAIN, str(self.log_file), *self.behaviours))
        environment = {**clean_environment(), "OSTLER_CALL": want.call_id}
        return Site(program, str(self.log_file.parent), environment, 0o022)

    @property
    def pid(self) -> int:
        return int(self.log_file.with_suffix(".pid").read_text())


@asynccontextmanager
async def a_scene(folder: Path) -> AsyncIterator[Scene]:
    store = open_store(folder / "ostler.db", pending_limit=1000)
    scene = Scene(folder, EventLog(store))
    async with anyio.create_task_group() as group:
        scene.room.group = group
        yield scene
        group.cancel_scope.cancel()
    await store.close()


async def test_a_server_that_never_answers_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_room, "_CONNECT_SECONDS", 2.0)
    async with a_scene(tmp_path) as scene:
        scene.behaviours = ("mute",)
        with pytest.raises(Unreachable, match="It did not answer within 2 s"):
            await scene.room.lease(WANT)
        await anyio.to_thread.run_sync(wait_until, lambda: is_gone(scene.pid))


async def test_a_server_that_says_too_much_at_once_is_not_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100_000)
    async with a_scene(tmp_path) as scene:
        scene.log_file.write_text("x" * 1_000_000)
        lease = await scene.room.lease(WANT)
        with pytest.raises(Unreachable):
            await lease.connection.read("notes://log")
        await lease.give_back()
        assert is_gone(scene.pid)


async def test_what_is_leased_by_two_is_closed_when_both_have_given_it_back(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        one, two = await scene.room.lease(WANT), await scene.room.lease(WANT)
        other_call = CallId(f"m_{os.getpid()}#1")
        other = await scene.room.lease(replace(WANT, session_id=SessionId("s_2"), call_id=other_call))
        assert one.connection is two.connection
        assert other.connection is not one.connection
        await one.give_back()
        await one.give_back()
        assert await two.connection.read("notes://log") == "old\n"
        await two.give_back()
        with pytest.raises(Unreachable):
            await two.connection.read("notes://log")
        assert await other.connection.read("notes://log") == "old\n"
        await other.give_back()
        assert is_gone(scene.pid)


async def test_a_server_that_stays_away_fails_the_task_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_FIRST_WAIT", 0.01)
    async with a_scene(tmp_path) as scene:
        scene.behaviours = ("mortal",)
        watched = await Following.begin(scene.room, WANT, "notes://log", tmp_path)
        scene.behaviours = ("broken",)
        scene.log_file.write_text("die\n")
        with anyio.fail_after(60):
            await watched.wait()
        task = await watched.outcome(a_task(), 0)
        assert task.status == "failed"
        assert task.error is not None
        assert "It said: no database, no notes" in task.error
        await watched.drop()
        assert outputs(tmp_path) == []


async def test_a_server_that_was_taken_away_is_not_tried_again(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        scene.behaviours = ("mortal",)
        watched = await Following.begin(scene.room, WANT, "notes://log", tmp_path)
        scene.there = False
        scene.log_file.write_text("die\n")
        with anyio.fail_after(20):
            await watched.wait()
        assert (await watched.outcome(a_task(), 0)).error == "It was taken away."


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("a\n", "a\nb\n", ["b"]),
        ("a", "a\nb", ["b"]),
        ("", "a\n", ["a"]),
        ("tick\ntick\n", "tick\ntick\ntick\n", ["tick"]),
        ("a\nb\nc\n", "c\nB\na\n", ["B"]),
        ("a\nb\n", "a\n", ["(lines were removed)"]),
        ("a\n", "ab\n", ["ab"]),
    ],
)
async def test_the_lines_that_are_new(before: str, now: str, expected: list[str]) -> None:
    assert new_lines(before, now) == expected


def a_task() -> Task:
    fields = {"id": "m12345678", "type": "monitor_mcp", "status": "running", "session_id": "s_1"}
    return Task.model_validate({**fields, "started_at": "2026-11-17T00:00:00.000Z"})


def outputs(folder: Path) -> list[Path]:
    return list(folder.glob("call-*"))

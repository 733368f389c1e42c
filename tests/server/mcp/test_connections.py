"""Connections to MCP servers that fail in ways that take long; the time limits are small here."""

import importlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from ostler.protocol.backoff import Backoff
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import mcp_resource_source
from ostler.server.engine.tasks.mcp_resource_source import McpResourceSource, find_new_lines
from ostler.server.engine.tasks.output_files import (
    find_strays,
    make_seen_draft_path,
    make_seen_path,
    remove_output_files,
)
from ostler.server.events.event_log import EventLog
from ostler.server.mcp import connection as mcp_connection
from ostler.server.mcp import connections as mcp_connections
from ostler.server.mcp import http as mcp_http
from ostler.server.mcp import stdio
from ostler.server.mcp.connect import ResolvedServer
from ostler.server.mcp.connection import NoSuchServer, Refused, Unreachable
from ostler.server.mcp.connections import McpConnections, ServerKey
from ostler.server.mcp.server_config import HttpServerConfig, StdioServerConfig, parse_server
from ostler.storage import open_store
from ostler.tools.process.environment import build_clean_environment
from tests.support.daemon import wait_until
from tests.support.disks import mount_small_disk
from tests.support.driver import is_gone
from tests.support.mcp_servers.odd_http import serve_odd_http
from tests.support.repository import MCP_SERVERS

pytestmark = pytest.mark.anyio

WANT = ServerKey(SessionId("s_1"), "notes", "digest")
CALL = CallId("m_1#0")
PLAIN = str(MCP_SERVERS / "plain.py")


@pytest.fixture(autouse=True)
def library() -> None:
    """Imported before a test: the first one who needs it would wait for it within its limits."""
    importlib.import_module("mcp")


class ConnectionSetup:
    """Connections whose one server can be replaced by another, or taken away."""

    def __init__(self, folder: Path, log: EventLog) -> None:
        self.log_file = folder / "log"
        self.log_file.write_text("old\n")
        self.behaviours: tuple[str, ...] = ()
        self.server_exists = True
        self.environment: dict[str, str] = {}
        self.folder: str | None = None
        self.address: HttpServerConfig | None = None
        self.connections = McpConnections(log, self._find, anyio.lowlevel.checkpoint)

    async def _find(self, want: ServerKey) -> ResolvedServer:
        if not self.server_exists:
            raise NoSuchServer("It was taken away.")
        program = StdioServerConfig(
            sys.executable, (PLAIN, str(self.log_file), *self.behaviours), self.environment, self.folder
        )
        return ResolvedServer(self.address or program, str(self.log_file.parent), build_clean_environment(), 0o022)

    @property
    def pid(self) -> int:
        return int(self.log_file.with_suffix(".pid").read_text())


@asynccontextmanager
async def open_setup(folder: Path) -> AsyncIterator[ConnectionSetup]:
    store = open_store(folder / "ostler.db", pending_limit=1000)
    setup = ConnectionSetup(folder, EventLog(store))
    async with anyio.create_task_group() as group:
        setup.connections.group = group
        yield setup
        group.cancel_scope.cancel()
    await store.close()


async def test_a_server_that_never_answers_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_connections, "_CONNECT_SECONDS", 2.0)
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("mute",)
        with pytest.raises(Unreachable, match="It did not answer within 2 s"):
            await setup.connections.lease(WANT)
        await anyio.to_thread.run_sync(wait_until, lambda: is_gone(setup.pid))


async def test_a_server_that_says_too_much_at_once_is_not_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100_000)
    async with open_setup(tmp_path) as setup:
        setup.log_file.write_text("x" * 1_000_000)
        lease = await setup.connections.lease(WANT)
        with pytest.raises(Unreachable):
            await lease.connection.read("notes://log")
        await lease.release()
        assert is_gone(setup.pid)


async def test_what_is_leased_by_two_is_closed_when_both_have_given_it_back(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        one, two = await setup.connections.lease(WANT), await setup.connections.lease(WANT)
        other = await setup.connections.lease(replace(WANT, session_id=SessionId("s_2")))
        assert one.connection is two.connection
        assert other.connection is not one.connection
        await one.release()
        await one.release()
        assert await two.connection.read("notes://log") == "old\n"
        await two.release()
        with pytest.raises(Unreachable):
            await two.connection.read("notes://log")
        assert await other.connection.read("notes://log") == "old\n"
        await other.release()
        assert is_gone(setup.pid)


async def test_a_server_that_stays_away_fails_the_task_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_resource_source, "_BACKOFF", Backoff(0.01, 30.0))
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("mortal",)
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        setup.behaviours = ("broken",)
        setup.log_file.write_text("die\n")
        with anyio.fail_after(60):
            await watched.wait()
        task = await watched.build_outcome(make_task(), 0)
        assert task.status == "failed"
        assert task.error is not None
        assert "It said: no database, no notes" in task.error
        await watched.discard()
        assert list_outputs(tmp_path) == []


async def test_a_server_that_was_taken_away_is_not_tried_again(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("mortal",)
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        setup.server_exists = False
        setup.log_file.write_text("die\n")
        with anyio.fail_after(20):
            await watched.wait()
        assert (await watched.build_outcome(make_task(), 0)).error == "It was taken away."


async def test_a_server_that_asks_more_than_it_listens_is_not_listened_to(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("asking",)
        lease = await setup.connections.lease(WANT)
        assert await lease.connection.read("notes://log") == "old\n"
        with anyio.fail_after(30), pytest.raises(Unreachable):
            await lease.connection.read("notes://log")
        await lease.release()
        assert is_gone(setup.pid)


async def test_a_broken_connection_is_given_to_nobody_else(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        one, two = await setup.connections.lease(WANT), await setup.connections.lease(WANT)
        await one.release(broken=True)
        other = await setup.connections.lease(WANT)
        assert other.connection is not two.connection
        await two.release()
        assert await other.connection.read("notes://log") == "old\n"
        await other.release()


async def test_a_server_that_leaves_after_its_first_words_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_resource_source, "_BACKOFF", Backoff(0.01, 30.0))
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("shy",)
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        await anyio.to_thread.run_sync(wait_until, lambda: is_gone(setup.pid))
        setup.behaviours = ()
        await expect_output(watched, setup, "new\n")


async def test_what_cannot_be_kept_for_a_moment_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_resource_source, "_BACKOFF", Backoff(0.05, 30.0))
    async with open_setup(tmp_path) as setup:
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        in_the_way = make_seen_draft_path(watched.output.path)
        os.mkdir(in_the_way)
        append(setup.log_file, "new\n")
        async with anyio.create_task_group() as group:
            group.start_soon(watched.wait)
            await anyio.to_thread.run_sync(wait_until, lambda: watched.output.size > 0)
            os.rmdir(in_the_way)
            await anyio.to_thread.run_sync(wait_until, lambda: watched.last_text == "old\nnew\n")
            group.cancel_scope.cancel()
        await watched.discard()
        assert list_outputs(tmp_path) == []


async def test_a_disk_without_room_is_said_and_nothing_of_it_stays(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk") as disk:
        async with open_setup(tmp_path) as setup:
            setup.log_file.write_text("x" * 100_000)
            with pytest.raises(OSError, match="No space left"):
                await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", disk)
            assert list_outputs(disk) == []
            assert is_gone(setup.pid)


async def test_of_a_long_resource_the_end_is_watched(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        setup.log_file.write_text("a line as any other\n" * 60_000)
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        assert watched.last_text is not None
        assert watched.last_text.startswith("a line")
        await expect_output(watched, setup, "BUILD FAILED\n")


async def test_a_child_that_holds_the_output_of_a_dead_server_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_resource_source, "_BACKOFF", Backoff(0.01, 30.0))
    async with open_setup(tmp_path) as setup:
        setup.behaviours = ("parent",)
        watched = await McpResourceSource.begin(setup.connections, WANT, CALL, "notes://log", tmp_path)
        setup.behaviours = ()
        await expect_output(watched, setup, "die\n", "dead\n")


async def test_what_is_broken_in_a_resource_is_said(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as setup:
        lease = await setup.connections.lease(WANT)
        with pytest.raises(Unreachable, match="padding"):
            await lease.connection.read("notes://broken")
        with pytest.raises(Refused, match="There is no resource notes://x"):
            await lease.connection.read("notes://x")
        assert await lease.connection.read("notes://log") == "old\n"
        await lease.release()


async def test_a_program_has_its_folder_and_our_mark_and_nothing_comes_before_it(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    async with open_setup(tmp_path) as setup:
        setup.environment = {"OSTLER_CALL": "none", "BASH_ENV": str(tmp_path / "first"), "LEVEL": "info"}
        (tmp_path / "first").write_text(f"touch {tmp_path}/was-here")
        setup.folder = "below"
        lease = await setup.connections.lease(WANT)
        seen = setup.log_file.with_suffix(".environment").read_text()
        assert "OSTLER_CALL=mcp_" in seen
        assert "LEVEL=info" in seen
        assert os.readlink(f"/proc/{setup.pid}/cwd") == str(below)
        assert not (tmp_path / "was-here").exists()
        await lease.release()


# Over HTTP.


async def test_a_server_that_does_not_answer_a_goodbye_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connections, "_CLOSE_SECONDS", 0.2)
    with serve_odd_http("no-goodbye") as url:
        async with open_setup(tmp_path) as setup:
            setup.address = HttpServerConfig("http", url)
            lease = await setup.connections.lease(WANT)
            assert await lease.connection.read("notes://log") == "x" * 10
            with anyio.fail_after(20):
                await lease.release()


async def test_a_request_that_is_never_sent_has_its_time_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "REQUEST_SECONDS", 1.0)
    with serve_odd_http("deaf") as url:
        async with open_setup(tmp_path) as setup:
            setup.address = HttpServerConfig("http", url)
            lease = await setup.connections.lease(WANT)
            with anyio.fail_after(30), pytest.raises(Unreachable, match="in time"):
                await lease.connection.read("notes://log")


@pytest.mark.parametrize(("kind", "behaviour", "words"), [("http", "unknown", "401 Unauthorized"), ("sse", "", "405")])
async def test_what_a_server_answers_instead_is_said_without_a_secret(
    tmp_path: Path, kind: Literal["http", "sse"], behaviour: str, words: str
) -> None:
    with serve_odd_http(behaviour) as url:
        async with open_setup(tmp_path) as setup:
            entry = {"type": kind, "url": url + "?key=${KEY}", "headers": {"X": "${KEY}"}}
            server = parse_server(entry, {"KEY": "s3cr3tkey"})
            assert isinstance(server, HttpServerConfig)
            setup.address = server
            with pytest.raises(Unreachable, match=words) as raised:
                await setup.connections.lease(WANT)
            assert "s3cr3tkey" not in str(raised.value)


async def test_an_answer_without_end_is_not_read_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "MAX_LINE_BYTES", 100_000)
    with serve_odd_http("long") as url:
        async with open_setup(tmp_path) as setup:
            setup.address = HttpServerConfig("http", url)
            lease = await setup.connections.lease(WANT)
            with anyio.fail_after(40), pytest.raises(Unreachable):
                await lease.connection.read("notes://log")
            await lease.release()


def test_all_files_of_a_monitor_are_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "call-1.out")
    for each in (path, make_seen_path(path), make_seen_draft_path(path)):
        Path(each).touch()
    assert find_strays(tmp_path, set()) == [path]
    remove_output_files([path])
    assert list_outputs(tmp_path) == []


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
    assert find_new_lines(before, now) == expected


def make_task() -> Task:
    fields = {"id": "m12345678", "type": "monitor_mcp", "status": "running", "session_id": "s_1"}
    return Task.model_validate({**fields, "started_at": "2026-11-17T00:00:00.000Z"})


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def expect_output(
    watched: McpResourceSource, setup: ConnectionSetup, text: str, expected: str | None = None
) -> None:
    """Append to the resource, and wait until the output ends with the text, or with what is expected instead."""
    append(setup.log_file, text)
    printed = Path(watched.output.path)
    async with anyio.create_task_group() as group:
        group.start_soon(watched.wait)
        await anyio.to_thread.run_sync(wait_until, lambda: printed.read_text().endswith(expected or text))
        group.cancel_scope.cancel()
    await watched.discard()


def list_outputs(folder: Path) -> list[Path]:
    return list(folder.glob("call-*"))

"""The task registry by itself, on a real store and with real commands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ostler.protocol.ids import CallId, SessionId, TaskId, TurnId
from ostler.server.engine.tasks import running_task
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.engine.tasks.running_task import RunningTask
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connect import ResolvedServer
from ostler.server.mcp.connection import Unreachable
from ostler.server.mcp.connections import McpConnections, ServerKey
from ostler.storage import Scope, open_store
from ostler.tools.process import process
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.running.command import RunningCommand
from tests.support.tool_calls import RecordedProcesses

pytestmark = pytest.mark.anyio

SCOPE = Scope(SessionId("s_1"), SessionId("s_1"), TurnId("t_1"))


async def refuse_server(want: ServerKey) -> ResolvedServer:
    raise Unreachable("There are no servers here.")


@asynccontextmanager
async def open_registry(folder: Path) -> AsyncIterator[TaskRegistry]:
    store = open_store(folder / "ostler.db", pending_limit=1000)
    log = EventLog(store)
    connections = McpConnections(log, refuse_server, anyio.lowlevel.checkpoint)
    registry = TaskRegistry(log, folder, lambda session_id: None, connections)
    async with anyio.create_task_group() as group:
        registry.group = group
        yield registry
        await registry.stop_session_tasks([SessionId("s_1")])
    await store.close()


async def start_command(folder: Path, command: str) -> RunningCommand:
    call_id = CallId(f"m_{folder.name}#0")
    output = OutputFile.create(folder, "call-1-")
    arguments = ["/bin/bash", "-c", f"read -r REPLY; {command}"]
    environment = {"PATH": "/usr/bin:/bin", "OSTLER_CALL": call_id}
    child = await process.start(arguments, environment, output.descriptor, call_id, RecordedProcesses())
    return RunningCommand(call_id, command, None, str(folder), output, child)


async def test_a_task_that_prints_for_ever_is_ended_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_task, "MAX_BYTES", 100_000)
    async with open_registry(tmp_path) as registry:
        task = await registry.adopt(
            SCOPE, await start_command(tmp_path, "while :; do echo an endless line; done"), "toolu_1"
        )
        over = (await registry.wait(task.task.id, 20)).task
        assert over.status == "killed"
        assert over.error is not None
        assert over.error.startswith("It printed more than")
        assert over.output_bytes > 100_000


async def test_the_end_of_a_task_keeps_what_the_model_has_read(tmp_path: Path) -> None:
    async with open_registry(tmp_path) as registry:
        go = tmp_path / "go"
        task = await registry.adopt(
            SCOPE, await start_command(tmp_path, f"echo abc; until [ -e {go} ]; do sleep 0.02; done"), "toolu_1"
        )
        await registry.mark_read(task.task.id, 3)
        go.touch()
        record = await registry.wait(task.task.id, 20)
        assert (record.task.status, record.read_bytes) == ("completed", 3)


async def test_a_task_that_becomes_one_after_its_turn_was_stopped_is_stopped_too(tmp_path: Path) -> None:
    async with open_registry(tmp_path) as registry:
        running = await start_command(tmp_path, "sleep 1000")
        assert SCOPE.turn_id is not None
        registry.stop_turn_tasks(SCOPE.turn_id)
        task = await registry.adopt(SCOPE, running, "toolu_1")
        over = (await registry.wait(task.task.id, 20)).task
        assert (over.status, over.error) == ("killed", "It was stopped together with its turn.")


async def test_a_task_that_cannot_be_looked_after_is_ended_and_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(self: RunningTask) -> None:
        raise OSError("no such luck")

    monkeypatch.setattr(RunningTask, "_poll_output", breaks)
    async with open_registry(tmp_path) as registry:
        running = await start_command(tmp_path, "sleep 1000")
        task = await registry.adopt(SCOPE, running, "toolu_1")
        over = (await registry.wait(task.task.id, 20)).task
        assert (over.status, over.error) == ("failed", "The daemon could not look after it; its log says why.")
        assert running.child.ended


async def test_an_end_is_stored_once(tmp_path: Path) -> None:
    async with open_registry(tmp_path) as registry:
        task = await registry.adopt(SCOPE, await start_command(tmp_path, "exit 4"), "toolu_1")
        over = (await registry.wait(task.task.id, 20)).task
        again = over.model_copy(update={"status": "killed"})
        assert not await registry.log.write(lambda tx: tx.tasks.end(again))
        assert (await registry.find(TaskId(over.id))).task == over
        assert len(registry.notifications.take(SessionId("s_1"))) == 1

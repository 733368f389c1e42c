"""A stream across crashes and restarts of a real daemon: no gap, no double, growing cursors."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ostler.clients import DaemonUnreachable, EventStream, Ostler, connect
from ostler.protocol.errors import SessionNotFound, ShuttingDown
from ostler.protocol.events import Event
from ostler.protocol.methods import SESSION_CREATE, SESSION_UPDATE
from ostler.protocol.session import Session, SessionCreate, SessionUpdate
from tests.support.daemon import Daemon

pytestmark = pytest.mark.anyio


async def create_session(ostler: Ostler, home: Path) -> Session:
    return await ostler.call(SESSION_CREATE, SessionCreate(cwd=str(home.parent)))


async def retitle_session(ostler: Ostler, session: Session, title: str) -> None:
    """Until it is acknowledged: a daemon that is killed meanwhile may or may not have done it."""
    with anyio.fail_after(60):
        while True:
            try:
                await ostler.call(SESSION_UPDATE, SessionUpdate(session_id=session.id, title=title))
                return
            except (DaemonUnreachable, ShuttingDown):
                await anyio.lowlevel.checkpoint()


async def read_until_title(events: EventStream, last: str) -> list[Event]:
    got: list[Event] = []
    with anyio.fail_after(60):
        async for event in events:
            if event.cursor is not None:
                got.append(event)
                if event.data["session"]["title"] == last:
                    break
    return got


@pytest.mark.parametrize("over_tcp", [False, True], ids=["socket", "another port"])
async def test_a_stream_resumes_after_sigkill_without_gap_or_double(daemon: Daemon, over_tcp: bool) -> None:
    def restart() -> None:
        daemon.kill()
        daemon.start()
        forget_socket()

    def forget_socket() -> None:
        if over_tcp:
            os.unlink(daemon.socket_path)

    forget_socket()
    async with connect(str(daemon.home)) as ostler:
        session = await create_session(ostler, daemon.home)
        got: list[Event] = []

        async def read() -> None:
            async with ostler.events(session.id, after=session.cursor) as events:
                got.extend(await read_until_title(events, "last"))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for kill in range(3):
                for number in range(20):
                    await retitle_session(ostler, session, f"{kill}.{number}")
                await to_thread.run_sync(restart)
            await retitle_session(ostler, session, "last")

    wanted = [f"{kill}.{number}" for kill in range(3) for number in range(20)] + ["last"]
    assert [event.data["session"]["title"] for event in got] == wanted
    cursors = [event.cursor for event in got if event.cursor is not None]
    assert cursors == sorted(set(cursors))


async def test_a_stream_sees_exactly_the_log_when_writes_are_cut_by_kills(daemon: Daemon) -> None:
    """Killed in the middle of writing: what the reader got is what the log holds, nothing more, nothing twice."""
    async with connect(str(daemon.home)) as ostler:
        session = await create_session(ostler, daemon.home)
        got: list[Event] = []

        async def read() -> None:
            async with ostler.events(session.id, after=session.cursor) as events:
                got.extend(await read_until_title(events, "last"))

        async def write() -> None:
            for number in range(150):
                await retitle_session(ostler, session, str(number))

        async with anyio.create_task_group() as readers:
            readers.start_soon(read)
            async with anyio.create_task_group() as writers:
                writers.start_soon(write)
                for _ in range(3):
                    await to_thread.run_sync(daemon.kill)
                    await to_thread.run_sync(daemon.start)
            await retitle_session(ostler, session, "last")
        async with ostler.events(session.id, after=session.cursor) as events:
            log = await read_until_title(events, "last")
    assert [event.cursor for event in got] == [event.cursor for event in log]
    told = list(dict.fromkeys(event.data["session"]["title"] for event in got))
    assert told == [*map(str, range(150)), "last"]


async def test_a_graceful_restart_is_survived_too(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await create_session(ostler, daemon.home)
        async with ostler.events(session.id, after=session.cursor) as events:
            assert await to_thread.run_sync(daemon.stop) == 0
            await to_thread.run_sync(daemon.start)
            await retitle_session(ostler, session, "last")
            assert len(await read_until_title(events, "last")) == 1


async def test_a_new_database_is_a_reset_and_the_old_session_is_gone(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await create_session(ostler, daemon.home)
        everything, one = ostler.events(), ostler.events(session.id)
        async with everything, one:
            await to_thread.run_sync(daemon.stop)
            for file in daemon.home.glob("ostler.db*"):
                file.unlink()
            await to_thread.run_sync(daemon.start)
            with anyio.fail_after(30):
                kinds = [event.type async for event in _read_until_reset(everything)]
                assert kinds[-1] == "stream.reset"
                with pytest.raises(SessionNotFound):
                    await _read_to_end(one)
            # The daemon knows this client again, though it has forgotten all it knew.
            assert (await create_session(ostler, daemon.home)).id != session.id


async def _read_to_end(events: EventStream) -> None:
    async for _ in events:
        pass


async def _read_until_reset(events: EventStream) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if event.type == "stream.reset":
            return

"""Background work of the engine beside the sessions: the sandbox proxy, reaping of orphans, reloading of settings,
releasing of memory, and the end of processes that an earlier daemon left."""

import contextlib
import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio

from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.shared import CurrentSandbox
from ostler.server.events.event_log import EventLog
from ostler.storage import Tx
from ostler.storage.repositories.processes import ProcessRecord
from ostler.tools.context import SessionView
from ostler.tools.process.orphans import has_many_orphans, kill_left_over, reap_orphans
from ostler.tools.sandbox import Proxy
from ostler.tools.shell import bash_policy
from ostler.tools.threads import read_in_thread

_REAP_SECONDS: Final = 1.0
_REAP_CHECKS: Final = 5
_SETTINGS_SECONDS: Final = 1.0
_COMMAND_TABLES_SECONDS: Final = 1.0


@contextlib.asynccontextmanager
async def run_proxy(sandbox: CurrentSandbox) -> AsyncIterator[None]:
    """Run the proxy through which commands in the sandbox reach the allowed hosts, where there are any."""
    if not sandbox.hosts:
        yield
        return
    async with Proxy(sandbox.hosts) as proxy:
        sandbox.proxy = proxy.path
        yield


async def reap_orphans_periodically() -> None:
    """Every few seconds, and sooner where there are many: each zombie keeps a pid of the machine."""
    while True:
        for _ in range(_REAP_CHECKS):
            await anyio.sleep(_REAP_SECONDS)
            if has_many_orphans():
                break
        await read_in_thread(reap_orphans)


async def reload_settings_periodically(
    load: Callable[[LiveSession], Awaitable[None]], list_running: Callable[[], list[LiveSession]]
) -> None:
    """Reload changed settings files of sessions in a turn, so that they take effect at once."""

    async def load_all() -> None:
        # Not in the loop itself, whose variable would keep the last session in memory until the next round.
        for live in list_running():
            with contextlib.suppress(ProtocolError):
                await load(live)

    while True:
        await anyio.sleep(_SETTINGS_SECONDS)
        await load_all()


async def load_command_tables() -> None:
    """Load the grammar and the tables about commands, which the first command would load on the event loop.

    A second after the start: the first request to a model, which a person may wait for, needs none of it.
    """
    await anyio.sleep(_COMMAND_TABLES_SECONDS)
    judged_from = SessionView(SessionId(""), "/", "/", (), "default")
    await read_in_thread(lambda: bash_policy.judge("true", judged_from))
    # What parsing the tables took goes back to the machine.
    await read_in_thread(release_memory)


def release_memory() -> None:
    """Return freed memory to the system: glibc keeps the pages of an evicted history of 10 MB for the next one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # not every C library has it
        trim(0)


async def end_left_over_processes(log: EventLog, left: list[ProcessRecord]) -> None:
    """Kill what an earlier daemon's calls left running; all at once, since each may take its time to end."""
    async with anyio.create_task_group() as group:
        for process in left:
            group.start_soon(kill_left_over, process.pid, process.start_time, process.call_id)

    def forget(tx: Tx) -> None:
        for process in left:
            tx.processes.drop(process.pid, process.start_time)

    if left:
        log.submit_quietly(forget)

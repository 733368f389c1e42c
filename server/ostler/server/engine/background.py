"""What goes on beside the sessions for as long as the daemon runs."""

import contextlib
import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio

from ostler.protocol.errors import ProtocolError
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.shared import SandboxKeeper
from ostler.server.events.event_log import EventLog
from ostler.storage import Tx
from ostler.storage.repositories import processes
from ostler.storage.repositories.processes import ProcessRecord
from ostler.tools.process.orphans import kill_left_over, many_orphans, reap_orphans
from ostler.tools.sandbox import Proxy
from ostler.tools.threads import read_in_thread

_BURY_SECONDS: Final = 1.0
_BURY_LOOKS: Final = 5
_SETTINGS_SECONDS: Final = 1.0


@contextlib.asynccontextmanager
async def way_out(sandbox: SandboxKeeper) -> AsyncIterator[None]:
    """The proxy through which commands in the sandbox reach the hosts that are allowed, where some are."""
    if not sandbox.hosts:
        yield
        return
    async with Proxy(sandbox.hosts) as proxy:
        sandbox.proxy = proxy.path
        yield


async def bury_orphans() -> None:
    """Now and then, and soon where they are many: each keeps a process number of the machine's until then."""
    while True:
        for _ in range(_BURY_LOOKS):
            await anyio.sleep(_BURY_SECONDS)
            if many_orphans():
                break
        await read_in_thread(reap_orphans)


async def keep_arranged(
    arrange: Callable[[LiveSession], Awaitable[None]], in_turns: Callable[[], list[LiveSession]]
) -> None:
    """What a settings file says counts at once, also in the middle of a turn."""

    async def arrange_all() -> None:
        # Not in the loop itself, which would keep the last of them in memory until it looks at another one.
        for live in in_turns():
            with contextlib.suppress(ProtocolError):
                await arrange(live)

    while True:
        await anyio.sleep(_SETTINGS_SECONDS)
        await arrange_all()


def give_back_memory() -> None:
    """To the machine, what sessions have left: glibc keeps the pages of a history of 10 MB for the next one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # not every C library has it
        trim(0)


async def end_left_over(log: EventLog, left: list[ProcessRecord]) -> None:
    """What an earlier daemon's calls left running; all at once, since each may take its time to go."""
    async with anyio.create_task_group() as group:
        for process in left:
            group.start_soon(kill_left_over, process.pid, process.start_time, process.call_id)

    def forget(tx: Tx) -> None:
        for process in left:
            processes.drop(tx.connection, process.pid, process.start_time)

    if left:
        log.submit_quietly(forget)

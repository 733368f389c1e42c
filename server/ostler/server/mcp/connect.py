"""How the connection to an MCP server is opened, whatever kind of server it is."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from ostler.protocol.ids import CallId
from ostler.server.mcp.connection import REQUEST_SECONDS, Connection
from ostler.server.mcp.http import over_http
from ostler.server.mcp.request_limits import bounded
from ostler.server.mcp.server_config import Address, Program, Server, hider
from ostler.server.mcp.stdio import Remarks, talking
from ostler.server.version import version
from ostler.tools.process.environment import MARKER, meddles
from ostler.tools.process.stdio import Talker
from ostler.tools.services import Processes
from ostler.tools.shell.running.program import bash_path
from ostler.tools.threads import read_in_thread

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@dataclass(frozen=True, slots=True)
class Site:
    """A server as its session has it now, and what it is started with where it is a program."""

    server: Server
    folder: str
    environment: Mapping[str, str]
    umask: int


@asynccontextmanager
async def opened(
    site: Site, marker: CallId, processes: Processes, remarks: Remarks, on_end: Callable[[], None]
) -> AsyncIterator[Connection]:
    """Raises whatever the library does. `on_end` is called when the server is not listened to any more."""
    await anyio.to_thread.run_sync(_load)
    from mcp import Client  # noqa: PLC0415 - see the package
    from mcp_types import Implementation  # noqa: PLC0415 - as above

    async with AsyncExitStack() as stack:
        transport: AbstractAsyncContextManager[TransportStreams]
        match site.server:
            case Program():
                talker = await _started(site.server, site, marker, processes)
                transport = talking(talker, remarks, on_end)
            case Address():
                transport = await stack.enter_async_context(over_http(site.server, remarks))
        connection: Connection | None = None

        async def hear(message: object) -> None:
            # Also what is garbage, or about something else: whoever waits looks, and finds nothing new.
            if connection is not None:
                connection.tell()

        client = Client(
            bounded(transport, on_end),
            read_timeout_seconds=REQUEST_SECONDS,
            client_info=Implementation(name="ostler", version=version()),
            message_handler=hear,
            cache=None,
        )
        await stack.enter_async_context(client)
        connection = Connection(client, hider(site.server.secrets))
        yield connection


async def _started(server: Program, site: Site, marker: CallId, processes: Processes) -> Talker:
    # The end of the file instead of a line: the daemon is gone, and the server must not run.
    gate = f"IFS= read -r REPLY || exit 125; unset REPLY; umask {site.umask:03o}"
    script = f'{gate}; cd -- "$1" || exit; shift; exec -- "$@"'
    bash = await read_in_thread(bash_path)
    folder = os.path.join(site.folder, server.folder or "")
    arguments = [bash, "--noprofile", "--norc", "-c", script, "bash", folder, server.command, *server.arguments]
    own = {name: value for name, value in server.environment.items() if not meddles(name)}
    return await Talker.start(arguments, {**site.environment, **own, MARKER: marker}, marker, processes)


def _load() -> None:
    """On a thread: nobody else waits for it."""
    import mcp  # noqa: F401, PLC0415 - see the package

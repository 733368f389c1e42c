"""How the connection to an MCP server is opened, whatever kind of server it is."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from ostler.protocol.ids import CallId
from ostler.server.mcp.connection import REQUEST_SECONDS, Connection
from ostler.server.mcp.entries import Address, Program, Server
from ostler.server.mcp.stdio import Remarks, talking
from ostler.server.version import version
from ostler.tools.context import Processes
from ostler.tools.shell_program import bash_path
from ostler.tools.talker import Talker
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
    site: Site, call_id: CallId, processes: Processes, remarks: Remarks, on_end: Callable[[], None]
) -> AsyncIterator[Connection]:
    """Raises whatever the library does. `on_end` is called when a program says nothing any more."""
    await anyio.to_thread.run_sync(_load)
    from mcp import Client  # noqa: PLC0415 - see the package
    from mcp_types import Implementation  # noqa: PLC0415 - as above

    async with AsyncExitStack() as stack:
        transport: AbstractAsyncContextManager[TransportStreams]
        match site.server:
            case Program():
                talker = await _started(site.server, site, call_id, processes)
                transport = talking(talker, remarks, on_end)
            case Address():
                transport = await stack.enter_async_context(_over_http(site.server))
        connection: Connection | None = None

        async def hear(message: object) -> None:
            # Also what is garbage, or about something else: whoever waits looks, and finds nothing new.
            if connection is not None:
                connection.tell()

        who = Implementation(name="ostler", version=version())
        client = Client(
            transport, read_timeout_seconds=REQUEST_SECONDS, client_info=who, message_handler=hear, cache=None
        )
        await stack.enter_async_context(client)
        connection = Connection(client)
        yield connection


async def _started(server: Program, site: Site, call_id: CallId, processes: Processes) -> Talker:
    # The end of the file instead of a line: the daemon is gone, and the server must not run.
    gate = f"IFS= read -r REPLY || exit 125; unset REPLY; umask {site.umask:03o}"
    script = f'{gate}; cd -- "$1" || exit; shift; exec "$@"'
    bash = await read_in_thread(bash_path)
    folder = server.folder or site.folder
    arguments = [bash, "--noprofile", "--norc", "-c", script, "bash", folder, server.command, *server.arguments]
    return await Talker.start(arguments, {**site.environment, **server.environment}, call_id, processes)


def _load() -> None:
    """On a thread: nobody else waits for it."""
    import mcp  # noqa: F401, PLC0415 - see the package


@asynccontextmanager
async def _over_http(server: Address) -> "AsyncIterator[AbstractAsyncContextManager[TransportStreams]]":
    import httpx2  # noqa: PLC0415 - see the package
    from mcp.client.sse import sse_client  # noqa: PLC0415 - as above
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

    if server.kind == "sse":
        yield sse_client(server.url, headers=dict(server.headers))
        return
    timeout = httpx2.Timeout(REQUEST_SECONDS, read=None)
    async with httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as client:
        yield streamable_http_client(server.url, http_client=client)

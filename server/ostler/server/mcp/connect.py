"""Opens the connection to an MCP server, whatever kind of server it is."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from ostler.protocol.ids import CallId
from ostler.server.mcp.connection import REQUEST_SECONDS, Connection
from ostler.server.mcp.http import open_http
from ostler.server.mcp.request_limits import limit_requests
from ostler.server.mcp.server_config import HttpServerConfig, ServerConfig, StdioServerConfig, build_redactor
from ostler.server.mcp.stdio import Diagnostics, open_stdio
from ostler.server.version import get_version
from ostler.tools.process.environment import MARKER, is_shell_control
from ostler.tools.process.stdio import StdioProcess
from ostler.tools.services import Processes
from ostler.tools.shell.running.program import find_bash
from ostler.tools.threads import read_in_thread

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@dataclass(frozen=True, slots=True)
class ResolvedServer:
    """A server as its session has it now, and what its program is started with, where it has one."""

    server: ServerConfig
    folder: str
    environment: Mapping[str, str]
    umask: int


@asynccontextmanager
async def open_connection(
    resolved: ResolvedServer, marker: CallId, processes: Processes, diagnostics: Diagnostics, on_end: Callable[[], None]
) -> AsyncIterator[Connection]:
    """Raises whatever the library does. `on_end` is called when the server is not read any more."""
    await anyio.to_thread.run_sync(_import_library)
    from mcp import Client  # noqa: PLC0415 - see the package
    from mcp_types import Implementation  # noqa: PLC0415 - as above

    async with AsyncExitStack() as stack:
        transport: AbstractAsyncContextManager[TransportStreams]
        match resolved.server:
            case StdioServerConfig():
                process = await _start_program(resolved.server, resolved, marker, processes)
                transport = open_stdio(process, diagnostics, on_end)
            case HttpServerConfig():
                transport = await stack.enter_async_context(open_http(resolved.server, diagnostics))
        connection: Connection | None = None

        async def on_message(message: object) -> None:
            # Also for garbage and other messages: whoever waits reads the resource again, and finds nothing new.
            if connection is not None:
                connection.notify_change()

        client = Client(
            limit_requests(transport, on_end),
            read_timeout_seconds=REQUEST_SECONDS,
            client_info=Implementation(name="ostler", version=get_version()),
            message_handler=on_message,
            cache=None,
        )
        await stack.enter_async_context(client)
        connection = Connection(client, build_redactor(resolved.server.secrets))
        yield connection


async def _start_program(
    server: StdioServerConfig, resolved: ResolvedServer, marker: CallId, processes: Processes
) -> StdioProcess:
    # The end of the file instead of a line: the daemon is gone, and the server must not run.
    gate = f"IFS= read -r REPLY || exit 125; unset REPLY; umask {resolved.umask:03o}"
    script = f'{gate}; cd -- "$1" || exit; shift; exec -- "$@"'
    bash = await read_in_thread(find_bash)
    folder = os.path.join(resolved.folder, server.folder or "")
    arguments = [bash, "--noprofile", "--norc", "-c", script, "bash", folder, server.command, *server.arguments]
    own = {name: value for name, value in server.environment.items() if not is_shell_control(name)}
    return await StdioProcess.start(arguments, {**resolved.environment, **own, MARKER: marker}, marker, processes)


def _import_library() -> None:
    """For a thread: the import takes most of a second."""
    import mcp  # noqa: F401, PLC0415 - see the package

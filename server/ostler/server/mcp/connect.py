"""Opens the connection to an MCP server, whatever kind of server it is."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from ostler.protocol.ids import CallId
from ostler.server.mcp.connection import REQUEST_SECONDS, Connection
from ostler.server.mcp.http import open_http
from ostler.server.mcp.request_limits import limit_requests
from ostler.server.mcp.server_config import HttpServerConfig, ServerConfig, StdioServerConfig, build_redactor
from ostler.server.mcp.server_requests import ServerRequests
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
    roots: tuple[str, ...] = ()
    """The folders that the session works in."""


@asynccontextmanager
async def open_connection(
    resolved: ResolvedServer,
    marker: CallId,
    processes: Processes,
    diagnostics: Diagnostics,
    on_end: Callable[[], None],
    mode: Literal["auto", "legacy"] = "auto",
) -> AsyncIterator[Connection]:
    """Raises whatever the library does. `on_end` is called when the server is not read any more.

    `mode`: `legacy` where the server is known to speak an older protocol, and need not be asked.
    """
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
        requests = ServerRequests(resolved)
        client = Client(
            limit_requests(transport, on_end, requests.problems.append),
            read_timeout_seconds=REQUEST_SECONDS,
            client_info=Implementation(name="ostler", version=get_version()),
            message_handler=requests.note_message,
            list_roots_callback=requests.list_roots,
            elicitation_callback=requests.elicit,
            sampling_callback=requests.sample,
            logging_callback=requests.note_log,
            cache=None,
            mode=mode,
        )
        await stack.enter_async_context(client)
        # A result that is not what its server promised is a result all the same: the model reads what there is.
        client.session.validate_tool_result = _accept_any  # type: ignore[method-assign]
        connection = requests.connection = Connection(
            client, build_redactor(resolved.server.secrets), problems=requests.problems
        )
        yield connection


async def _accept_any(name: str, result: object) -> None:
    return None


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

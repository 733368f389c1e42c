"""The MCP servers of a session: started in the background, kept, started again; and the tools that they have.

A server that hangs, fails or dies costs its own tools, and nobody waits for it longer than asked.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import anyio

from ostler.protocol.backoff import Backoff
from ostler.protocol.ids import SessionId
from ostler.server.mcp.connection import CALL_SECONDS, CallHandlers, Connection, NoSuchServer, Refused, Unreachable
from ostler.server.mcp.connections import McpConnections, ServerKey
from ostler.server.observability import logs
from ostler.tools.mcp.declaration import NO_TOOLS, Listing, name_tools, read_listing
from ostler.tools.services import ServerAnswer

if TYPE_CHECKING:
    from ostler.tools.mcp.server_tool import ServerTool

_BACKOFF: Final = Backoff(first_seconds=1.0, most_seconds=60.0)
"""Between two attempts to reach a server that was there before."""
_STABLE_SECONDS: Final = 60.0
"""After a connection that lasted as long, failures are counted from one again."""
_MOST_CALL_SECONDS: Final = 86_000.0
_SETTLE_SECONDS: Final = 0.2
"""Servers tell of many changes at once."""

T = TypeVar("T")
Status = Literal["stopped", "starting", "connected", "failed"]


@dataclass(frozen=True, slots=True)
class WantedServer:
    """A server that the session has, as its entry says."""

    digest: str
    always_load: bool = False
    """None of its tools is left out of the prompt."""
    call_seconds: float = CALL_SECONDS


def read_call_options(entry: Mapping[str, Any]) -> tuple[bool, float]:
    """`alwaysLoad`, and the seconds of `timeout`, which stands there in milliseconds."""
    given: Any = entry.get("timeout")
    if not isinstance(given, int | float) or isinstance(given, bool) or given <= 0:
        return entry.get("alwaysLoad") is True, CALL_SECONDS
    return entry.get("alwaysLoad") is True, min(given / 1000, _MOST_CALL_SECONDS)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What is known of a server."""

    status: Status = "starting"
    error: str | None = None
    listing: Listing = NO_TOOLS
    protocol_version: str | None = None
    resources: bool = False
    prompts: bool = False


_BEGINNING: Final = ServerState()


@dataclass(slots=True)
class _Server:
    name: str
    wanted: WantedServer
    state: ServerState = _BEGINNING
    settled: anyio.Event = field(default_factory=anyio.Event)
    """It has answered, or failed, for the first time."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    waited_for: bool = False
    was_connected: bool = False
    reported: bool = False
    """People were told that it fails."""
    ended: bool = False
    """Nobody tries to reach it any more."""


@dataclass(slots=True)
class SessionServers:
    """Those of one session and its agents."""

    session_id: SessionId
    connections: McpConnections
    on_change: Callable[[str], None]
    """Called with the name of a server whose state is another one now."""
    report: Callable[[str], None]
    """Tells people that a server fails."""
    _servers: dict[str, _Server] = field(default_factory=dict)
    _tools: "tuple[ServerTool, ...]" = ()

    # What the session has.

    @property
    def tools(self) -> "tuple[ServerTool, ...]":
        """All tools of all servers, sorted by name: the same tuple until something changes.

        Those of a server that was lost stay: a call of one reaches it again, or says why not.
        """
        return self._tools

    @property
    def with_resources(self) -> tuple[str, ...]:
        """The names of those that have resources."""
        return tuple(sorted(name for name, server in self._servers.items() if server.state.resources))

    @property
    def states(self) -> dict[str, ServerState]:
        return {name: server.state for name, server in self._servers.items()}

    def has_unsettled(self, wanted: Mapping[str, WantedServer]) -> bool:
        """Whether a turn that uses these would wait for one of them."""
        for name, want in wanted.items():
            server = self._servers.get(name)
            if server is None or server.wanted != want or not (server.settled.is_set() or server.waited_for):
                return True
        return False

    # Starting and stopping.

    def update(self, wanted: Mapping[str, WantedServer]) -> None:
        """Start what is new or failed at its start, and stop what is not wanted any more; nothing is waited for."""
        for name, server in list(self._servers.items()):
            if wanted.get(name) != server.wanted:
                self._drop(name)
        for name, want in wanted.items():
            known = self._servers.get(name)
            if known is None or known.ended:
                self._start(name, want, before=known)

    def restart(self, name: str, want: WantedServer) -> None:
        """Begin anew with one server: its connection is closed, whatever it is doing."""
        before = self._servers.get(name)
        if before is not None:
            before.scope.cancel()
        self.connections.close(self._make_key(name, want))
        self._start(name, want, before=before)

    async def wait_until_settled(self, seconds: float) -> None:
        """Wait for those that are starting; each of them is waited for once."""
        waiting = [each for each in self._servers.values() if not (each.settled.is_set() or each.waited_for)]
        with anyio.move_on_after(seconds):
            for each in waiting:
                await each.settled.wait()
        for each in waiting:
            each.waited_for = True

    async def wait_for(self, name: str, seconds: float) -> ServerState | None:
        """The state of one server once it is settled."""
        server = self._servers.get(name)
        if server is None:
            return None
        with anyio.move_on_after(seconds):
            await server.settled.wait()
        return server.state

    def close(self) -> None:
        """Give up all of them: the last lease of a connection ends its server."""
        for name in list(self._servers):
            self._drop(name)
        self.connections.forget(self.session_id)

    def read_log(self, name: str) -> str:
        """The end of what a server printed beside its messages."""
        server = self._servers.get(name)
        return self.connections.read_diagnostics(self._make_key(name, server.wanted)) if server is not None else ""

    def _drop(self, name: str) -> None:
        self._servers.pop(name).scope.cancel()
        self._collect_tools()
        self.on_change(name)

    def _start(self, name: str, want: WantedServer, before: _Server | None) -> None:
        server = self._servers[name] = _Server(name, want)
        if before is not None:
            # It is tried once more: its tools stay, and people have heard of it.
            server.reported, server.waited_for = before.reported, before.waited_for
            server.state = replace(before.state, status="starting", error=None)
        assert self.connections.group is not None
        self.connections.group.start_soon(self._keep, server)
        self.on_change(name)

    async def _keep(self, server: _Server) -> None:
        """Keep one server reachable until nobody wants it."""
        tries = 0
        try:
            with server.scope:
                while True:
                    began = anyio.current_time()
                    try:
                        await self._stay_connected(server)
                    except Unreachable as error:
                        self._note_failure(server, str(error))
                        if isinstance(error, NoSuchServer) or not server.was_connected:
                            return  # the next turn tries again
                    tries = 1 if anyio.current_time() - began > _STABLE_SECONDS else tries + 1
                    await anyio.sleep(_BACKOFF.compute_wait(tries))
        except Exception as error:  # noqa: BLE001 - the boundary of a server: its errors concern its own tools alone
            logs.log.error("mcp_server_lost", session_id=self.session_id, server=server.name, exc_info=error)
            self._note_failure(server, f"The MCP server {server.name!r} failed: {error}")
        finally:
            server.ended = True
            server.settled.set()

    async def _stay_connected(self, server: _Server) -> None:
        lease = await self.connections.lease(self._make_key(server.name, server.wanted))
        broken = False
        try:
            await self._list_tools(server, lease.connection)
            while True:
                await lease.connection.wait_for_listing_change()
                if lease.connection.closed:
                    raise Unreachable(f"The connection to the MCP server {server.name!r} was lost.")
                await anyio.sleep(_SETTLE_SECONDS)
                await self._list_tools(server, lease.connection)
        except Unreachable:
            broken = True
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await lease.release(broken=broken)

    async def _list_tools(self, server: _Server, connection: Connection) -> None:
        listed = await connection.list_tools()
        listing = read_listing(server.name, listed, always_load=server.wanted.always_load)
        left_out = tuple(dict.fromkeys((*connection.problems[:10], *listing.problems)))
        new = [each for each in left_out if each not in server.state.listing.problems]
        server.was_connected = True
        self._set_state(
            server,
            ServerState(
                "connected",
                None,
                Listing(listing.tools, left_out),
                connection.protocol_version,
                connection.offers("resources"),
                connection.offers("prompts"),
            ),
        )
        if new:
            self.report(f"The MCP server {server.name!r}: {' '.join(new)}")

    def _note_failure(self, server: _Server, error: str) -> None:
        self._set_state(server, replace(server.state, status="failed", error=error))
        if not server.reported and self._servers.get(server.name) is server:
            server.reported = True
            self.report(error)

    def _set_state(self, server: _Server, state: ServerState) -> None:
        server.state = state
        server.settled.set()
        if self._servers.get(server.name) is server:
            self._collect_tools()
            self.on_change(server.name)

    def _collect_tools(self) -> None:
        # Imported here, so that the daemon starts faster: with the tools.
        from ostler.tools.mcp.server_tool import ServerTool  # noqa: PLC0415

        declared = [each for server in self._servers.values() for each in server.state.listing.tools]
        named = name_tools(declared)
        known = {(tool.name, id(tool.declared)): tool for tool in self._tools}
        tools = tuple(known.get((name, id(each))) or ServerTool(name, each) for name, each in named.items())
        if tools != self._tools:
            self._tools = tools

    # Calls.

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any], handlers: CallHandlers
    ) -> ServerAnswer:
        """Calls a tool. Raises Unreachable."""
        kept = self._find(server)
        return await self._use(
            kept, lambda connection: connection.call_tool(tool, arguments, handlers, kept.wanted.call_seconds)
        )

    async def list_resources(self, server: str) -> list[dict[str, Any]]:
        """Raises Unreachable."""
        return await self._use(self._find(server), Connection.list_resources)

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        """Raises Unreachable."""
        return await self._use(self._find(server), lambda connection: connection.read_contents(uri))

    def _find(self, name: str) -> _Server:
        server = self._servers.get(name)
        if server is None:
            raise NoSuchServer(f"The session has no MCP server {name!r} any more.")
        return server

    async def _use(self, server: _Server, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Ask a server something over its connection, which is opened again where it was lost."""
        lease = await self.connections.lease(self._make_key(server.name, server.wanted))
        broken = False
        try:
            return await work(lease.connection)
        except Refused:
            raise
        except Unreachable:
            broken = True
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await lease.release(broken=broken)

    def _make_key(self, name: str, want: WantedServer) -> ServerKey:
        return ServerKey(self.session_id, name, want.digest)

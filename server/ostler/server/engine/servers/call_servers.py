"""The MCP servers as one call uses them: progress goes to clients, what the server asks for to people or the model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from ostler.protocol.shapes import Call
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.servers.elicitation import elicit
from ostler.server.engine.servers.sampling import sample
from ostler.server.engine.session.live import LiveSession
from ostler.server.mcp.connection import Unreachable
from ostler.tools.services import ServerAnswer, ServerCallFailed

_PROGRESS_SECONDS: Final = 0.1
"""A server may tell of its progress a thousand times a second: clients hear of it ten times, and of the last."""


@dataclass(frozen=True, slots=True)
class CallServers:
    """See `ostler.tools.services.Servers`."""

    session: LiveSession
    asks: TurnAsks
    call: Call
    expire_seconds: float | None

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any], progress: Callable[[dict[str, Any]], None]
    ) -> ServerAnswer:
        handlers = _Handlers(self, server, progress)
        try:
            return await self.session.servers.call_tool(server, tool, arguments, handlers)
        except Unreachable as error:
            raise ServerCallFailed(str(error)) from None

    async def list_resources(self, server: str) -> list[dict[str, Any]]:
        try:
            return await self.session.servers.list_resources(server)
        except Unreachable as error:
            raise ServerCallFailed(str(error)) from None

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        try:
            return await self.session.servers.read_resource(server, uri)
        except Unreachable as error:
            raise ServerCallFailed(str(error)) from None


@dataclass(slots=True)
class _Handlers:
    """See `ostler.server.mcp.connection.CallHandlers`."""

    servers: CallServers
    server: str
    progress: Callable[[dict[str, Any]], None]
    _shown_at: float = field(default=-1.0)

    def show_progress(self, progress: dict[str, Any]) -> None:
        now = anyio.current_time()
        is_last = progress.get("total") is not None and progress["progress"] >= progress["total"]
        if is_last or now - self._shown_at >= _PROGRESS_SECONDS:
            self._shown_at = now
            self.progress(progress)

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        servers = self.servers
        return await elicit(servers.session, servers.asks, servers.call, self.server, params, servers.expire_seconds)

    async def sample(self, params: dict[str, Any]) -> dict[str, Any]:
        servers = self.servers
        return await sample(servers.session, servers.asks, servers.call, self.server, params, servers.expire_seconds)

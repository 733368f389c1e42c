"""A running daemon: it serves HTTP requests, runs the background work, and stops cleanly."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import anyio

from ostler.server.api.server import Address
from ostler.server.clients.client_tools import ClientTools
from ostler.server.config.configuration import Configuration
from ostler.server.daemon.housekeeping import run_housekeeping
from ostler.server.engine.engine import Engine
from ostler.server.events.event_log import EventLog
from ostler.server.http.access import AccessGuard
from ostler.server.http.http_protocol import HttpLimits, bind_limits
from ostler.server.http.router import Probes, Router
from ostler.server.http.sockets import ListenSockets
from ostler.server.http.sse_endpoint import SseEndpoint
from ostler.server.http.uvicorn_parts import Config, Server
from ostler.server.models.registry import Providers
from ostler.server.observability import logs
from ostler.server.observability.metrics import CallCounts
from ostler.server.rpc.dispatcher import Dispatcher
from ostler.storage import Store

_GRACE_SECONDS: Final = 1
"""How long calls that run may take to finish when the daemon stops."""


class _Server(Server):
    """uvicorn without its signal handling: it would raise the signal again and exit with -15."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    store: Store
    log: EventLog
    configuration: Configuration
    engine: Engine
    client_tools: ClientTools
    calls: CallCounts
    address: Address
    sse_endpoint: SseEndpoint
    dispatcher: Dispatcher
    access_guard: AccessGuard
    router: Router
    probes: Probes
    listen_sockets: ListenSockets
    providers: Providers
    stopping: anyio.Event

    @property
    def url(self) -> str:
        return self.listen_sockets.url

    async def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until `stopping` is set, then let running calls finish and end every event stream."""
        server = _Server(self._uvicorn_config())
        async with anyio.create_task_group() as group:
            # Work that is not needed before the daemon answers its first request.
            group.start_soon(run_housekeeping, self.store, self.log, self.configuration)
            group.start_soon(self.engine.run)
            group.start_soon(self.providers.warm_up, self.configuration.default_model)
            group.start_soon(self._wait_for_stop, server)
            self.probes.ready = True
            ready()
            await server.serve(sockets=self.listen_sockets.sockets)
            await self.engine.close()
            group.cancel_scope.cancel()
        await self.providers.close()

    def _uvicorn_config(self) -> Config:
        limits = self.configuration.current.limits
        return Config(
            self.access_guard,
            http=bind_limits(
                HttpLimits(limits.connections, limits.header_bytes, limits.header_seconds, limits.body_seconds)
            ),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )

    async def _wait_for_stop(self, server: Server) -> None:
        await self.stopping.wait()
        logs.log.info("stopping", calls=self.dispatcher.running, readers=self.sse_endpoint.count)
        self.dispatcher.stopping = True
        self.sse_endpoint.close()
        server.should_exit = True

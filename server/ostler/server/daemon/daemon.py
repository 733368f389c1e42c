"""A running daemon: the HTTP server with everything behind it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import anyio
import uvicorn

from ostler.server.api.server import House
from ostler.server.daemon.housekeeping import look_after
from ostler.server.http.access import Door
from ostler.server.http.http_protocol import HttpLimits, with_limits
from ostler.server.http.router import Front, Probes
from ostler.server.http.sockets import Listening
from ostler.server.models.registry import Providers
from ostler.server.observability import logs
from ostler.server.rpc.dispatcher import Dispatcher

_GRACE_SECONDS: Final = 1
"""How long calls that run may take to finish when the daemon stops."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: it would raise the signal again and exit with -15."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    house: House
    dispatcher: Dispatcher
    door: Door
    front: Front
    probes: Probes
    listening: Listening
    providers: Providers
    stopping: anyio.Event

    @property
    def url(self) -> str:
        return self.listening.url

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until somebody says stop, then finish what runs and end every stream."""
        server = _Server(self._uvicorn_config())
        async with anyio.create_task_group() as group:
            # What can wait until the daemon answers.
            group.start_soon(look_after, self.house.store, self.house.log, self.house.configuration)
            group.start_soon(self.house.engine.run)
            group.start_soon(self.front.pages)
            group.start_soon(self.providers.warm_up)
            group.start_soon(self._stop_when_told, server)
            self.probes.ready = True
            ready()
            await server.serve(sockets=self.listening.sockets)
            await self.house.engine.close()
            group.cancel_scope.cancel()
        await self.providers.close()

    def _uvicorn_config(self) -> uvicorn.Config:
        limits = self.house.configuration.current.limits
        return uvicorn.Config(
            self.door,
            http=with_limits(
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

    async def _stop_when_told(self, server: uvicorn.Server) -> None:
        await self.stopping.wait()
        logs.log.info("stopping", calls=self.dispatcher.running, readers=self.house.streams.count)
        self.dispatcher.stopping = True
        self.house.streams.close()
        server.should_exit = True

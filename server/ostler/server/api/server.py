"""The handlers of the server methods: initialize, rpc.discover, info, stats, shutdown."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ostler.protocol.client import Initialize, Initialized, Limits, ServerCapabilities, ServerIdentity
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.limits import MAX_BATCH, MAX_BODY_BYTES, MAX_DEPTH, MAX_PAGE, MAX_VALUES, PROTOCOL_VERSION
from ostler.protocol.methods import METHODS, OpenRpcDocument
from ostler.protocol.server import ServerInfo, ServerStats, ShutdownStarted
from ostler.protocol.wire import Nothing
from ostler.server.clients.presence import Presence
from ostler.server.config.configuration import Configuration
from ostler.server.engine.journal.session_view import resolve_provider
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.events.event_log import EventLog
from ostler.server.http.sse_endpoint import SseEndpoint
from ostler.server.observability.metrics import CallCounts
from ostler.server.rpc.discovery import load_openrpc
from ostler.server.version import get_version
from ostler.storage import Snapshot, Store


@dataclass(frozen=True, slots=True)
class Address:
    """Where this daemon listens, and since when it runs."""

    url: str
    socket: Path
    home: Path
    started_at: str
    started_monotonic: float


@dataclass(frozen=True, slots=True)
class ServerMethods:
    store: Store
    log: EventLog
    configuration: Configuration
    presence: Presence
    streams: SseEndpoint
    tasks: TaskRegistry
    calls: CallCounts
    address: Address
    stop: Callable[[], None]
    """Starts to stop the daemon; returns at once."""

    @property
    def _limits(self) -> Limits:
        return Limits(
            max_body_bytes=MAX_BODY_BYTES,
            max_batch=MAX_BATCH,
            max_depth=MAX_DEPTH,
            max_values=MAX_VALUES,
            max_page=MAX_PAGE,
            max_readers=self.configuration.current.limits.readers,
        )

    async def initialize(self, params: Initialize) -> Initialized:
        return Initialized(
            client_id=await self.presence.introduce(params),
            protocol_version=PROTOCOL_VERSION,
            server=ServerIdentity(version=get_version()),
            database_id=self.store.database_id,
            capabilities=ServerCapabilities(
                methods=sorted(METHODS),
                events=sorted(EVENT_TYPES),
                provider=resolve_provider(self.configuration.default_model),
                socket=str(self.address.socket),
            ),
            limits=self._limits,
        )

    async def discover(self, params: Nothing) -> OpenRpcDocument:
        return OpenRpcDocument.model_validate(await load_openrpc(self.address.url))

    async def info(self, params: Nothing) -> ServerInfo:
        model = self.configuration.default_model
        return ServerInfo(
            server=ServerIdentity(version=get_version()),
            protocol_version=PROTOCOL_VERSION,
            pid=os.getpid(),
            started_at=self.address.started_at,
            url=self.address.url,
            socket=str(self.address.socket),
            home=str(self.address.home),
            database_id=self.store.database_id,
            cursor=self.log.head,
            model=model,
            provider=resolve_provider(model),
            ready=self.store.writer.read_only is None,
            read_only=self.store.writer.read_only,
            limits=self._limits,
        )

    async def stats(self, params: Nothing) -> ServerStats:
        return await self.log.read(self._count_stats)

    def _count_stats(self, snapshot: Snapshot) -> ServerStats:
        """Runs on a reader's thread: most of it comes from the file system."""
        # Imported here: it is rarely needed, and takes 2 % of the start.
        import psutil  # noqa: PLC0415

        writer = self.store.writer
        return ServerStats(
            uptime_ms=int((time.monotonic() - self.address.started_monotonic) * 1000),
            rss_bytes=psutil.Process().memory_info().rss,
            cursor=self.log.head,
            sessions=snapshot.sessions.count(),
            tasks=self.tasks.running,
            events=snapshot.events.count(),
            readers=self.streams.count,
            readers_cut=self.log.subscribers_cut,
            clients_attached=self.presence.count,
            calls=self.calls.total,
            commits=writer.counts.commits,
            writes=writer.counts.units,
            writes_pending=writer.pending,
            database_bytes=_measure_file(self.store.path),
            wal_bytes=_measure_file(self.store.path.with_name(self.store.path.name + "-wal")),
        )

    async def shutdown(self, params: Nothing) -> ShutdownStarted:
        self.stop()
        return ShutdownStarted(pid=os.getpid())


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

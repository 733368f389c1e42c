"""The handlers of the server, client and config methods, and the container of all other handlers."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from ostler.protocol.client import (
    ClientList,
    ClientPage,
    Initialize,
    Initialized,
    Limits,
    ServerCapabilities,
    ServerIdentity,
)
from ostler.protocol.config import ConfigChange, ConfigGet, ConfigSet, ConfigValue
from ostler.protocol.events import EVENT_TYPES, ConfigData
from ostler.protocol.limits import MAX_BATCH, MAX_BODY_BYTES, MAX_DEPTH, MAX_PAGE, MAX_VALUES, PROTOCOL_VERSION
from ostler.protocol.methods import METHODS
from ostler.protocol.server import ServerInfo, ServerStats, ShutdownStarted
from ostler.protocol.wire import Nothing
from ostler.server.api.asks import AskMethods
from ostler.server.api.hooks import HookMethods
from ostler.server.api.providers.auth import AuthMethods
from ostler.server.api.providers.models import ModelMethods
from ostler.server.api.results import ResultMethods
from ostler.server.api.rules import RuleMethods
from ostler.server.api.sessions import SessionMethods
from ostler.server.api.tasks import TaskMethods
from ostler.server.api.tools import ToolMethods
from ostler.server.api.trust import TrustMethods
from ostler.server.api.turns import TurnMethods
from ostler.server.clients.client_tools import ClientTools
from ostler.server.clients.presence import Presence
from ostler.server.config.configuration import Configuration
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import resolve_provider
from ostler.server.events.event_log import EventLog
from ostler.server.http.sse_endpoint import SseEndpoint
from ostler.server.observability.metrics import CallCounts
from ostler.server.version import get_version
from ostler.storage import Scope, Snapshot, Store, Tx


@dataclass(frozen=True, slots=True)
class Address:
    """Where this daemon listens, and since when it runs."""

    url: str
    socket: Path
    home: Path
    started_at: str
    started_monotonic: float


@dataclass(slots=True)
class ServerApi:
    """All handlers, and the services that they and the transports use."""

    store: Store
    log: EventLog
    configuration: Configuration
    presence: Presence
    client_calls: ClientTools
    streams: SseEndpoint
    sessions: SessionMethods
    engine: Engine
    turns: TurnMethods
    asks: AskMethods
    rules: RuleMethods
    hooks: HookMethods
    models: ModelMethods
    auth: AuthMethods
    trust: TrustMethods
    tools: ToolMethods
    tasks: TaskMethods
    results: ResultMethods
    calls: CallCounts
    address: Address
    stop: Callable[[], None]
    """Starts to stop the daemon; returns at once."""
    apply: Callable[[], None]
    """Applies a changed configuration."""

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
            tasks=self.engine.tasks.running,
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

    async def clients(self, params: ClientList) -> ClientPage:
        if params.session_id is not None:
            wanted = params.session_id
            await self.log.read(lambda snapshot: snapshot.sessions.get(wanted))
        return self.presence.list_clients(params)

    async def config_get(self, params: ConfigGet) -> ConfigValue:
        return self.configuration.get(params)

    async def config_set(self, params: ConfigSet) -> ConfigChange:
        # Checked first: a change that cannot be announced must not be made.
        self.store.writer.check_writable()
        change = await anyio.to_thread.run_sync(self.configuration.set, params)
        self.apply()
        data = ConfigData(key=change.key, value=change.value, applies=change.applies)

        def announce(tx: Tx) -> None:
            tx.append("config.changed", Scope(), data=data)

        await self.log.write(announce)
        return change


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

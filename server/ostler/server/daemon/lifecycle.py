"""The life of the daemon: open, serve, stop."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn

from ostler.protocol import times
from ostler.protocol.methods import METHODS
from ostler.protocol.places import Places
from ostler.protocol.shapes import Usage
from ostler.server.api.asks import AskMethods
from ostler.server.api.bindings import bind_methods
from ostler.server.api.hooks import HookMethods
from ostler.server.api.results import ResultMethods
from ostler.server.api.rules import RuleMethods
from ostler.server.api.server import Address, House
from ostler.server.api.sessions import Sessions
from ostler.server.api.tasks import TaskMethods
from ostler.server.api.tools import ToolMethods
from ostler.server.api.trust import TrustMethods
from ostler.server.api.turns import TurnMethods
from ostler.server.clients.client_tools import ClientCalls
from ostler.server.clients.presence import Presence
from ostler.server.config.configuration import Configuration
from ostler.server.config.token_file import load_token
from ostler.server.daemon.housekeeping import look_after
from ostler.server.daemon.instance import Instance
from ostler.server.daemon.wiring import make_rooms, settings_places
from ostler.server.engine.engine import Engine
from ostler.server.engine.session.live import Rooms
from ostler.server.engine.turn.options import Services
from ostler.server.engine.turn_waiters import TurnWatch
from ostler.server.events.event_log import EventLog
from ostler.server.http.access import Door, names_for
from ostler.server.http.http_protocol import HttpLimits, with_limits
from ostler.server.http.router import Front, Probes
from ostler.server.http.rpc_endpoint import RpcTransport
from ostler.server.http.sockets import Listening, open_sockets
from ostler.server.http.sse_endpoint import Streams
from ostler.server.models import pricing
from ostler.server.models.registry import Providers, make_providers
from ostler.server.observability import logs
from ostler.server.observability.metrics import CallCounts, Gauge, Metrics, ToolCounts
from ostler.server.rpc.dispatcher import Dispatcher
from ostler.server.rpc.locks import Locks
from ostler.server.settings import check_policy
from ostler.server.version import version
from ostler.storage import Store, open_store

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


@contextlib.asynccontextmanager
async def open_daemon(
    places: Places,
    configuration: Configuration,
    environ: Mapping[str, str] = os.environ,
    umask: int = 0o022,
) -> AsyncIterator[Daemon]:
    """Everything that has to be there before the first request; closed again in the opposite order."""
    check_policy(settings_places(places))
    token = load_token(places.token_file)
    listen = configuration.current.listen
    listening = open_sockets(listen, Path(listen.socket) if listen.socket else places.socket)
    try:
        store = open_store(places.database, pending_limit=configuration.current.limits.pending_writes)
        try:
            yield _assembled(places, configuration, store, listening, token, environ, umask)
        finally:
            await store.close()
    finally:
        listening.close()


def _assembled(
    places: Places,
    configuration: Configuration,
    store: Store,
    listening: Listening,
    token: bytes,
    environ: Mapping[str, str],
    umask: int,
) -> Daemon:
    stopping = anyio.Event()
    log = EventLog(store)
    presence = Presence(log)
    client_calls = ClientCalls(log, presence)
    streams = Streams(log, presence, configuration.current.limits)
    calls = CallCounts(METHODS)
    tool_counts = ToolCounts()
    address = Address(listening.url, listening.path, places.data, times.now(), time.monotonic())
    listen = configuration.current.listen

    def apply() -> None:
        streams.limits = configuration.current.limits
        door.wrong_per_minute = configuration.current.limits.wrong_tokens_per_minute

    providers = make_providers(environ, configuration.current.model)
    rooms = make_rooms(places, configuration, umask, testing=environ.get("OSTLER_TESTING") == "1")
    rooms.client_calls = client_calls
    engine = _engine(places, configuration, log, providers, rooms, tool_counts)
    sessions = Sessions(log, configuration, engine)
    watch = TurnWatch()
    log.followers.append(watch.see)

    house = House(
        store=store,
        log=log,
        configuration=configuration,
        presence=presence,
        client_calls=client_calls,
        streams=streams,
        sessions=sessions,
        engine=engine,
        turns=TurnMethods(engine, sessions, watch, Locks()),
        asks=AskMethods(engine),
        rules=RuleMethods(engine),
        hooks=HookMethods(engine),
        trust=TrustMethods(engine),
        tools=ToolMethods(engine),
        tasks=TaskMethods(engine),
        results=ResultMethods(log),
        calls=calls,
        address=address,
        stop=lambda: _stop_soon(stopping),
        apply=apply,
    )
    dispatcher = Dispatcher(bind_methods(house), calls)
    probes = Probes(lambda: store.writer.read_only, {"pid": os.getpid(), "version": version()})
    metrics = Metrics(calls, tool_counts, _gauges(house))
    front = Front(
        {
            "/rpc": RpcTransport(dispatcher),
            "/events": streams,
            "/healthz": probes.alive,
            "/readyz": probes.readiness,
        },
        lambda: _load_pages(log, metrics, listening.url),
    )
    door = Door(
        front,
        token=token,
        names=names_for(listening.url, listen.allow_hosts, listen.allow_origins),
        wrong_per_minute=configuration.current.limits.wrong_tokens_per_minute,
    )
    return Daemon(house, dispatcher, door, front, probes, listening, providers, stopping)


def _engine(
    places: Places,
    configuration: Configuration,
    log: EventLog,
    providers: Providers,
    rooms: Rooms,
    tool_counts: ToolCounts,
) -> Engine:
    def priced(model: str, used: Usage) -> Decimal | None:
        return pricing.cost(model, used, configuration.current.model.prices)

    def max_output(model: str) -> int:
        known = pricing.window(model)
        return known.max_output if known else configuration.current.model.max_output_tokens

    services = Services(providers.provider, lambda: configuration.current, priced, max_output, tool_counts)
    return Engine(log, services, rooms, places.config_file.parent)


def _stop_soon(stopping: anyio.Event) -> None:
    # A moment later, so that the answer to server/shutdown is on its way before the connections close.
    asyncio.get_running_loop().call_later(0.05, stopping.set)


def _load_pages(log: EventLog, metrics: Metrics, url: str) -> Any:
    # Imported here: FastAPI takes longer to load than all the rest (see front.py).
    from ostler.server.api.downloads import build_pages  # noqa: PLC0415

    return build_pages(log, metrics, url)


def _gauges(house: House) -> list[Gauge]:
    writer = house.store.writer
    return [
        Gauge("ostler_cursor", "The end of the log.", lambda: house.log.head),
        Gauge("ostler_readers", "Open event streams.", lambda: house.streams.count),
        Gauge("ostler_readers_cut", "Readers cut for being slow.", lambda: house.log.readers_cut, counter=True),
        Gauge("ostler_tasks", "Background tasks that run.", lambda: house.engine.tasks.running),
        Gauge("ostler_clients_attached", "Clients that are attached.", lambda: house.presence.count),
        Gauge("ostler_writes", "Units of work written.", lambda: writer.counts.units, counter=True),
        Gauge("ostler_commits", "Commits to the disk.", lambda: writer.counts.commits, counter=True),
        Gauge("ostler_write_failures", "Commits that failed.", lambda: writer.counts.failures, counter=True),
        Gauge("ostler_writes_pending", "Units of work that wait.", lambda: writer.pending),
        Gauge("ostler_read_only", "1 while nothing can be written.", lambda: writer.read_only is not None),
    ]


async def run_daemon(places: Places, configuration: Configuration, instance: Instance, umask: int) -> None:
    """The daemon as a process: signals, the line that says it is ready, and the file that says where."""
    async with open_daemon(places, configuration, umask=umask) as daemon:
        _handle_signals(daemon.stopping)

        def ready() -> None:
            instance.announce(
                version=version(),
                url=daemon.url,
                socket=str(daemon.listening.path),
                started=daemon.house.address.started_at,
            )
            _say_ready(daemon)

        await daemon.serve(ready)
    logs.log.info("stopped")


def _say_ready(daemon: Daemon) -> None:
    if daemon.listening.moved:
        logs.log.warning("port_taken", wanted=daemon.house.configuration.current.listen.port, url=daemon.url)
    logs.log.info(
        "ready",
        url=daemon.url,
        socket=str(daemon.listening.path),
        version=version(),
        model=daemon.house.configuration.default_model,
    )
    # A reader that closed our stdout must not keep the daemon from starting.
    with contextlib.suppress(OSError):
        print(f"ostler ready {daemon.url}", flush=True)  # noqa: T201 - the line that scripts wait for


def _handle_signals(stopping: anyio.Event) -> None:
    def told(number: signal.Signals) -> None:
        if stopping.is_set():
            logs.log.warning("forced", signal=number.name)
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told, number)


def close_to_others() -> int:
    """Files are ours alone, and so is our memory: a child process must not read the key out of it.

    Returns the umask that the person has, for what is done in their name.
    """
    umask = os.umask(0o077)
    if sys.platform == "linux":
        pr_set_dumpable, pr_set_child_subreaper = 4, 36
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(pr_set_dumpable, 0, 0, 0, 0)
        # A child whose parent has ended becomes ours again and not init's: on the socket it would pass for a stranger
        # of the same user, who needs no token.
        prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    return umask

"""The composition root: the one place that knows every part of the daemon, and puts them together."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

import anyio

from ostler.protocol import times
from ostler.protocol.config import Config, Sandbox
from ostler.protocol.ids import SessionId
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
from ostler.server.config.private_files import own_folder
from ostler.server.daemon.daemon import Daemon
from ostler.server.engine.engine import Engine
from ostler.server.engine.session.settings_cache import SettingsRoom
from ostler.server.engine.session.shared import Rooms
from ostler.server.engine.turn.options import Services
from ostler.server.engine.turn_waiters import TurnWatch
from ostler.server.events.event_log import EventLog
from ostler.server.http.access import Door, names_for
from ostler.server.http.router import Front, Probes
from ostler.server.http.rpc_endpoint import RpcTransport
from ostler.server.http.sockets import Listening
from ostler.server.http.sse_endpoint import Streams
from ostler.server.models import pricing
from ostler.server.models.registry import Providers, make_providers
from ostler.server.observability import logs
from ostler.server.observability.metrics import CallCounts, Gauge, Metrics, ToolCounts
from ostler.server.rpc.dispatcher import Dispatcher
from ostler.server.rpc.locks import Locks
from ostler.server.settings import POLICY, SettingsPlaces
from ostler.server.version import version
from ostler.storage import Store
from ostler.tools.context import Assistant, Surroundings
from ostler.tools.registry import Registry
from ostler.tools.sandbox import Support, probe_sandbox
from ostler.tools.sandbox.policy import Sandboxing
from ostler.tools.shell.output.output_file_pool import keep_spares
from ostler.tools.shell.running.profile import ShellProfile

_ALL_ON: Final = frozenset[str]()
_NO_MONITOR: Final = frozenset({"Monitor"})


def make_rooms(places: Places, configuration: Configuration, umask: int, *, testing: bool) -> Rooms:
    output_folder = places.data / "tasks"
    own_folder(output_folder)
    keep_spares(output_folder, places.data / "spare")
    sandbox = SandboxRoom(lambda: configuration.current.sandbox, places)
    profile = ShellProfile(places.data / "shell", lambda why: logs.log.warning("profile_left_out", reason=why))
    rooms = Rooms(
        load_registry=_load_registry,
        home=str(places.data),
        output_folder=output_folder,
        allow_bypass=lambda: configuration.current.permissions.allow_bypass,
        settings=SettingsRoom(settings_places(places), lambda: known_tools(rooms)),
        sandbox=sandbox,
        bash_classifier=lambda: configuration.current.permissions.bash_classifier,
        background=lambda: configuration.current.tools.background,
        profile=lambda: profile if configuration.current.tools.shell_snapshot else None,
        switched_off=lambda: _ALL_ON if configuration.current.tools.monitor else _NO_MONITOR,
        most_files=lambda: configuration.current.tools.glob_files,
        read_tokens=lambda: configuration.current.tools.read_tokens,
        assistant=lambda: _assistant(configuration.current),
        umask=umask,
        testing=testing,
    )
    return rooms


def _assistant(config: Config) -> Assistant | None:
    return Assistant(config.turns.tick_seconds) if config.assistant else None


def settings_places(places: Places) -> SettingsPlaces:
    return SettingsPlaces(str(places.config), os.path.expanduser("~"), POLICY)


def known_tools(rooms: Rooms) -> frozenset[str]:
    """Every name that a rule may speak of."""
    return frozenset(name for tool in rooms.registry.tools for name in (tool.name, *tool.aliases))


class SandboxRoom:
    """The sandbox as the configuration says now: the same object until that changes."""

    def __init__(self, configured: Callable[[], Sandbox], places: Places) -> None:
        self._configured = configured
        self._hidden = tuple(dict.fromkeys(map(str, places.folders)))
        self._known: tuple[Sandbox, str | None, Sandboxing] | None = None
        self.proxy: str | None = None
        """The socket of the proxy, where hosts are allowed and it runs."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._configured().hosts)

    def __call__(self) -> Sandboxing:
        now = self._configured()
        if self._known is None or self._known[0] is not now or self._known[1] != self.proxy:
            made = Sandboxing(
                now.mode,
                _support,
                self._hidden,
                tuple(now.hosts),
                self.proxy,
                skips_ask_rules=now.skips_ask_rules,
                model_may_disable=now.model_may_disable,
            )
            self._known = (now, self.proxy, made)
        return self._known[2]


@cache
def _support() -> Support:
    support = probe_sandbox()
    if not support.works:
        logs.log.warning("no_sandbox", reason=support.reason)
    return support


def _load_registry() -> Registry:
    # Imported here: the tools are a tenth of the start, and nobody needs them before the first session.
    from ostler.tools.builtin import load_registry  # noqa: PLC0415
    from ostler.tools.shell import bash_policy  # noqa: PLC0415

    registry = load_registry()
    # The first command would load the grammar and the tables on the event loop.
    bash_policy.judge("true", Surroundings(SessionId(""), "/", "/", (), "default"))
    for problem in registry.problems:
        logs.log.warning("tool_left_out", reason=problem)
    return registry


def assemble_daemon(
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

"""The composition root: the one place that knows every part of the daemon, and puts them together."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import anyio

from ostler.protocol.config import Config, Sandbox
from ostler.protocol.credentials import PROVIDERS
from ostler.protocol.methods import METHODS
from ostler.protocol.places import Places
from ostler.protocol.shapes import Usage
from ostler.server.api.agents import AgentMethods
from ostler.server.api.asks import AskMethods
from ostler.server.api.clients import ClientMethods
from ostler.server.api.config import ConfigMethods
from ostler.server.api.context.memory import MemoryMethods
from ostler.server.api.context.window import ContextMethods
from ostler.server.api.discovery.mcp import McpMethods
from ostler.server.api.discovery.prompt import PromptMethods
from ostler.server.api.discovery.skills import SkillMethods
from ostler.server.api.files.handlers import FileMethods
from ostler.server.api.hooks import HookMethods
from ostler.server.api.providers.auth import AuthMethods
from ostler.server.api.providers.models import ModelMethods
from ostler.server.api.results import ResultMethods
from ostler.server.api.rules import RuleMethods
from ostler.server.api.server import Address, ServerMethods
from ostler.server.api.sessions import SessionMethods
from ostler.server.api.tasks import TaskMethods
from ostler.server.api.todos import TodoMethods
from ostler.server.api.tools import ToolMethods
from ostler.server.api.trust import TrustMethods
from ostler.server.api.turns import TurnMethods
from ostler.server.clients.client_tools import ClientTools
from ostler.server.clients.presence import LocalPresence, Presence
from ostler.server.config.configuration import Configuration
from ostler.server.daemon.bindings import Binder, HandlerGroups, bind_methods
from ostler.server.daemon.daemon import Daemon
from ostler.server.daemon.opened import Opened, find_output_folder, make_settings_places
from ostler.server.engine.engine import Engine
from ostler.server.engine.session.settings_cache import SettingsCache
from ostler.server.engine.session.shared import SharedServices
from ostler.server.engine.turn.options import TurnServices
from ostler.server.engine.turn_waiters import TurnWaiters
from ostler.server.events.event_log import EventLog
from ostler.server.http.access import AccessGuard, make_allowed_names
from ostler.server.http.router import Probes, Router
from ostler.server.http.rpc_endpoint import RpcEndpoint
from ostler.server.http.sse_endpoint import SseEndpoint
from ostler.server.models import pricing
from ostler.server.models.registry import Providers, make_providers
from ostler.server.observability import logs
from ostler.server.observability.metrics import CallCounts, EventCounts, Gauge, Metrics, ToolCounts
from ostler.server.rpc.dispatcher import Dispatcher
from ostler.server.rpc.locks import LocalLocks
from ostler.server.version import get_version
from ostler.storage import Store
from ostler.tools.registry import Registry
from ostler.tools.sandbox import probe_sandbox
from ostler.tools.shell.output.output_file_pool import keep_spares
from ostler.tools.shell.running.profile import ShellProfile
from ostler.tools.tool_config import Assistant, Limits, SandboxSettings, Support, ToolConfig


def make_shared_services(places: Places, configuration: Configuration, umask: int, *, testing: bool) -> SharedServices:
    output_folder = find_output_folder(places)
    keep_spares(output_folder, places.data / "spare")
    settings = SettingsCache(make_settings_places(places), lambda: list_known_tools(shared))
    sandbox = SandboxCache(
        lambda: configuration.current.sandbox, places, required=lambda: settings.limits.requires_sandbox
    )
    profile = ShellProfile(places.data / "shell", lambda why: logs.log.warning("profile_left_out", reason=why))
    shared = SharedServices(
        load_registry=_load_registry,
        home=str(places.data),
        output_folder=output_folder,
        settings=settings,
        sandbox=sandbox,
        permissions=lambda: configuration.current.permissions,
        config=ToolConfigCache(configuration, sandbox, profile, umask, testing=testing),
        search_key=configuration.credentials.read_key,
        umask=umask,
    )
    return shared


def list_known_tools(shared: SharedServices) -> frozenset[str]:
    """The names and aliases of all tools: the names that a rule may use."""
    return frozenset(name for tool in shared.registry.tools for name in (tool.name, *tool.aliases))


class SandboxCache:
    """Builds the sandbox settings from the configuration, and keeps the object until the configuration changes."""

    def __init__(
        self, configured: Callable[[], Sandbox], places: Places, *, required: Callable[[], bool] = lambda: False
    ) -> None:
        self._read_settings = configured
        self._is_required = required
        """By the machine's policy, whatever the configuration says."""
        self._hidden_folders = tuple(dict.fromkeys(map(str, places.folders)))
        self._cached: tuple[Sandbox, str | None, SandboxSettings] | None = None
        self.proxy: str | None = None
        """The socket of the network proxy, while one runs because hosts are allowed."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._read_settings().hosts)

    def __call__(self) -> SandboxSettings:
        now = self._read_settings()
        mode = "required" if self._is_required() else now.mode
        cached = self._cached
        if cached is None or cached[0] is not now or cached[1] != self.proxy or cached[2].mode != mode:
            sandbox = SandboxSettings(
                mode,
                _probe_support,
                self._hidden_folders,
                tuple(now.hosts),
                self.proxy,
                skips_ask_rules=now.skips_ask_rules,
                model_may_disable=now.model_may_disable,
                unix_sockets=now.unix_sockets,
                limits=Limits(now.memory_mb, now.processes, now.file_mb),
            )
            cached = self._cached = (now, self.proxy, sandbox)
        return cached[2]


class ToolConfigCache:
    """Builds what the configuration says to tools, and keeps the object until one of its sources is replaced."""

    def __init__(
        self, configuration: Configuration, sandbox: SandboxCache, profile: ShellProfile, umask: int, *, testing: bool
    ) -> None:
        self._configuration = configuration
        self._sandbox = sandbox
        self._profile = profile
        self._umask = umask
        self._testing = testing
        self._cached: tuple[Config, int, ToolConfig] | None = None

    def __call__(self) -> ToolConfig:
        now, sandbox, cached = self._configuration.current, self._sandbox(), self._cached
        keys = self._configuration.credentials.version
        if cached is None or cached[0] is not now or cached[1] != keys or cached[2].sandbox is not sandbox:
            cached = self._cached = (now, keys, self._build(now, sandbox))
        return cached[2]

    def _build(self, config: Config, sandbox: SandboxSettings) -> ToolConfig:
        return ToolConfig(
            tools=config.tools,
            web=config.web,
            search_keys=frozenset(
                name
                for name, provider in PROVIDERS.items()
                if provider.serves == "web search" and self._configuration.credentials.has_key(name)
            ),
            network_reads=config.permissions.network_reads,
            todos=config.todos,
            assistant=Assistant(config.turns.tick_seconds) if config.assistant else None,
            sandbox=sandbox,
            profile=self._profile if config.tools.shell_snapshot else None,
            umask=self._umask,
            testing=self._testing,
        )


@cache
def _probe_support() -> Support:
    support = probe_sandbox()
    if not support.works:
        logs.log.warning("no_sandbox", reason=support.reason)
    return support


def _load_registry() -> Registry:
    # Imported here: the tools are a tenth of the start, and nobody needs them before the first session.
    from ostler.tools.builtin import load_registry  # noqa: PLC0415

    registry = load_registry()
    for problem in registry.problems:
        logs.log.warning("tool_left_out", reason=problem)
    for deprecation in registry.deprecations:
        logs.log.warning("plug_in_deprecated", reason=deprecation)
    return registry


def assemble_daemon(
    places: Places,
    configuration: Configuration,
    opened: Opened,
    environ: Mapping[str, str],
    umask: int,
) -> Daemon:
    store, sockets, stopping = opened.store, opened.sockets, opened.stopping
    log = EventLog(store)
    presence = LocalPresence(log)
    locks = LocalLocks()
    client_tools = ClientTools(log, presence)
    sse_endpoint = SseEndpoint(log, presence, configuration.current.limits)
    calls = CallCounts(METHODS)
    tool_counts, event_counts = ToolCounts(), EventCounts()
    address = Address(sockets.url, sockets.path, places.data, opened.started_at, time.monotonic())
    listen = configuration.current.listen

    def apply() -> None:
        sse_endpoint.limits = configuration.current.limits
        access_guard.wrong_per_minute = configuration.current.limits.wrong_tokens_per_minute

    providers = make_providers(environ, configuration.current.model, configuration.credentials)
    shared = make_shared_services(places, configuration, umask, testing=environ.get("OSTLER_TESTING") == "1")
    shared.client_calls = client_tools
    shared.has_answering_client = presence.has_answering_client
    engine = _make_engine(places, configuration, log, providers, shared, tool_counts)
    sessions = SessionMethods(log, configuration, engine)
    waiters = TurnWaiters()
    log.followers += [waiters.on_event, event_counts.on_event]

    methods = HandlerGroups(
        server=ServerMethods(
            store,
            log,
            configuration,
            presence,
            sse_endpoint,
            engine.tasks,
            calls,
            address,
            lambda: _stop_soon(stopping),
        ),
        sessions=sessions,
        turns=TurnMethods(engine, sessions, waiters, locks),
        asks=AskMethods(engine),
        rules=RuleMethods(engine),
        prompts=PromptMethods(engine),
        skills=SkillMethods(engine),
        mcp=McpMethods(engine),
        hooks=HookMethods(engine),
        models=ModelMethods(log, configuration, providers),
        auth=AuthMethods(configuration.credentials, configuration),
        trust=TrustMethods(engine),
        files=FileMethods(engine),
        tools=ToolMethods(engine, configuration),
        tasks=TaskMethods(engine),
        agents=AgentMethods(engine),
        todos=TodoMethods(),
        results=ResultMethods(log),
        clients=ClientMethods(log, presence, client_tools),
        context=ContextMethods(log, engine),
        memory=MemoryMethods(),
        config=ConfigMethods(store, log, configuration, apply),
    )
    dispatcher = Dispatcher(bind_methods(Binder(log, engine, presence), methods), calls, locks)
    probes = Probes(lambda: store.writer.read_only, {"pid": os.getpid(), "version": get_version()})
    metrics = Metrics(calls, tool_counts, event_counts, _make_gauges(store, log, engine, presence, sse_endpoint))
    router = Router(
        {
            "/rpc": RpcEndpoint(dispatcher),
            "/events": sse_endpoint,
            "/healthz": probes.answer_health,
            "/readyz": probes.answer_readiness,
        },
        lambda: _load_pages(log, metrics, sockets.url),
    )
    access_guard = AccessGuard(
        router,
        token=opened.token,
        names=make_allowed_names(sockets.url, listen.allow_hosts, listen.allow_origins),
        wrong_per_minute=configuration.current.limits.wrong_tokens_per_minute,
    )
    return Daemon(
        store=store,
        log=log,
        configuration=configuration,
        engine=engine,
        client_tools=client_tools,
        calls=calls,
        address=address,
        sse_endpoint=sse_endpoint,
        dispatcher=dispatcher,
        access_guard=access_guard,
        router=router,
        probes=probes,
        listen_sockets=sockets,
        providers=providers,
        stopping=stopping,
    )


def _make_engine(
    places: Places,
    configuration: Configuration,
    log: EventLog,
    providers: Providers,
    shared: SharedServices,
    tool_counts: ToolCounts,
) -> Engine:
    def compute_cost(model: str, used: Usage) -> Decimal | None:
        return pricing.compute_cost(model, used, configuration.current.model.prices)

    def max_output(model: str) -> int:
        known = pricing.find_window(model)
        return known.max_output if known else configuration.current.model.max_output_tokens

    def get_window(model: str) -> int:
        known = pricing.find_window(model)
        return configuration.current.context.window or (known.context if known else pricing.DEFAULT_WINDOW)

    services = TurnServices(
        providers.get_provider,
        configuration.credentials,
        lambda: configuration.current,
        compute_cost,
        max_output,
        get_window,
        tool_counts,
    )
    return Engine(log, services, shared, places.config_file)


def _stop_soon(stopping: anyio.Event) -> None:
    # A moment later, so that the answer to server/shutdown is on its way before the connections close.
    asyncio.get_running_loop().call_later(0.05, stopping.set)


def _load_pages(log: EventLog, metrics: Metrics, url: str) -> Any:
    # Imported here: FastAPI takes longer to load than all the rest (see router.py).
    from ostler.server.api.exports.downloads import build_downloads_app  # noqa: PLC0415

    return build_downloads_app(log, metrics, url)


def _make_gauges(store: Store, log: EventLog, engine: Engine, presence: Presence, streams: SseEndpoint) -> list[Gauge]:
    writer = store.writer
    return [
        Gauge("ostler_cursor", "The end of the log.", lambda: log.head),
        Gauge("ostler_readers", "Open event streams.", lambda: streams.count),
        Gauge("ostler_readers_cut", "Readers cut for being slow.", lambda: log.subscribers_cut, counter=True),
        Gauge("ostler_tasks", "Background tasks that run.", lambda: engine.tasks.running),
        Gauge("ostler_clients_attached", "Clients that are attached.", lambda: presence.count),
        Gauge("ostler_writes", "Units of work written.", lambda: writer.counts.units, counter=True),
        Gauge("ostler_commits", "Commits to the disk.", lambda: writer.counts.commits, counter=True),
        Gauge("ostler_write_failures", "Commits that failed.", lambda: writer.counts.failures, counter=True),
        Gauge("ostler_writes_pending", "Units of work that wait.", lambda: writer.pending),
        Gauge("ostler_read_only", "1 while nothing can be written.", lambda: writer.read_only is not None),
    ]

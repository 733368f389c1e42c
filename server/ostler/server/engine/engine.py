"""All live sessions: loaded when somebody needs them, evicted when nothing happens in them."""

import contextlib
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ostler.protocol.errors import ProtocolError, ReadOnly, SessionNotFound, ShuttingDown, StorageFailed
from ostler.protocol.events import McpChange, Notice
from ostler.protocol.ids import SessionId
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.agents.running_agent import AgentTaskSource
from ostler.server.engine.agents.spawner import AgentSpawner
from ostler.server.engine.background import (
    load_command_tables,
    reap_orphans_periodically,
    release_memory,
    reload_settings_periodically,
    run_proxy,
)
from ostler.server.engine.crash_recovery import CrashRecovery
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.loading import load_session
from ostler.server.engine.mcp_servers import build_finder
from ostler.server.engine.session.agent_facts import find_settings_folder
from ostler.server.engine.session.agent_slots import TreeSlots
from ostler.server.engine.session.file_reads import SessionFileReads
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.processes import StoredProcesses
from ostler.server.engine.session.settings_loader import SettingsLoader, build_empty_runner
from ostler.server.engine.session.shared import SharedServices
from ostler.server.engine.session.usage import UsageMeter
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.engine.turn.options import TurnServices
from ostler.server.engine.turn.setup import TurnSetup
from ostler.server.engine.worktrees.session_worktrees import finish_deleted
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connections import McpConnections
from ostler.server.mcp.session_servers import SessionServers
from ostler.server.observability import logs
from ostler.storage import Scope
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.tasks import TaskRecord
from ostler.tools.registry import Registry
from ostler.tools.shell.output.output_file_pool import drop_spares
from ostler.tools.threads import read_in_thread, run_deferred

_EVICT_CHECK_SECONDS: Final = 5.0
_END_HOOKS_SECONDS: Final = 10.0
"""For SessionEnd hooks, while a client waits for them."""
_CLOSE_SECONDS: Final = 5.0
"""For commands that have to be killed when the daemon stops."""


@dataclass(slots=True)
class _Loading:
    done: anyio.Event = field(default_factory=anyio.Event)
    actor: SessionActor | None = None
    error: Exception | None = None
    changed_record: SessionRecord | None = None
    """The session as it was changed while it was being read."""


class Engine:
    """The registry of live sessions: loads, evicts, wakes and stops them."""

    def __init__(self, log: EventLog, services: TurnServices, shared: SharedServices, config_file: Path) -> None:
        self.log = log
        self.services = services
        self.shared = shared
        self._config_file = config_file
        self._actors: dict[SessionId, SessionActor] = {}
        self._loading: dict[SessionId, _Loading] = {}
        self._group: TaskGroup | None = None
        self._some_evicted = False
        """Sessions were evicted since memory was last released to the system."""
        self._closing = False
        self.recovery = CrashRecovery(log, shared, services.config, self.get_actor)
        self.settings_loader = SettingsLoader(services.provider, services.config)
        self.servers = McpConnections(log, build_finder(log, shared), self.recovery.wait_for_left_overs)
        self.turn_slots = TreeSlots(lambda: services.config().limits.running_turns)
        self.agents = AgentSpawner(log, services, self.get_actor, self._is_in_charge)
        self.tasks = TaskRegistry(
            log, shared.output_folder, self._start_waking, self.servers, self.get_actor, resume_agent=self._resume_agent
        )

    @property
    def live(self) -> int:
        return len(self._actors)

    @property
    def running(self) -> int:
        return sum(actor.run is not None for actor in self._actors.values())

    # The life of the engine.

    async def run(self) -> None:
        """For as long as the daemon runs."""
        async with anyio.create_task_group() as group:
            self._group = self.tasks.group = self.servers.group = group
            await self.load_registry()
            group.start_soon(self.recovery.recover_all, self.tasks)
            group.start_soon(self.recovery.recover_abandoned)
            group.start_soon(load_command_tables)
            group.start_soon(self._evict_periodically)
            group.start_soon(reap_orphans_periodically)
            group.start_soon(reload_settings_periodically, self.settings_loader.load, self._list_running)
            async with run_proxy(self.shared.sandbox):
                await anyio.sleep_forever()

    async def load_registry(self) -> Registry:
        """The registry of tools; loaded on a thread at the first use."""
        return await anyio.to_thread.run_sync(lambda: self.shared.registry)

    async def close(self) -> None:
        """Abandon every session before the daemon's task group is cancelled: open asks have to stay open."""
        self._closing = True
        actors = list(self._actors.values())
        for actor in actors:
            actor.abandon()
        with anyio.move_on_after(_CLOSE_SECONDS):
            for actor in actors:
                await actor.idle.wait()
            await run_deferred()
        drop_spares(self.shared.output_folder)

    async def _evict_periodically(self) -> None:
        """Evict idle sessions now and then, and release their memory."""
        while True:
            evict_after = self.services.config().turns.evict_seconds
            await anyio.sleep(min(_EVICT_CHECK_SECONDS, evict_after))
            self._evict(evict_after)
            # While nothing runs: it blocks other allocations for as long as it takes.
            if self._some_evicted and not self.running:
                self._some_evicted = False
                await read_in_thread(release_memory)

    def _list_running(self) -> list[LiveSession]:
        return [actor.live for actor in self._actors.values() if actor.run is not None]

    def _evict(self, after: float) -> None:
        long_ago = time.monotonic() - after
        # What binds an agent is read from the sessions above it.
        kept = {above.record.id for live in self._list_running() for above in live.parents}
        for session_id, actor in list(self._actors.items()):
            if actor.evictable and actor.used_at < long_ago and session_id not in kept:
                self._forget(session_id)

    async def _resume_agent(self, record: TaskRecord) -> AgentTaskSource | None:
        return await self.agents.resume_task(record, partial(self.tasks.tell_of_stall, record.task))

    def _is_in_charge(self, live: LiveSession) -> bool:
        actor = self._actors.get(live.record.id)
        return not self._closing and actor is not None and actor.live is live

    def _forget(self, session_id: SessionId) -> None:
        actor = self._actors.pop(session_id, None)
        if actor is not None and actor.live.owns_servers:
            actor.live.servers.close()
        self._some_evicted = True

    # Finding a session.

    async def get_actor(self, session_id: SessionId) -> SessionActor:
        """The live session; loaded, and recovered, when it is not there yet."""
        await self.recovery.wait_for_scan()
        loading = self._loading.get(session_id)
        if loading is None and (actor := self._actors.get(session_id)) is not None:
            # So that it is not evicted before the caller has used it.
            actor.used_at = time.monotonic()
            return actor
        if loading is None:
            loading = self._loading[session_id] = _Loading()
            assert self._group is not None
            # In a task of its own: the caller may be cancelled, and others wait for the same session.
            self._group.start_soon(self._run_load, session_id, loading)
        await loading.done.wait()
        if loading.actor is None:
            raise loading.error or SessionNotFound(session_id)
        return loading.actor

    def find_actor(self, session_id: SessionId) -> SessionActor | None:
        """The actor of a session, if it is in memory."""
        return self._actors.get(session_id)

    async def wait_until_settled(self, session_id: SessionId) -> None:
        """Wait until a session that a crash interrupted is recovered."""
        await self.recovery.wait_for_scan()
        if self.recovery.is_unsettled(session_id) or session_id in self._loading:
            # Where the disk cannot be written the session stays unrecovered; its rows can be read all the same.
            with contextlib.suppress(StorageFailed, ReadOnly):
                await self.get_actor(session_id)

    async def _run_load(self, session_id: SessionId, loading: _Loading) -> None:
        try:
            loading.actor = await self._load_actor(session_id, loading)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the session
            loading.error = error
            if not isinstance(error, ProtocolError):
                logs.log.error("session_not_loaded", session_id=session_id, exc_info=error)
        finally:
            self._loading.pop(session_id, None)
            loading.done.set()

    async def _load_actor(self, session_id: SessionId, loading: _Loading) -> SessionActor:
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        await self.recovery.settle(session_id)
        await self.tasks.queue_unannounced(session_id)
        stored = await self.log.read(lambda snapshot: load_session(snapshot, session_id))
        queued = await self.log.read(lambda snapshot: len(snapshot.turns.list_queued(session_id)))
        owner: weakref.ref[SessionActor] | None = None

        def on_write_failure(error: Exception) -> None:
            # A weak reference: the actor refers to the journal, and a cycle would stay until a garbage collection.
            if owner is not None and (found := owner()) is not None:
                self._give_up(found, error)

        journal = Journal(self.log, stored.record.id, stored.record.root_id, stored.used, on_write_failure)
        record = loading.changed_record or stored.record
        parent = (await self.get_actor(record.parent_id)).live if record.parent_id is not None else None
        usage_meter = UsageMeter(journal, self.services.cost, parent.usage_meter if parent is not None else None)
        settings = await self.shared.settings.get(find_settings_folder(record))
        live = LiveSession(
            record=loading.changed_record or record,
            journal=journal,
            shared=self.shared,
            history=stored.history,
            reads=SessionFileReads(stored.reads),
            processes=StoredProcesses(journal),
            state=stored.state,
            settings=settings,
            trusted=False,
            hooks=build_empty_runner(StoredProcesses(journal)),
            classifier=self.settings_loader.build_classifier(record.model, usage_meter.charge),
            small_model=self.settings_loader.build_small_model(usage_meter.charge),
            tasks=self.tasks,
            usage_meter=usage_meter,
            agents=self.agents,
            servers=self._find_servers(record, journal, parent),
            parent=parent,
        )
        await self.settings_loader.load(live)
        assert self._group is not None
        turn_setup = TurnSetup(live, self.services, self._config_file)
        actor = SessionActor(
            live,
            self.services,
            self._group,
            turn_setup,
            self._give_up,
            self.settings_loader,
            stored.last_reason,
            self.turn_slots,
        )
        self._actors[session_id], owner = actor, weakref.ref(actor)
        for child in self._actors.values():
            if child.record.parent_id == session_id:
                # It was loaded while its parent was in memory before: that one is no more.
                child.live.parent, child.live.usage_meter.parent = live, usage_meter
                if not child.live.owns_servers:
                    child.live.servers = live.servers
        try:
            slot = self.agents.hold_slot(live) if stored.turn is not None and parent is not None else None
            await actor.resume(stored, queued)
            if slot is not None and stored.turn is not None:
                self.agents.keep_slot(actor, stored.turn.id, slot)
        except Exception as error:
            self._give_up(actor, error)
            raise
        return actor

    def _find_servers(self, record: SessionRecord, journal: Journal, parent: LiveSession | None) -> SessionServers:
        """Those of the session above, but for an agent in a folder of its own: its servers work there."""
        if parent is not None and record.cwd == parent.view.folder:
            return parent.servers
        scope = Scope(record.id, record.root_id, None)

        def tell(name: str) -> None:
            found = servers.states.get(name)
            data = McpChange(
                name=name, status=found.status if found else "stopped", error=found.error if found else None
            )
            self.log.publish_transient("mcp.changed", scope, data)

        def report(words: str) -> None:
            journal.add_notice(None, Notice(level="warning", text=words))

        servers = SessionServers(record.id, self.servers, tell, report)
        return servers

    # Changing and leaving.

    def replace_record(self, record: SessionRecord) -> None:
        if (loading := self._loading.get(record.id)) is not None:
            loading.changed_record = record
        if (actor := self._actors.get(record.id)) is not None:
            actor.replace_record(record)
            if record.status == "archived" and actor.live.owns_servers:
                actor.live.servers.close()

    async def fire_session_end(self, record: SessionRecord, reason: str) -> None:
        """Fire the SessionEnd hooks of a session, with a time limit."""
        if record.parent_id is not None:
            return  # an agent's end is that of its turn, which SubagentStop tells of
        settings = await self.shared.settings.get(record.cwd)
        if not self.shared.settings.may_fire(settings, "SessionEnd"):
            return
        live = (await self.get_actor(record.id)).live
        with anyio.move_on_after(_END_HOOKS_SECONDS):
            await SessionHooks(live, None).fire("SessionEnd", reason=reason)

    async def stop_sessions(self, session_ids: Sequence[SessionId]) -> None:
        """End the turns and tasks of sessions that are about to be deleted, and forget them."""
        await self.tasks.stop_session_tasks(session_ids)
        for session_id in session_ids:
            actor = self._actors.get(session_id)
            if actor is not None:
                await actor.stop()
                self._forget(session_id)

    async def finish_worktrees(self, records: Sequence[SessionRecord]) -> None:
        """Remove the unchanged worktrees of sessions that are about to be deleted, and release the others."""
        for record in records:
            await finish_deleted(record, self.shared.umask)

    def _start_waking(self, session_id: SessionId) -> None:
        """A task has ended, or a monitor has seen something: wake the session, and a call of it that sleeps."""
        if self._group is not None and not self._closing:
            self._group.start_soon(self._wake, session_id)

    async def _wake(self, session_id: SessionId) -> None:
        try:
            if session_id in self._actors or await self._wants_to_be_woken(session_id):
                await (await self.get_actor(session_id)).wake()
        except ProtocolError as error:
            logs.log.warning("session_not_woken", session_id=session_id, reason=error.message)
        except Exception as error:  # noqa: BLE001 - a session that cannot be loaded must not affect others
            logs.log.error("session_not_woken", session_id=session_id, exc_info=error)

    async def _wants_to_be_woken(self, session_id: SessionId) -> bool:
        """Whether a session that is not in memory is loaded for a notification."""
        record = await self.log.read(lambda snapshot: snapshot.sessions.find(session_id))
        wanted = record.options.get("wake_on_task_end") if record is not None else None
        if wanted is None and self.shared.has_answering_client(session_id):
            wanted = "agents"
        return self.tasks.notifications.wakes(session_id, wanted)

    def _give_up(self, actor: SessionActor, error: Exception) -> None:
        """Drop a session whose state in memory cannot be trusted any more; it is loaded again from what is stored."""
        session_id = actor.record.id
        if self._closing or self._actors.get(session_id) is not actor:
            return
        self._forget(session_id)
        actor.abandon()
        self.recovery.take_abandoned(session_id, error)

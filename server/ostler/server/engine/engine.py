"""All live sessions: loaded when somebody needs them, recovered after a crash, evicted when nothing happens in them."""

import contextlib
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ostler.protocol.errors import ProtocolError, ReadOnly, SessionNotFound, ShuttingDown, StorageFailed
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Call
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.background import bury_orphans, end_left_over, give_back_memory, keep_arranged, way_out
from ostler.server.engine.calls.file_history import clear_left_overs
from ostler.server.engine.calls.result_limits import fitted
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.loading import load
from ostler.server.engine.mcp_servers import finder
from ostler.server.engine.recovery import Cut, settle
from ostler.server.engine.session.file_reads import StoredReads
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.processes import StoredProcesses
from ostler.server.engine.session.settings_loader import Arranger, no_hooks
from ostler.server.engine.session.shared import Rooms
from ostler.server.engine.session.usage import Purse
from ostler.server.engine.tasks.output_files import remove
from ostler.server.engine.tasks.recovery import recover
from ostler.server.engine.tasks.registry import TaskDesk
from ostler.server.engine.turn.options import Services
from ostler.server.engine.turn.setup import Preparing
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connections import McpRoom
from ostler.server.observability import logs
from ostler.storage import Tx
from ostler.storage.repositories import processes, sessions, turns
from ostler.storage.repositories.processes import ProcessRecord
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.registry import Registry
from ostler.tools.shell.output.output_file_pool import drop_spares
from ostler.tools.threads import change_in_thread, do_what_was_put_off, read_in_thread

_AT_ONCE: Final = 64
"""Sessions that are recovered at the same time."""
_RETRY_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 5.0
_END_SECONDS: Final = 10.0
"""For hooks that hear of a session's end, while somebody waits for it."""
_CLOSE_SECONDS: Final = 5.0
"""For commands that have to be killed when the daemon stops."""


@dataclass(slots=True)
class _Loading:
    done: anyio.Event = field(default_factory=anyio.Event)
    actor: SessionActor | None = None
    error: Exception | None = None
    changed: SessionRecord | None = None
    """The session as it was changed while it was being read."""


class Engine:
    def __init__(self, log: EventLog, services: Services, rooms: Rooms, config_folder: Path) -> None:
        self.log = log
        self.services = services
        self.rooms = rooms
        self._config_folder = config_folder
        self._actors: dict[SessionId, SessionActor] = {}
        self._loading: dict[SessionId, _Loading] = {}
        self._unsettled: dict[SessionId, Cut] = {}
        """Sessions whose rows have to be brought in order before anything is done with them."""
        self._given_up: list[SessionId] = []
        self._settling: set[SessionId] = set()
        """Sessions that a task is bringing in order."""
        self._some_given_up = anyio.Event()
        self._group: TaskGroup | None = None
        self._looked = anyio.Event()
        """Set when it is known which sessions have to be recovered."""
        self._with_left_over: set[SessionId] = set()
        """Sessions whose commands from before a crash may still run."""
        self._left_over_ended = anyio.Event()
        self._some_left = False
        """Sessions have left the memory since it was last given back."""
        self._closing = False
        self._born = time.time()
        """What an earlier daemon left half written is older."""
        self.arranger = Arranger(services.provider, services.config)
        self.servers = McpRoom(log, finder(log, rooms), self._left_over_ended.wait)
        self.tasks = TaskDesk(log, rooms.output_folder, self._tell_news, self.servers, self.actor)

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
            await self.registry()
            group.start_soon(self._recover_all)
            group.start_soon(self._look_after)
            group.start_soon(bury_orphans)
            group.start_soon(keep_arranged, self.arranger.arrange, self._in_turns)
            group.start_soon(self._settle_given_up)
            async with way_out(self.rooms.sandbox):
                await anyio.sleep_forever()

    async def registry(self) -> Registry:
        """All tools; loaded on a thread, where that has not been done yet."""
        return await anyio.to_thread.run_sync(lambda: self.rooms.registry)

    async def close(self) -> None:
        """Let go of every session, before the tasks of the daemon are cancelled: open asks have to stay open."""
        self._closing = True
        actors = list(self._actors.values())
        for actor in actors:
            actor.abandon()
        with anyio.move_on_after(_CLOSE_SECONDS):
            for actor in actors:
                await actor.idle.wait()
            await do_what_was_put_off()
        drop_spares(self.rooms.output_folder)

    async def _look_after(self) -> None:
        """Evict what is idle, try again what could not be written."""
        while True:
            evict_after = self.services.config().turns.evict_seconds
            await anyio.sleep(min(_LOOK_SECONDS, evict_after))
            self._evict(evict_after)
            # While nothing runs: it holds up whoever wants memory in the same moment.
            if self._some_left and not self.running:
                self._some_left = False
                await read_in_thread(give_back_memory)

    def _in_turns(self) -> list[LiveSession]:
        return [actor.live for actor in self._actors.values() if actor.run is not None]

    def _evict(self, after: float) -> None:
        long_ago = time.monotonic() - after
        for session_id, actor in list(self._actors.items()):
            if actor.evictable and actor.used_at < long_ago:
                self._forget(session_id)

    def _forget(self, session_id: SessionId) -> None:
        self._actors.pop(session_id, None)
        self._some_left = True

    # Finding a session.

    async def actor(self, session_id: SessionId) -> SessionActor:
        """The live session; loaded, and recovered, when it is not there yet."""
        await self._looked.wait()
        loading = self._loading.get(session_id)
        if loading is None and (actor := self._actors.get(session_id)) is not None:
            # Not to be evicted between here and what it is wanted for.
            actor.used_at = time.monotonic()
            return actor
        if loading is None:
            loading = self._loading[session_id] = _Loading()
            assert self._group is not None
            # A task of its own: whoever asked may leave, and others wait for the same.
            self._group.start_soon(self._load, session_id, loading)
        await loading.done.wait()
        if loading.actor is None:
            raise loading.error or SessionNotFound(session_id)
        return loading.actor

    def found(self, session_id: SessionId) -> SessionActor | None:
        """The session if it is live."""
        return self._actors.get(session_id)

    async def looked(self) -> None:
        """Wait until it is known what an earlier daemon left."""
        await self._looked.wait()

    async def settled(self, session_id: SessionId) -> None:
        """Wait until a session that a crash cut short has been brought in order."""
        if not self._looked.is_set():
            await self._looked.wait()
        if session_id in self._unsettled or session_id in self._loading:
            # A disk that takes nothing keeps the session as it is; what is stored can be read all the same.
            with contextlib.suppress(StorageFailed, ReadOnly):
                await self.actor(session_id)

    async def _load(self, session_id: SessionId, loading: _Loading) -> None:
        try:
            loading.actor = await self._loaded(session_id, loading)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the session
            loading.error = error
            if not isinstance(error, ProtocolError):
                logs.log.error("session_not_loaded", session_id=session_id, exc_info=error)
        finally:
            self._loading.pop(session_id, None)
            loading.done.set()

    async def _loaded(self, session_id: SessionId, loading: _Loading) -> SessionActor:
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        if session_id in self._with_left_over:
            await self._left_over_ended.wait()
        if (cut := self._unsettled.get(session_id)) is not None:
            await self._settle(session_id, cut)
        await self.tasks.look_for_untold(session_id)
        stored = await self.log.read(lambda connection: load(connection, session_id))
        queued = await self.log.read(lambda connection: len(turns.queued(connection, session_id)))
        owner: weakref.ref[SessionActor] | None = None

        def trouble(error: Exception) -> None:
            # Known by a weak reference: the actor has the journal, and both would stay until a collection.
            if owner is not None and (found := owner()) is not None:
                self._give_up(found, error)

        journal = Journal(self.log, stored.record.id, stored.record.root_id, stored.used, trouble)
        purse = Purse(journal, self.services.cost)
        record = loading.changed or stored.record
        settings = await self.rooms.settings.of(record.cwd)
        live = LiveSession(
            record=loading.changed or record,
            journal=journal,
            rooms=self.rooms,
            history=stored.history,
            reads=StoredReads(stored.reads),
            processes=StoredProcesses(journal),
            state=stored.state,
            settings=settings,
            trusted=False,
            hooks=no_hooks(StoredProcesses(journal)),
            classifier=self.arranger.classifier(record.model, purse.pay),
            tasks=self.tasks,
            purse=purse,
        )
        await self.arranger.arrange(live)
        assert self._group is not None
        preparing = Preparing(live, self.services, self._config_folder)
        actor = SessionActor(
            live, self.services, self._group, preparing, self._give_up, self.arranger, stored.last_reason
        )
        self._actors[session_id], owner = actor, weakref.ref(actor)
        try:
            await actor.come_back(stored, queued)
        except Exception as error:
            self._give_up(actor, error)
            raise
        return actor

    # Changing and leaving.

    def changed(self, record: SessionRecord) -> None:
        if (loading := self._loading.get(record.id)) is not None:
            loading.changed = record
        if (actor := self._actors.get(record.id)) is not None:
            actor.replace_record(record)

    async def tell_end(self, record: SessionRecord, reason: str) -> None:
        """Hooks hear of a session's end; it does not wait for them for ever."""
        settings = await self.rooms.settings.of(record.cwd)
        if not self.rooms.settings.may_fire(settings, "SessionEnd"):
            return
        live = (await self.actor(record.id)).live
        with anyio.move_on_after(_END_SECONDS):
            await Hooking(live, None).moment("SessionEnd", reason=reason)

    async def stop_sessions(self, session_ids: Sequence[SessionId]) -> None:
        """End the turns and tasks of sessions that are about to be deleted, and forget them."""
        await self.tasks.end_sessions(session_ids)
        for session_id in session_ids:
            actor = self._actors.get(session_id)
            if actor is not None:
                await actor.stop()
                self._forget(session_id)

    def _tell_news(self, session_id: SessionId) -> None:
        """A task has ended, or a monitor has seen something: whoever sleeps wakes up."""
        if self._group is not None and not self._closing:
            self._group.start_soon(self._wake, session_id)

    async def _wake(self, session_id: SessionId) -> None:
        try:
            if session_id in self._actors or await self._wants_to_be_woken(session_id):
                await (await self.actor(session_id)).wake()
        except ProtocolError as error:
            logs.log.warning("session_not_woken", session_id=session_id, reason=error.message)
        except Exception as error:  # noqa: BLE001 - a session that cannot be loaded is its own trouble alone
            logs.log.error("session_not_woken", session_id=session_id, exc_info=error)

    async def _wants_to_be_woken(self, session_id: SessionId) -> bool:
        """It is loaded for this alone only then."""
        record = await self.log.read(lambda connection: sessions.find(connection, session_id))
        return record is not None and bool(record.options.get("wake_on_task_end"))

    def _give_up(self, actor: SessionActor, error: Exception) -> None:
        """What is in memory cannot be trusted any more; the session starts again from what is stored."""
        session_id = actor.record.id
        if self._closing or self._actors.get(session_id) is not actor:
            return
        self._forget(session_id)
        actor.abandon()
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, ProtocolError):
            logs.log.warning("session_given_up", session_id=session_id, reason=error.message)
            cut = Cut()
        else:
            logs.log.error("session_given_up", session_id=session_id, exc_info=error)
            failed = {"code": "internal_error", "message": "The daemon made a mistake; its log says which."}
            cut = Cut("failed", failed, may_resume=False)
        self._unsettled[session_id] = cut
        self._given_up.append(session_id)
        self._some_given_up.set()

    async def _settle_given_up(self) -> None:
        """A task of its own: the news may come from a callback, which cannot start one."""
        assert self._group is not None
        while True:
            await self._some_given_up.wait()
            self._some_given_up = anyio.Event()
            given_up, self._given_up = self._given_up, []
            for session_id in set(given_up) - self._settling:
                self._settling.add(session_id)
                self._group.start_soon(self._settle_later, session_id)

    async def _settle_later(self, session_id: SessionId) -> None:
        """Try until the disk takes it, and never in a hurry: what failed once may fail again at once."""
        while session_id in self._unsettled:
            try:
                await self.actor(session_id)
            except ProtocolError:
                await anyio.sleep(_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - it is in the log; whoever needs the session tries again
                break
        self._settling.discard(session_id)

    # Recovery.

    async def _recover_all(self) -> None:
        """After ready: the sessions whose turns a crash cut short, and the processes that it left."""
        began = time.monotonic()
        try:
            strays = await recover(self.tasks)
            unfinished = await self.log.read(turns.unfinished_sessions)
            left = await self.log.read(processes.left_over)
        except ProtocolError as error:
            logs.log.error("recovery_failed", reason=error.message)
            self._looked.set()
            self._left_over_ended.set()
            return
        self._unsettled |= dict.fromkeys(unfinished, Cut())
        self._with_left_over = {process.session_id for process in left}
        self._looked.set()
        assert self._group is not None
        self._group.start_soon(self._end_left_over, left, strays)
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        async with anyio.create_task_group() as group:
            for session_id in unfinished:
                group.start_soon(self._recover, session_id, limiter)
        if unfinished:
            took = int((time.monotonic() - began) * 1000)
            logs.log.info("sessions_recovered", sessions=len(unfinished), milliseconds=took)

    async def _recover(self, session_id: SessionId, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            cut = self._unsettled.get(session_id)
            if cut is None:
                return
            if session_id in self._with_left_over:
                await self._left_over_ended.wait()
            try:
                if await self._settle(session_id, cut):
                    await self.actor(session_id)
            except ProtocolError as error:
                logs.log.warning("session_not_recovered", session_id=session_id, reason=error.message)
            except Exception as error:  # noqa: BLE001 - rows that make no sense are this session's trouble alone
                logs.log.error("session_not_recovered", session_id=session_id, exc_info=error)

    async def _settle(self, session_id: SessionId, cut: Cut) -> bool:
        """Bring the rows in order; true where the session has something to go on with."""
        await clear_left_overs(self.log, session_id, self._born)
        tools = {tool.name: tool for tool in (await self.registry()).tools}
        settings = self.services.config().results

        def fit(calls: Sequence[Call]) -> list[tuple[Call, str]]:
            return fitted(calls, lambda call: tools.get(call.tool), settings)

        def work(tx: Tx) -> bool:
            return settle(tx, session_id, cut, fit)

        goes_on = await self.log.write(work, session_id)
        self._unsettled.pop(session_id, None)
        return goes_on

    async def _end_left_over(self, left: list[ProcessRecord], strays: list[str]) -> None:
        """Their files go after them: a shell that ends still writes."""
        await end_left_over(self.log, left)
        self._left_over_ended.set()
        await change_in_thread(remove, strays)

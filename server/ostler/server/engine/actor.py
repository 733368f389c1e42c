"""A live session: one owner for its turns. Everything that changes it comes through here, one thing at a time."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol import times
from ostler.protocol.errors import (
    Conflict,
    NoTurnRunning,
    Overloaded,
    SessionNotFound,
    TurnRunning,
)
from ostler.protocol.ids import AskId, CallId, Cursor, TurnId, new_turn_id
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Ask, Call, Turn
from ostler.protocol.turn import Input, TurnOptions
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.stop_reasons import BY_DELETION, BY_PERSON
from ostler.server.engine.loading import StoredSession
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import Arranger
from ostler.server.engine.turn.environment_updates import facts, told_facts
from ostler.server.engine.turn.loop import TurnRun
from ostler.server.engine.turn.model_call import next_message
from ostler.server.engine.turn.options import Services, Start, TurnSettings
from ostler.server.engine.turn.setup import Preparing, said, words
from ostler.storage.repositories import turns as turn_rows
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer

MAX_WAITING: Final = 100
"""Turns that wait in a session, and inputs that wait in a turn."""
Resume = Callable[[TurnRun, TaskGroup], Executor | None]


def restore_calls(run: TurnRun, group: TaskGroup, stored: StoredSession) -> Executor | None:
    """The calls of the last message, each as far as it had come."""
    if stored.last_message is None or not stored.last_calls:
        return None
    executor = run.new_executor(group, stored.last_message.id, lambda: ())
    for one in stored.last_calls:
        entry = executor.restore(one.use, one.call)
        entry.ask = one.ask
    executor.go_on()
    return executor


@dataclass(slots=True, weakref_slot=True)
class SessionActor:
    live: LiveSession
    services: Services
    group: TaskGroup
    """Where its turns run; it ends with the daemon."""
    preparing: Preparing
    on_failure: Callable[["SessionActor", Exception], None]
    arranger: Arranger
    last_reason: str | None
    run: TurnRun | None = None
    """The turn that runs or waits."""
    used_at: float = field(default_factory=time.monotonic)
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a turn is being started or the session changed, never across a model call or a tool run."""
    idle: anyio.Event = field(default_factory=anyio.Event)
    """Set while no turn runs."""
    _scope: anyio.CancelScope | None = None
    _steers: list[Steer] = field(default_factory=list)
    """Input that a turn left unread."""
    _queued: int = 0
    _stopping: bool = False
    """Nothing begins here any more: the session is about to be deleted."""

    def __post_init__(self) -> None:
        self.idle.set()

    @property
    def record(self) -> SessionRecord:
        return self.live.record

    @property
    def evictable(self) -> bool:
        return self.run is None and not self.lock.locked()

    # What clients ask for.

    async def start(self, start: Start) -> Turn:
        """Start a turn, or queue it behind the one that runs."""
        async with self.lock:
            self.used_at = time.monotonic()
            if self._stopping:
                raise SessionNotFound(self.record.id)
            if self.record.status == "archived":
                raise Conflict("The session is archived. Take it out of the archive first.", session_id=self.record.id)
            self.preparing.check(start.options)
            settings = self.preparing.settings(start.options, start.on_ask)
            blocks = await self.preparing.input_blocks(start.options.input)
            if self.run is not None and not start.queue:
                turn_id = self.run.turn.id
                raise TurnRunning(f"The turn {turn_id} runs. Wait, steer it, or queue behind it.", turn_id=turn_id)
            turn = Turn(id=new_turn_id(), session_id=self.record.id, status="queued", cursor=Cursor(0))
            stored = {**asdict(settings), "input": blocks, "mode": start.options.mode}
            if self.run is not None:
                if self._queued >= MAX_WAITING:
                    raise Overloaded(f"{self._queued} turns wait in this session already.", retry_after_ms=1000)
                queued = await self.live.journal.queue_turn(turn, stored, start.key)
                self._queued += queued.id == turn.id  # not where the same key was used before
                return queued
            return await self._begin(turn, blocks, settings, start.options.mode, stored, start.key)

    async def steer(self, turn_id: TurnId, given: Input, *, now: bool) -> Turn:
        run = self._running(turn_id)
        if len(run.steers) >= MAX_WAITING:
            raise Overloaded(f"{len(run.steers)} inputs wait in this turn already.", retry_after_ms=1000)
        blocks = await self.preparing.input_blocks(given)
        steer_id = await self.live.journal.add_steer(turn_id, blocks)
        steer = Steer(steer_id, turn_id, blocks)
        if self.run is run and run.end is None:
            run.steer(steer, now=now)
        else:
            # The turn ended while this was being stored; it was accepted, so it starts the next one.
            self._steers.append(steer)
            if self.run is None:
                self.group.start_soon(self._go_on)
        return run.state.turn

    def interrupt(self, turn_id: TurnId) -> Turn:
        run = self._running(turn_id)
        run.halt("interrupted", BY_PERSON)
        return run.state.turn

    async def drop_queued(self, turn_id: TurnId) -> Turn:
        """End a turn that waits for the one before it."""
        async with self.lock:
            ended = await self.live.journal.drop_queued(turn_id)
            if ended is None:
                raise NoTurnRunning(f"The turn {turn_id} does not wait any more.", turn_id=turn_id)
            self._queued -= 1
            return ended

    def cancel_call(self, call_id: CallId) -> Call:
        entry = self._entry(call_id)
        assert self.run is not None
        assert self.run.executor is not None
        self.run.executor.cancel(entry, "Stopped by the person; the rest of the turn goes on.")
        return entry.call

    def background_call(self, call_id: CallId) -> Call:
        """Let a running command go on behind the turn."""
        entry = self._entry(call_id)
        if entry.tool is None or not entry.tool.is_shell or entry.call.status != "running":
            raise Conflict(f"The call {call_id} is no command that runs.", call_id=call_id)
        if entry.given is not None and entry.tool.only_waits(entry.given):
            raise Conflict(
                f"The call {call_id} does nothing but sleep, and such a command is never sent to the background: "
                "let it end, or stop it with tool/cancel.",
                call_id=call_id,
            )
        entry.background.wanted = True
        return entry.call

    def _entry(self, call_id: CallId) -> Entry:
        executor = self.run.executor if self.run else None
        entry = next((one for one in executor.entries if one.call.call_id == call_id), None) if executor else None
        if entry is None or entry.completed:
            raise NoTurnRunning(f"The call {call_id} is over already.", call_id=call_id)
        return entry

    def open_ask(self, ask_id: AskId) -> Ask | None:
        return next((ask for ask in self.run.asks.open if ask.id == ask_id), None) if self.run else None

    def replace_record(self, record: SessionRecord) -> None:
        """The session was changed: what is decided from now on goes by the new state."""
        self.live.record = record
        self.used_at = time.monotonic()

    def _running(self, turn_id: TurnId) -> TurnRun:
        self.used_at = time.monotonic()
        if self.run is None or self.run.turn.id != turn_id:
            raise NoTurnRunning(f"The turn {turn_id} does not run.", turn_id=turn_id)
        return self.run

    # Beginning a turn.

    async def _begin(
        self,
        turn: Turn,
        blocks: list[dict[str, Any]],
        settings: TurnSettings,
        mode: Mode | None,
        stored: dict[str, Any] | None,
        key: Key | None = None,
        steers: list[Steer] | None = None,
    ) -> Turn:
        """Store the turn with its input, and set it going."""
        await self.arranger.arrange(self.live)
        if mode is not None and mode != self.record.mode:
            await self._change_mode(mode)
        prepare = self.preparing
        now = await facts(self.live)
        task_news = self.live.tasks.news.waiting(self.record.id)
        opening = prepare.opening(turn.id, now, (each.text for each in task_news), blocks, self.last_reason)
        begun = turn.model_copy(update={"status": "running", "started_at": times.now()})
        toolset, prefix, remembered = await prepare.tools_and_prompt(settings, now)
        state = remembered if remembered != self.live.state else None  # it holds the whole prompt
        taken, told = [steer.id for steer in steers or ()], [each.told for each in task_news]
        first = next_message(self.record.id, turn.id, settings.model) if prepare.asks_at_once(begun, settings) else None
        begun = await self.live.journal.start_turn(begun, stored, opening.message, key, taken, told, first, state)
        if begun.id != turn.id:
            return begun  # the same key was used before: this is its answer
        self.live.state = remembered
        self.live.tasks.news.drop(self.record.id, task_news)
        self.live.stir.told()
        if self.live.tasks.news.any_for(self.record.id):
            self.live.stir.set(self.live.tasks.news.waker(self.record.id))  # it came meanwhile
        self.live.history.add_encoded("user", opening.encoded)
        self._launch(
            TurnRun(
                self.live,
                self.services,
                self.arranger,
                settings,
                prefix,
                toolset,
                begun,
                opening=opening,
                begun=first,
                task=words(blocks),
            )
        )
        return begun

    async def _change_mode(self, mode: Mode) -> None:
        self.live.record = await self.live.journal.change(mode=mode)

    # Running turns, one after the other.

    def _launch(self, run: TurnRun, resume: Resume | None = None) -> None:
        self.run = run
        self.live.turn_on_ask = run.settings.on_ask
        self.live.purse.state = run.state
        self.idle = anyio.Event()
        self._scope = anyio.CancelScope()
        self.group.start_soon(self._carry, run, resume, self._scope)

    async def _carry(self, run: TurnRun, resume: Resume | None, scope: anyio.CancelScope) -> None:
        """Carry one turn to its end, and see what comes next."""
        with scope:
            await self._guarded(lambda: self._run_to_end(run, resume))
        run.let_go()
        if self.run is run:  # it was let go of, and what is stored decides what becomes of it
            self.run = None
            self.idle.set()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the boundary of a session: its bug, or its disk, is not its neighbours'
            self.on_failure(self, error)

    async def _run_to_end(self, run: TurnRun, resume: Resume | None) -> None:
        ended = await run.run(resume)
        self.last_reason = ended.reason
        self._steers += run.steers
        await self._next(run)

    async def _go_on(self) -> None:
        await self._guarded(lambda: self._next(None))

    async def _next(self, finished: TurnRun | None) -> None:
        """Input that was left unread comes first, then the turns that wait."""
        async with self.lock:
            if self.run is not finished:
                return  # somebody was faster; what waits comes after that turn
            self.used_at = time.monotonic()
            if self._steers and not self._stopping:
                await self._begin_with_steers()
            elif self._queued and not self._stopping:
                await self._begin_queued()
            if self.run is finished:
                self.run = None
                self.live.turn_on_ask = None
                self.live.purse.state = None
                self.idle.set()
                if finished is not None and self.last_reason == "completed":
                    await self._hear_what_came_late()

    async def _begin_with_steers(self) -> None:
        steers, self._steers = self._steers, []
        await self._begin_by_itself([block for steer in steers for block in steer.blocks], steers)

    async def wake(self) -> None:
        """There is news of a task: where the session wants to hear of it at once, that starts a turn."""
        self.live.stir.set(self.live.tasks.news.waker(self.record.id))
        if self.run is None and self.record.options.get("wake_on_task_end"):
            self.group.start_soon(self._guarded, self._hear_news)

    async def _hear_what_came_late(self) -> None:
        """A task that ended after the last request of a turn has woken nobody yet."""
        if self.live.tasks.news.any_for(self.record.id):
            await self.wake()

    async def _hear_news(self) -> None:
        async with self.lock:
            idle = self.run is None and not self._stopping and self.record.status != "archived"
            if idle and self.live.tasks.news.any_for(self.record.id):
                await self._begin_by_itself([], [])

    async def _begin_by_itself(self, blocks: list[dict[str, Any]], steers: list[Steer]) -> None:
        """A turn that nobody asked for by name, with the session's own settings."""
        settings = self.preparing.settings(TurnOptions(input="."), None)
        turn = Turn(id=new_turn_id(), session_id=self.record.id, status="queued", cursor=Cursor(0))
        stored = {**asdict(settings), "input": blocks, "mode": None}
        await self._begin(turn, blocks, settings, None, stored, steers=steers)

    async def _begin_queued(self) -> None:
        def look(connection: Any) -> tuple[Turn, dict[str, Any]] | None:
            waiting = turn_rows.queued(connection, self.record.id)
            return (waiting[0], turn_rows.input_of(connection, waiting[0].id)) if waiting else None

        found = await self.live.journal.log.read(look)
        if found is None:
            self._queued = 0
            return
        turn, stored = found
        self._queued -= 1
        blocks, mode = stored.pop("input"), stored.pop("mode")
        await self._begin(turn, blocks, TurnSettings(**stored), mode, None)

    # Coming back.

    async def come_back(self, stored: StoredSession, queued: int) -> None:
        """Go on where a restart, or an eviction, left the session."""
        self._queued = queued
        if stored.turn is None:
            self._steers = stored.steers
            await self._next(None)
            return
        options = {name: value for name, value in stored.options.items() if name not in {"input", "mode"}}
        settings = TurnSettings(**options)
        told = told_facts(self.live) or await facts(self.live)
        toolset, prefix, _ = await self.preparing.tools_and_prompt(settings, told)
        opening = said(stored.opening) if stored.opening is not None else None
        run = TurnRun(
            self.live,
            self.services,
            self.arranger,
            settings,
            prefix,
            toolset,
            stored.turn,
            opening=opening,
            last=stored.last_message,
            paused=stored.paused,
            steers=list(stored.steers),
            task=words(list(opening.blocks)) if opening else "",
        )
        if stored.told_ends:
            await self.live.tasks.told_unheard(self.record.id, stored.told_ends)
        if stored.trust_ask is not None:
            run.asks.expect(stored.trust_ask)
        for one in stored.last_calls:
            if one.ask is not None:
                run.asks.expect(one.ask)
        self._launch(run, lambda run, group: restore_calls(run, group, stored))

    # The end.

    async def stop(self) -> None:
        """Before the session is deleted: end what runs, and wait for it; what waits behind it does not begin."""
        self._stopping = True
        while self.run is not None:
            self.run.halt("interrupted", BY_DELETION)
            await self.idle.wait()

    def abandon(self) -> None:
        """Let go of everything at once; what is stored decides what becomes of it."""
        if self.run is not None:
            self.run.asks.leave_open = True
        if self._scope is not None:
            self._scope.cancel()

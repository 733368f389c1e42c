"""The actor of a live session: it starts, queues, steers and ends the session's turns, one thing at a time."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol import times
from ostler.protocol.errors import (
    Conflict,
    NoTurnRunning,
    Overloaded,
    ProtocolError,
    SessionNotFound,
    TurnRunning,
)
from ostler.protocol.ids import AskId, CallId, Cursor, TurnId, new_turn_id
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Ask, Call, Turn
from ostler.protocol.turn import GivenBack, Input, TurnOptions
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.calls.stages import Parsed, Running
from ostler.server.engine.discovery.skills import begins_with_command, choose_model
from ostler.server.engine.loading import StoredSession
from ostler.server.engine.session.agent_slots import AgentSlot, TreeSlots
from ostler.server.engine.session.effective_settings import enter_mode
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import SettingsLoader
from ostler.server.engine.session.turn_state import BY_DELETION, BY_PERSON
from ostler.server.engine.turn.environment_updates import load_sent_facts, read_session_facts
from ostler.server.engine.turn.loop import TurnLoop
from ostler.server.engine.turn.model_attempt import create_assistant_message
from ostler.server.engine.turn.options import TurnRequest, TurnServices, TurnSettings
from ostler.server.engine.turn.setup import ExpandedInput, TurnSetup, encode_user_message, extract_text
from ostler.server.engine.turn.window import compact_between_turns
from ostler.server.prompt.mentions import mentions_files
from ostler.server.settings import SkillEntry
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer

MAX_WAITING: Final = 100
"""Turns that wait in a session, and inputs that wait in a turn."""


@dataclass(slots=True)
class _AskedCompaction:
    """A compaction that somebody has asked for, and waits for."""

    instructions: str | None
    error: ProtocolError | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True, weakref_slot=True)
class SessionActor:
    live: LiveSession
    services: TurnServices
    group: TaskGroup
    """The task group in which its turns run; it ends with the daemon."""
    turn_setup: TurnSetup
    on_failure: Callable[["SessionActor", Exception], None]
    settings_loader: SettingsLoader
    last_reason: str | None
    turn_slots: TreeSlots
    """The places for turns of people's sessions in the daemon."""
    run: TurnLoop | None = None
    """The turn that runs or waits."""
    used_at: float = field(default_factory=time.monotonic)
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a turn is being started or the session changed; across a model call only where somebody asked for a
    compaction, which the next turn has to wait for."""
    idle: anyio.Event = field(default_factory=anyio.Event)
    """Set while no turn runs."""
    _scope: anyio.CancelScope | None = None
    _steers: list[Steer] = field(default_factory=list)
    """Input that a turn did not read before it ended."""
    _queued: int = 0
    _compacting: anyio.CancelScope | None = None
    """While the conversation is being compacted between two turns."""
    _waits_for_slot: bool = False
    """As many turns run as may: the next one begins when its place is free."""
    _wakes_with_slot: bool = False
    """It begins for notifications then, where nothing else waits."""
    _stopping: bool = False
    """No more turns begin: the session is about to be deleted."""

    def __post_init__(self) -> None:
        self.idle.set()

    @property
    def record(self) -> SessionRecord:
        return self.live.record

    @property
    def evictable(self) -> bool:
        busy = self.lock.locked() or self._waits_for_slot or self._compacting is not None
        return self.run is None and not busy

    # Methods of the protocol.

    async def start(self, start: TurnRequest) -> Turn:
        """Start a turn, or queue it behind the one that runs; a repeated request gets the turn of the first."""
        async with self.lock:
            self.used_at = time.monotonic()
            # Before any check: what was valid the first time may not be any more.
            if start.key is not None and (earlier := await self._find_earlier(start.key)) is not None:
                return earlier
            if self._stopping:
                raise SessionNotFound(self.record.id)
            if self.record.status == "archived":
                raise Conflict("The session is archived. Take it out of the archive first.", session_id=self.record.id)
            self.turn_setup.check(start.options)
            settings = self.turn_setup.build_settings(start.options, start.on_ask)
            expanded = await self._read_input(start)
            blocks, settings = expanded.blocks, self._apply_skill(settings, expanded.skill, start.options)
            waits = self._waits_for_slot or (self.run is None and not self._take_slot())
            if self.run is not None and not start.queue:
                turn_id = self.run.turn.id
                raise TurnRunning(f"The turn {turn_id} runs. Wait, steer it, or queue behind it.", turn_id=turn_id)
            turn = Turn(id=new_turn_id(), session_id=self.record.id, status="queued", cursor=Cursor(0))
            stored = {**asdict(settings), "input": blocks, "mode": start.options.mode}
            if self.run is not None or waits:
                if self._queued >= MAX_WAITING:
                    raise Overloaded(f"{self._queued} turns wait in this session already.", retry_after_ms=1000)
                queued = await self.live.journal.turns.queue(turn, stored, start.key)
                self._queued += queued.id == turn.id  # not where the same key was used before
                return queued
            try:
                return await self._begin_turn(
                    turn, blocks, settings, start.options.mode, stored, start.key, together=start.together
                )
            finally:
                self._end_unused_slot()

    async def _find_earlier(self, key: Key) -> Turn | None:
        answer = await self.live.journal.log.read(lambda snapshot: snapshot.idempotency.find_answer(key))
        return None if answer is None else Turn.model_validate_json(answer)

    async def _read_input(self, start: TurnRequest) -> ExpandedInput:
        if start.by_model:  # a mention in it would read a file that no rule was asked about
            return ExpandedInput([{"type": "text", "text": str(start.options.input)}])
        if begins_with_command(start.options.input) or mentions_files(start.options.input):
            await self.settings_loader.load(self.live)  # a skill may have come since, and rules about files
        return await self.turn_setup.expand_input(start.options.input)

    def _apply_skill(self, settings: TurnSettings, skill: SkillEntry | None, options: TurnOptions) -> TurnSettings:
        """The settings of a turn whose input takes up a skill."""
        if skill is None:
            return settings
        wanted = skill.model if options.model is None else None
        model = choose_model(self.live, wanted) if wanted is not None and skill.context == "inline" else None
        return replace(settings, model=model or settings.model, skills=(skill.name,))

    async def compact(self, instructions: str | None) -> None:
        """Compact the conversation while no turn runs; it goes on where the caller leaves, and the next turn waits."""
        asked = _AskedCompaction(instructions)
        self.group.start_soon(self._run_guarded, lambda: self._compact(asked))
        await asked.done.wait()
        if asked.error is not None:
            raise asked.error

    async def _compact(self, asked: "_AskedCompaction") -> None:
        asked.error = Conflict("The compaction was cut off, and the conversation is as it was.")
        try:
            async with self.lock:
                self.used_at = time.monotonic()
                if self.run is not None:
                    turn_id = self.run.turn.id
                    raise TurnRunning(f"The turn {turn_id} runs. Wait for its end, or interrupt it.", turn_id=turn_id)
                if not self._stopping:
                    with anyio.CancelScope() as self._compacting:
                        await self.settings_loader.load(self.live)
                        await compact_between_turns(self.live, self.services, self.turn_setup, asked.instructions)
                        asked.error = None
        except ProtocolError as error:
            asked.error = error
        finally:
            self._compacting = None
            if self._stopping:
                asked.error = SessionNotFound(self.record.id)
            asked.done.set()

    async def steer(self, turn_id: TurnId, user_input: Input, *, now: bool) -> Turn:
        run = self._find_running_turn(turn_id)
        if len(run.steers) >= MAX_WAITING:
            raise Overloaded(f"{len(run.steers)} inputs wait in this turn already.", retry_after_ms=1000)
        expanded = await self.turn_setup.expand_input(user_input)
        steer_id = await self.live.journal.turns.add_steer(turn_id, expanded.blocks)
        steer = Steer(steer_id, turn_id, expanded.blocks)
        if self.run is run and run.state.end is None:
            if expanded.skill is not None:
                self.live.use_skills([expanded.skill.name])
            run.steer(steer, now=now)
        else:
            # The turn ended while this was being stored; it was accepted, so it starts the next one.
            self._steers.append(steer)
            if self.run is None:
                self.group.start_soon(self._begin_next_guarded)
        return run.state.turn

    def interrupt(self, turn_id: TurnId) -> Turn:
        run = self._find_running_turn(turn_id)
        run.state.halt("interrupted", BY_PERSON)
        return run.state.turn

    async def interrupt_all(self, turn_id: TurnId) -> tuple[Turn, list[GivenBack]]:
        """Stop the turn, and give back everything that waits for its end or for its next request."""
        async with self.lock:  # else a queued turn could begin meanwhile
            run = self._find_running_turn(turn_id)
            run.state.halt("interrupted", BY_PERSON)
            # Without an await in between: what a halted turn has not taken by now, it never takes.
            waiting = [*self._steers, *run.steers]
            self._steers.clear()
            run.steers.clear()
            self._queued = 0
            return run.state.turn, await self.live.journal.turns.give_back(waiting)

    async def drop_queued(self, turn_id: TurnId) -> tuple[Turn, GivenBack]:
        """End a turn that waits for the one before it."""
        async with self.lock:
            dropped = await self.live.journal.turns.drop_queued(turn_id)
            if dropped is None:
                raise NoTurnRunning(f"The turn {turn_id} does not wait any more.", turn_id=turn_id)
            self._queued -= 1
            return dropped

    def cancel_call(self, call_id: CallId) -> Call:
        executor, run = self._find_call(call_id)
        executor.cancel(run, "Stopped by the person; the rest of the turn goes on.")
        return run.call

    def background_call(self, call_id: CallId) -> Call:
        """Let a running command go on in the background."""
        _, run = self._find_call(call_id)
        stage = run.stage
        if not isinstance(stage, Parsed | Running) or not stage.tool.shell.is_shell or stage.call.status != "running":
            raise Conflict(f"The call {call_id} is no command that runs.", call_id=call_id)
        if stage.tool.shell.only_waits(stage.input):
            raise Conflict(
                f"The call {call_id} does nothing but sleep, and such a command is never sent to the background: "
                "let it end, or stop it with tool/cancel.",
                call_id=call_id,
            )
        run.background.wanted = True
        return run.call

    def _find_call(self, call_id: CallId) -> tuple[Executor, CallRun]:
        executor = self.run.calls.executor if self.run is not None and self.run.calls is not None else None
        for run in executor.calls if executor is not None else ():
            if run.call.call_id == call_id and not run.completed:
                assert executor is not None
                return executor, run
        raise NoTurnRunning(f"The call {call_id} is over already.", call_id=call_id)

    def find_open_ask(self, ask_id: AskId) -> Ask | None:
        return next((ask for ask in self.run.asks.open if ask.id == ask_id), None) if self.run else None

    def replace_record(self, record: SessionRecord) -> None:
        """The session was changed: decisions from now on use the new record."""
        self.live.record = record
        self.used_at = time.monotonic()

    def _find_running_turn(self, turn_id: TurnId) -> TurnLoop:
        self.used_at = time.monotonic()
        if self.run is None or self.run.turn.id != turn_id:
            raise NoTurnRunning(f"The turn {turn_id} does not run.", turn_id=turn_id)
        return self.run

    # Beginning a turn.

    async def _begin_turn(
        self,
        turn: Turn,
        blocks: list[dict[str, Any]],
        settings: TurnSettings,
        mode: Mode | None,
        stored: dict[str, Any] | None,
        key: Key | None = None,
        steers: list[Steer] | None = None,
        together: Callable[[Tx], None] | None = None,
    ) -> Turn:
        """Store the turn with its input, and start it."""
        await self.settings_loader.load(self.live)
        await self.services.credentials.refresh()
        if mode is not None and mode != self.record.mode:
            await self._change_mode(mode)
        setup = self.turn_setup
        now = await read_session_facts(self.live)
        waiting = self.live.tasks.notifications.list_waiting(self.record.id)
        input_message = setup.build_input_message(
            turn.id, now, (each.text for each in waiting), blocks, self.last_reason, settings.output_schema
        )
        begun = turn.model_copy(update={"status": "running", "started_at": times.now()})
        toolset, prefix, new_state = await setup.build_tools_and_prompt(settings, now)
        state = new_state if new_state != self.live.state else None  # it holds the whole prompt
        taken, announced = [steer.id for steer in steers or ()], [each.report for each in waiting]
        first = (
            create_assistant_message(self.record.id, turn.id, settings.model)
            if setup.may_request_at_once(begun, settings)
            else None
        )
        begun = await self.live.journal.turns.start(
            begun, stored, input_message.message, key, taken, announced, first, state, together
        )
        if begun.id != turn.id:
            return begun  # the same key was used before: this is its answer
        self.live.state = new_state
        self.live.tasks.notifications.drop(self.record.id, waiting)
        self.live.wake_signal.clear()
        if self.live.tasks.notifications.has_waiting(self.record.id):
            self.live.wake_signal.set(
                self.live.tasks.notifications.find_waker(self.record.id)
            )  # one came in the meantime
        self.live.history.add_encoded("user", input_message.encoded)
        self._launch(
            TurnLoop(
                self.live,
                self.services,
                self.settings_loader,
                settings,
                prefix,
                toolset,
                begun,
                input_message=input_message,
                started_message=first,
                input_text=extract_text(blocks),
                rebuild=partial(setup.build_tools_and_prompt, settings, now),
            )
        )
        return begun

    async def _change_mode(self, mode: Mode) -> None:
        changed = enter_mode(self.live.record, mode)
        self.live.record = await self.live.journal.change_session(mode=changed.mode, options=changed.options)

    # Its place among the turns of the daemon; an agent has one among those of its tree.

    def _take_slot(self) -> bool:
        """Whether a turn may begin now; else the next one begins when there is a place."""
        if self.record.parent_id is not None:
            return True
        slot = AgentSlot(self.turn_slots)
        if slot.take_at_once():
            self.live.slot = slot
            return True
        if not self._waits_for_slot:
            self._waits_for_slot = True
            self.group.start_soon(self._begin_with_slot, slot)
        return False

    def _may_begin(self) -> bool:
        """Whether it has a place, or gets one now."""
        return self.live.slot is not None or (not self._waits_for_slot and self._take_slot())

    def _pass_slot_on(self) -> None:
        """Others wait: its next turn comes after theirs."""
        if self.record.parent_id is None and self.live.slot is not None:
            self.live.slot.end()
            self.live.slot = None

    async def _begin_with_slot(self, slot: AgentSlot) -> None:
        await slot.take()
        self.live.slot, self._waits_for_slot = slot, False
        await self._begin_next_guarded()
        self._end_unused_slot()

    def _end_unused_slot(self) -> None:
        if self.run is None and self.record.parent_id is None and self.live.slot is not None:
            self.live.slot.end()
            self.live.slot = None

    # Running turns, one after the other.

    def _launch(self, run: TurnLoop) -> None:
        self.run = run
        self.live.turn_on_ask, self.live.turn_waits = run.settings.on_ask, run.settings.wait_for_agents
        self.live.begin_turn_skills(run.turn.id, run.settings.skills)
        self.live.usage_meter.state, self.live.usage_meter.max_turn_usd = run.state, run.settings.max_budget_usd
        self.idle = anyio.Event()
        self._scope = anyio.CancelScope()
        self.group.start_soon(self._run_turn, run, self._scope)

    async def _run_turn(self, run: TurnLoop, scope: anyio.CancelScope) -> None:
        """Run one turn to its end, then begin the next one, if any."""
        with scope:
            await self._run_guarded(lambda: self._run_to_end(run))
        run.release()
        run.over.set()
        if self.run is run:  # it was abandoned: what is stored decides how it goes on
            self.run = None
            self.idle.set()
        self._end_unused_slot()

    async def _run_guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the boundary of a session: its bug, or its disk, is not its neighbours'
            self.on_failure(self, error)

    async def _run_to_end(self, run: TurnLoop) -> None:
        ended = await run.run()
        self.last_reason = ended.reason
        self._steers += run.steers
        await self._begin_next(run)

    async def _begin_next_guarded(self) -> None:
        await self._run_guarded(lambda: self._begin_next(None))

    async def _begin_next(self, finished: TurnLoop | None) -> None:
        """Begin the next turn: unread input comes first, then the queued turns."""
        async with self.lock:
            if self.run is not finished:
                return  # another turn has begun meanwhile; what waits comes after it
            self.used_at = time.monotonic()
            if finished is not None and self.live.slot is not None and self.turn_slots.waiting:
                self._pass_slot_on()
            wakes, self._wakes_with_slot = self._wakes_with_slot and finished is None, False
            if not (self._steers or self._queued or wakes) or self._stopping or not self._may_begin():
                pass
            elif self._steers:
                await self._begin_with_steers()
            elif self._queued:
                await self._begin_queued()
            else:
                await self._begin_unasked([], [])
            if self.run is finished:
                self.run = None
                self.live.turn_on_ask, self.live.turn_waits, self.live.turn_skills = None, False, ()
                self.live.usage_meter.state = None
                self._end_unused_slot()
                self.idle.set()
                if finished is not None and self.last_reason == "completed":
                    await self._wake_for_late_notifications()

    async def _begin_with_steers(self) -> None:
        steers, self._steers = self._steers, []
        await self._begin_unasked([block for steer in steers for block in steer.blocks], steers)

    async def wake(self) -> None:
        """A task has ended, or a monitor has seen something: with `wake_on_task_end` that starts a turn."""
        self.live.wake_signal.set(self.live.tasks.notifications.find_waker(self.record.id))
        wanted = self.record.options.get("wake_on_task_end")
        if wanted is None and self.live.shared.has_answering_client(self.record.id):
            wanted = "agents"
        if self.run is None and self.live.tasks.notifications.wakes(self.record.id, wanted):
            self.group.start_soon(self._run_guarded, self._begin_for_notifications)

    async def _wake_for_late_notifications(self) -> None:
        """A task that ended after the last request of a turn has not woken the session yet."""
        if self.live.tasks.notifications.has_waiting(self.record.id):
            await self.wake()

    async def _begin_for_notifications(self) -> None:
        async with self.lock:
            idle = self.run is None and not self._stopping and self.record.status != "archived"
            if not idle or not self.live.tasks.notifications.has_waiting(self.record.id):
                return
            if self._may_begin():
                await self._begin_unasked([], [])
            else:
                self._wakes_with_slot = True

    async def _begin_unasked(self, blocks: list[dict[str, Any]], steers: list[Steer]) -> None:
        """Begin a turn without a `turn/start`, with the session's own settings."""
        settings = self.turn_setup.build_settings(TurnOptions(input="."), None)
        turn = Turn(id=new_turn_id(), session_id=self.record.id, status="queued", cursor=Cursor(0))
        stored = {**asdict(settings), "input": blocks, "mode": None}
        await self._begin_turn(turn, blocks, settings, None, stored, steers=steers)

    async def _begin_queued(self) -> None:
        def read_rows(snapshot: Snapshot) -> tuple[Turn, dict[str, Any]] | None:
            waiting = snapshot.turns.list_queued(self.record.id)
            return (waiting[0], snapshot.turns.load_input(waiting[0].id)) if waiting else None

        found = await self.live.journal.log.read(read_rows)
        if found is None:
            self._queued = 0
            return
        turn, stored = found
        self._queued -= 1
        blocks, mode = stored.pop("input"), stored.pop("mode")
        await self._begin_turn(turn, blocks, TurnSettings(**stored), mode, None)

    # Resuming after a restart or an eviction.

    async def resume(self, stored: StoredSession, queued: int) -> None:
        """Go on where the session was when the daemon stopped, or when it was evicted."""
        self._queued = queued
        if stored.turn is None:
            self._steers = stored.steers
            await self._begin_next(None)
            return
        options = {name: value for name, value in stored.options.items() if name not in {"input", "mode"}}
        settings = TurnSettings(**options)
        sent_facts = load_sent_facts(self.live) or await read_session_facts(self.live)
        toolset, prefix, _ = await self.turn_setup.build_tools_and_prompt(settings, sent_facts)
        input_message = encode_user_message(stored.input_message) if stored.input_message is not None else None
        run = TurnLoop(
            self.live,
            self.services,
            self.settings_loader,
            settings,
            prefix,
            toolset,
            stored.turn,
            input_message=input_message,
            last_message=stored.last_message,
            last_calls=stored.last_calls,
            paused_text=stored.paused_text,
            steers=list(stored.steers),
            input_text=extract_text(stored.options.get("input") or []),
            rebuild=partial(self.turn_setup.build_tools_and_prompt, settings, sent_facts),
        )
        if stored.announced_task_ids:
            await self.live.tasks.mark_announced(self.record.id, stored.announced_task_ids)
        if self.record.parent_id is None:
            self.live.slot = AgentSlot(self.turn_slots)
            self.live.slot.hold()
        if stored.trust_ask is not None:
            run.asks.expect(stored.trust_ask)
        for one in stored.last_calls:
            if one.ask is not None:
                run.asks.expect(one.ask)
        self._launch(run)

    # The end.

    def halt(self, by: str) -> None:
        """End the turn that runs, for a reason that is not the person's."""
        if self.run is not None:
            self.run.state.halt("interrupted", by)

    async def stop(self) -> None:
        """Before the session is deleted: end the turn that runs, and wait for it; queued turns do not begin."""
        self._stopping = True
        if self._compacting is not None:
            self._compacting.cancel()
        while self.run is not None:
            self.run.state.halt("interrupted", BY_DELETION)
            await self.idle.wait()

    def abandon(self) -> None:
        """Cancel the turn at once without ending it: what is stored decides how it goes on."""
        if self.run is not None:
            self.run.asks.leave_open = True
        if self._compacting is not None:
            self._compacting.cancel()
        if self._scope is not None:
            self._scope.cancel()

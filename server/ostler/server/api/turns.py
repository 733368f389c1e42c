"""The handlers of the turn methods: start, steer, interrupt, get, list, wait; and of `run`."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from ostler.protocol.errors import TurnNotFound
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.methods import RUN, TURN_LIST, TURN_START
from ostler.protocol.session import SessionCreate
from ostler.protocol.shapes import Turn
from ostler.protocol.turn import (
    GivenBack,
    InterruptedTurn,
    Run,
    RunResult,
    TurnInterrupt,
    TurnList,
    TurnOptions,
    TurnPage,
    TurnRef,
    TurnStart,
    TurnSteer,
    TurnWait,
)
from ostler.server.api.sessions import SessionMethods
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.engine.turn.options import TurnRequest
from ostler.server.engine.turn.setup import build_answer_tools
from ostler.server.engine.turn_waiters import TurnWaiters
from ostler.server.rpc.locks import Locks
from ostler.server.rpc.paging import make_page_token, parse_page_token
from ostler.storage import Snapshot
from ostler.storage.repositories import idempotency
from ostler.storage.repositories.idempotency import Key

_OPTIONS = TurnOptions.model_fields.keys()


@dataclass(frozen=True, slots=True)
class TurnMethods:
    engine: Engine
    sessions: SessionMethods
    waiters: TurnWaiters
    keys: Locks
    """A concurrent duplicate of `run` waits for the first."""

    async def start(self, params: TurnStart, actor: SessionActor) -> Turn:
        key = idempotency.make_key(TURN_START.name, params)
        return await actor.start(TurnRequest(_get_options(params), queue=params.queue, key=key))

    async def steer(self, params: TurnSteer, actor: SessionActor, turn: Turn) -> Turn:
        return await actor.steer(turn.id, params.input, now=params.now)

    async def interrupt(self, params: TurnInterrupt, actor: SessionActor, turn: Turn) -> InterruptedTurn:
        given_back: Sequence[GivenBack] = ()
        if turn.status == "queued" and (actor.run is None or actor.run.turn.id != turn.id):
            turn, dropped = await actor.drop_queued(turn.id)
            given_back = [dropped] if params.give_back else []
        elif params.give_back:
            turn, given_back = await actor.interrupt_all(turn.id)
        else:
            turn = actor.interrupt(turn.id)
        if params.tasks:
            self.engine.tasks.stop_turn_tasks(turn.id)
        return InterruptedTurn.model_construct(**turn.__dict__, given_back=list(given_back))

    async def get(self, params: TurnRef) -> Turn:
        turn = await self._find_turn(params.turn_id)
        actor = self.engine.find_actor(turn.session_id)
        if actor is not None and actor.run is not None and actor.run.turn.id == turn.id:
            return actor.run.state.turn
        return turn

    async def list(self, params: TurnList) -> TurnPage:
        after = parse_page_token(TURN_LIST.name, params, params.page, (str,))

        def read_rows(snapshot: Snapshot) -> list[Turn]:
            snapshot.sessions.get(params.session_id)
            return snapshot.turns.list_page(params.session_id, TurnId(after[0]) if after else None, params.limit + 1)

        found = await self.engine.log.read(read_rows)
        page = found[: params.limit]
        token = make_page_token(TURN_LIST.name, params, [page[-1].id]) if len(found) > params.limit else None
        return TurnPage(turns=page, next=token)

    async def wait(self, params: TurnWait) -> Turn:
        with anyio.move_on_after(params.timeout_ms / 1000):
            await self._wait_for_end_or_ask(params.turn_id)
        return await self._find_turn(params.turn_id)

    async def run(self, params: Run) -> RunResult:
        """Start a turn and wait for it; the turn goes on where the caller disconnects."""
        session_id, turn_id = await self._start_shielded(params)
        turn = await self._wait_for_end_or_ask(turn_id)
        return RunResult(session_id=session_id, turn=turn)

    async def _start_shielded(self, params: Run) -> tuple[SessionId, TurnId]:
        """Shielded from cancellation: a caller that disconnects now must not leave half of a turn behind."""
        with anyio.CancelScope(shield=True):
            return await self._start_run(params)
        raise AssertionError("nobody cancels that scope")

    async def _start_run(self, params: Run) -> tuple[SessionId, TurnId]:
        key = idempotency.make_key(RUN.name, params)
        if key is None:
            return await self._start_turn(params, None)
        async with self.keys.hold("key", f"{key.method} {key.key}"):
            return await self._start_once(params, key)

    async def _start_once(self, params: Run, key: Key) -> tuple[SessionId, TurnId]:
        answer = await self._find_earlier_answer(key)
        if answer is not None:
            turn = Turn.model_validate_json(answer)
            return turn.session_id, turn.id
        return await self._start_turn(params, key)

    async def _start_turn(self, params: Run, key: Key | None) -> tuple[SessionId, TurnId]:
        if params.mode is not None:
            self.sessions.check_mode(params.mode)
        session_id = params.session_id
        if session_id is None:
            build_answer_tools(params.output_schema)  # raised before there is a session that nobody would use
            session_id = await self._create_session(params, key)
        actor = await self.engine.get_actor(session_id)
        turn = await actor.start(TurnRequest(_get_options(params), on_ask=params.on_ask, key=key))
        return session_id, turn.id

    async def _create_session(self, params: Run, key: Key | None) -> SessionId:
        common = (SessionCreate.model_fields.keys() & params.model_fields_set) - {"idempotency_key"}
        fields = {name: getattr(params, name) for name in common if getattr(params, name) is not None}
        if key is not None:
            # The same session again, where the daemon was killed before its turn had begun.
            fields["idempotency_key"] = "run." + hashlib.sha256(key.key.encode()).hexdigest()
        created = await self.sessions.create(SessionCreate.model_validate({**fields, "on_ask": params.on_ask}))
        return created.id

    async def _wait_for_end_or_ask(self, turn_id: TurnId) -> Turn:
        """Wait until the turn has ended, or it or an agent of its session waits for an ask."""
        session_id = (await self._find_turn(turn_id)).session_id
        root_id = (await self.engine.log.read(lambda snapshot: snapshot.sessions.get(session_id))).root_id
        with self.waiters.register(turn_id, root_id) as waiter:
            while True:
                next_event = waiter.next_event
                turn, asked = await self.engine.log.read(lambda snapshot: _read_turn(snapshot, turn_id))
                if turn is None:
                    raise TurnNotFound(turn_id)
                if turn.status in {"ended", "waiting"} or (asked and turn.status == "running"):
                    return turn
                await next_event.wait()

    async def _find_earlier_answer(self, key: Key) -> bytes | None:
        return await self.engine.log.read(lambda snapshot: snapshot.idempotency.find_answer(key))

    async def _find_turn(self, turn_id: TurnId) -> Turn:
        turn = await self.engine.log.read(lambda snapshot: snapshot.turns.find(turn_id))
        if turn is None:
            raise TurnNotFound(turn_id)
        return turn


def _get_options(params: TurnStart | Run) -> TurnOptions:
    return TurnOptions.model_validate({name: getattr(params, name) for name in _OPTIONS})


def _read_turn(snapshot: Snapshot, turn_id: TurnId) -> tuple[Turn | None, bool]:
    """A turn, and whether an agent below its session has an open ask."""
    turn = snapshot.turns.find(turn_id)
    record = snapshot.sessions.find(turn.session_id) if turn is not None else None
    if turn is None or record is None:
        return turn, False
    asks = [ask for ask in snapshot.asks.list_open(record.root_id) if ask.session_id != record.id]
    if not asks or record.id == record.root_id:
        return turn, bool(asks)
    below = {member.id for member in snapshot.sessions.list_family(record.id)}
    return turn, any(ask.session_id in below for ask in asks)

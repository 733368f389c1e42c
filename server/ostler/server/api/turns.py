"""The turn methods: start, steer, interrupt, get, list, wait; and `run`."""

import hashlib
import sqlite3
from dataclasses import dataclass

import anyio

from ostler.protocol.errors import TurnNotFound
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.methods import RUN, TURN_LIST, TURN_START
from ostler.protocol.session import SessionCreate
from ostler.protocol.shapes import Turn
from ostler.protocol.turn import (
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
from ostler.server.api.sessions import Sessions
from ostler.server.engine.engine import Engine
from ostler.server.engine.turn.options import Start
from ostler.server.engine.turn.setup import answer_tools
from ostler.server.engine.turn_waiters import TurnWatch
from ostler.server.rpc.locks import Locks
from ostler.server.rpc.paging import page_position, page_token
from ostler.storage.repositories import idempotency, sessions, turns
from ostler.storage.repositories.idempotency import Key

_OPTIONS = TurnOptions.model_fields.keys()


@dataclass(frozen=True, slots=True)
class TurnMethods:
    engine: Engine
    sessions: Sessions
    watch: TurnWatch
    keys: Locks
    """A concurrent duplicate of `run` waits for the first."""

    async def start(self, params: TurnStart) -> Turn:
        key = idempotency.key_of(TURN_START.name, params)
        if key is not None and (answer := await self._answered_before(key)) is not None:
            return Turn.model_validate_json(answer)
        if params.mode is not None:
            self.sessions.check_mode(params.mode)
        actor = await self.engine.actor(params.session_id)
        options = TurnOptions.model_validate({name: getattr(params, name) for name in _OPTIONS})
        return await actor.start(Start(options, queue=params.queue, key=key))

    async def steer(self, params: TurnSteer) -> Turn:
        turn = await self._turn(params.turn_id)
        actor = await self.engine.actor(turn.session_id)
        return await actor.steer(turn.id, params.input, now=params.now)

    async def interrupt(self, params: TurnInterrupt) -> Turn:
        turn = await self._turn(params.turn_id)
        actor = await self.engine.actor(turn.session_id)
        if turn.status == "queued" and (actor.run is None or actor.run.turn.id != turn.id):
            return await actor.drop_queued(turn.id)
        interrupted = actor.interrupt(turn.id)
        if params.tasks:
            self.engine.tasks.stop_of_turn(turn.id)
        return interrupted

    async def get(self, params: TurnRef) -> Turn:
        turn = await self._turn(params.turn_id)
        await self.engine.settled(turn.session_id)
        actor = self.engine.found(turn.session_id)
        if actor is not None and actor.run is not None and actor.run.turn.id == turn.id:
            return actor.run.state.turn
        return await self._turn(params.turn_id)

    async def list(self, params: TurnList) -> TurnPage:
        after = page_position(TURN_LIST.name, params, params.page, (str,))

        def look(connection: sqlite3.Connection) -> list[Turn]:
            sessions.get(connection, params.session_id)
            return turns.page(connection, params.session_id, after[0] if after else "", params.limit + 1)

        found = await self.engine.log.read(look)
        page = found[: params.limit]
        token = page_token(TURN_LIST.name, params, [page[-1].id]) if len(found) > params.limit else None
        return TurnPage(turns=page, next=token)

    async def wait(self, params: TurnWait) -> Turn:
        turn = await self._turn(params.turn_id)
        await self.engine.settled(turn.session_id)
        with anyio.move_on_after(params.timeout_ms / 1000):
            await self._until_it_rests(params.turn_id)
        return await self._turn(params.turn_id)

    async def run(self, params: Run) -> RunResult:
        """Start and wait; the turn goes on where the caller leaves."""
        session_id, turn_id = await self._started(params)
        turn = await self._until_it_rests(turn_id)
        return RunResult(session_id=session_id, turn=turn)

    async def _started(self, params: Run) -> tuple[SessionId, TurnId]:
        """Shielded: a caller that leaves just now must not leave half of a turn behind."""
        with anyio.CancelScope(shield=True):
            return await self._start_run(params)
        raise AssertionError("nobody cancels that scope")

    async def _start_run(self, params: Run) -> tuple[SessionId, TurnId]:
        key = idempotency.key_of(RUN.name, params)
        if key is None:
            return await self._run(params, None)
        async with self.keys.hold("key", f"{key.method} {key.key}"):
            return await self._run_once(params, key)

    async def _run_once(self, params: Run, key: Key) -> tuple[SessionId, TurnId]:
        answer = await self._answered_before(key)
        if answer is not None:
            turn = Turn.model_validate_json(answer)
            return turn.session_id, turn.id
        return await self._run(params, key)

    async def _run(self, params: Run, key: Key | None) -> tuple[SessionId, TurnId]:
        if params.mode is not None:
            self.sessions.check_mode(params.mode)
        session_id = params.session_id
        if session_id is None:
            answer_tools(params.output_schema)  # raised before there is a session that nobody would use
            session_id = await self._create(params, key)
        options = TurnOptions.model_validate({name: getattr(params, name) for name in _OPTIONS})
        actor = await self.engine.actor(session_id)
        turn = await actor.start(Start(options, on_ask=params.on_ask, key=key))
        return session_id, turn.id

    async def _create(self, params: Run, key: Key | None) -> SessionId:
        shared = (SessionCreate.model_fields.keys() & params.model_fields_set) - {"idempotency_key"}
        given = {name: getattr(params, name) for name in shared if getattr(params, name) is not None}
        if key is not None:
            # The same session again, where the daemon was killed before its turn had begun.
            given["idempotency_key"] = "run." + hashlib.sha256(key.key.encode()).hexdigest()
        created = await self.sessions.create(SessionCreate.model_validate({**given, "on_ask": params.on_ask}))
        return created.id

    async def _until_it_rests(self, turn_id: TurnId) -> Turn:
        """The turn when it has ended, or waits for an ask."""
        with self.watch.over(turn_id) as seen:
            while True:
                coming = seen.next
                turn = await self._turn(turn_id)
                if turn.status in {"ended", "waiting"}:
                    return turn
                await coming.wait()

    async def _answered_before(self, key: Key) -> bytes | None:
        return await self.engine.log.read(lambda connection: idempotency.answer_to(connection, key))

    async def _turn(self, turn_id: TurnId) -> Turn:
        turn = await self.engine.log.read(lambda connection: turns.find(connection, turn_id))
        if turn is None:
            raise TurnNotFound(turn_id)
        return turn

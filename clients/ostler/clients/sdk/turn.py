"""A turn as it happens: started so that nothing is missed, followed through lost connections, to its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self, TypedDict
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from ostler.clients.sdk.asks import Answerer, OnAsk
from ostler.clients.sdk.events import EventStream, OnConnection
from ostler.clients.sdk.retry import retry_call
from ostler.clients.sdk.rpc import RpcConnection
from ostler.clients.sdk.turn_events import AskEnded, AskOpened, TurnChanged, TurnEnded, TurnEvent, typed
from ostler.protocol.ask import AskList
from ostler.protocol.errors import NoTurnRunning
from ostler.protocol.events import Event
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import ASK_LIST, SESSION_CREATE, TURN_GET, TURN_INTERRUPT, TURN_START, TURN_STEER
from ostler.protocol.session import Mode, SessionCreate
from ostler.protocol.shapes import Turn
from ostler.protocol.turn import Input, TurnInterrupt, TurnRef, TurnStart, TurnSteer
from ostler.protocol.wire import JsonObject


class TurnSettings(TypedDict, total=False):
    """The optional parameters of `turn/start`."""

    model: str | None
    mode: Mode | None
    thinking: JsonObject | None
    tool_choice: JsonObject | None
    output_schema: JsonObject | None
    max_requests: int | None
    max_budget_usd: str | None
    timeout_ms: int | None
    wait_for_agents: bool
    queue: bool


class StreamSettings(TypedDict, total=False):
    """How to wait for a daemon that cannot be reached."""

    on_connection: OnConnection | None
    patience_seconds: float | None


class LiveTurn:
    """A turn that is being followed. Iterate over it; it ends with the turn."""

    def __init__(self, rpc: RpcConnection, turn: Turn, events: EventStream) -> None:
        self.turn = turn
        """The turn as the daemon last reported it."""
        self._rpc = rpc
        self._events = events
        self._answerer: Answerer | None = None
        self._failure: Exception | None = None
        self._read_scope = anyio.CancelScope()

    @property
    def result(self) -> Turn:
        """The turn after its end."""
        if self.turn.status != "ended":
            raise RuntimeError("The turn has not ended yet. Iterate over it, or await its `wait()`, first.")
        return self.turn

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        while self.turn.status != "ended":
            event = await self._next_event()
            if event.type == "stream.reset":
                await self._refresh_state()
            elif not self._is_ours(event):
                continue
            turn_event = typed(event)
            self._apply(turn_event)
            return turn_event
        raise StopAsyncIteration

    async def wait(self) -> Turn:
        """Read to the end, and give the turn as it is then."""
        async for _ in self:
            pass
        return self.result

    async def interrupt(self, *, tasks: bool = False) -> Turn:
        """Stop it. The iteration goes on to its end, which is the proof."""
        asked = TurnInterrupt(turn_id=self.turn.id, tasks=tasks)
        try:
            return await retry_call(lambda: self._rpc.call(TURN_INTERRUPT, asked))
        except NoTurnRunning:
            return await self._rpc.call(TURN_GET, TurnRef(turn_id=self.turn.id))

    async def steer(self, input: Input, *, now: bool = False) -> Turn:
        """Say something to it while it runs."""
        return await self._rpc.call(TURN_STEER, TurnSteer(turn_id=self.turn.id, input=input, now=now))

    async def answer_with(self, on_ask: OnAsk, group: TaskGroup) -> None:
        """Hand its asks to a callback, those first that are open already."""
        self._answerer = Answerer(self._rpc, group, on_ask, self._fail)
        if self.turn.status == "waiting":
            await self._fetch_open_asks()

    def answer_no_more(self) -> None:
        """Leave its asks to others."""
        if self._answerer is not None:
            self._answerer.close()

    async def _next_event(self) -> Event:
        self._read_scope = anyio.CancelScope()
        event: Event | None = None
        if self._failure is None:
            with self._read_scope:
                event = await anext(self._events)
        if self._failure is not None:
            raise self._failure
        assert event is not None
        return event

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._read_scope.cancel()

    def _is_ours(self, event: Event) -> bool:
        """Not another turn of the same session; an agent's turns are part of the one that it works for."""
        return event.turn_id in {None, self.turn.id} or event.session_id != self.turn.session_id

    def _apply(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case TurnChanged(turn=turn) | TurnEnded(turn=turn) if turn.id == self.turn.id:
                self.turn = turn
            case AskOpened(ask=ask) if self._answerer is not None:
                self._answerer.start_answering(ask)
            case AskEnded(ask=ask) if self._answerer is not None:
                self._answerer.stop_answering(ask)
            case _:
                pass

    async def _refresh_state(self) -> None:
        """Fetch the turn again: the stream has skipped something, which may have been the end."""
        self.turn = await retry_call(lambda: self._rpc.call(TURN_GET, TurnRef(turn_id=self.turn.id)))
        await self._fetch_open_asks()

    async def _fetch_open_asks(self) -> None:
        if self._answerer is not None:
            wanted = AskList(session_id=self.turn.session_id)
            for ask in (await retry_call(lambda: self._rpc.call(ASK_LIST, wanted))).asks:
                self._answerer.start_answering(ask)


async def start(rpc: RpcConnection, session_id: str, input: Input, settings: TurnSettings) -> Turn:
    """Start a turn once, however often the connection breaks meanwhile."""
    wanted = TurnStart(session_id=SessionId(session_id), input=input, idempotency_key=uuid4().hex, **settings)
    return await retry_call(lambda: rpc.call(TURN_START, wanted))


async def resolve_session(rpc: RpcConnection, where: SessionCreate | str, asks: bool) -> SessionId:
    """A session that exists, or a new one that refuses what nobody would answer, unless it says otherwise."""
    if isinstance(where, str):
        return SessionId(where)
    chosen = where.model_fields_set
    added = {
        "on_ask": where.on_ask if "on_ask" in chosen else "ask" if asks else "deny",
        "idempotency_key": where.idempotency_key or uuid4().hex,
    }
    wanted = where.model_copy(update=added)
    return (await retry_call(lambda: rpc.call(SESSION_CREATE, wanted))).id


@asynccontextmanager
async def start_and_follow(
    rpc: RpcConnection,
    session_id: str,
    input: Input,
    settings: TurnSettings,
    on_ask: OnAsk | None,
    stream: StreamSettings,
) -> AsyncIterator[LiveTurn]:
    """Start a turn and follow it; the stream is open before it begins, so that its first letters are seen too."""
    async with EventStream(rpc, (SessionId(session_id),), "now", **stream) as events:
        turn = await start(rpc, session_id, input, settings)
        async with _answer_asks(LiveTurn(rpc, turn, events), on_ask) as live:
            yield live


@asynccontextmanager
async def follow_turn(
    rpc: RpcConnection, turn: Turn, on_ask: OnAsk | None, stream: StreamSettings
) -> AsyncIterator[LiveTurn]:
    """Follow a turn from the cursor that this state of it belongs to."""
    async with (
        EventStream(rpc, (turn.session_id,), turn.cursor, **stream) as events,
        _answer_asks(LiveTurn(rpc, turn, events), on_ask) as live,
    ):
        yield live


@asynccontextmanager
async def _answer_asks(live: LiveTurn, on_ask: OnAsk | None) -> AsyncIterator[LiveTurn]:
    try:
        async with anyio.create_task_group() as group:
            if on_ask is not None:
                await live.answer_with(on_ask, group)
            try:
                yield live
            finally:
                live.answer_no_more()
    except BaseExceptionGroup as several:
        # Callbacks hand their errors to the reader, so that the only one in here is the reader's own.
        raise several.exceptions[0] from None

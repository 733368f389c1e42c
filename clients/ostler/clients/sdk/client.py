"""The front of the SDK: `connect` finds the daemon, `Ostler` talks to it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, Unpack, overload

from anyio import to_thread

from ostler.clients.sdk import tasks
from ostler.clients.sdk import turn as live_turn
from ostler.clients.sdk.address import Address, find_address
from ostler.clients.sdk.asks import OnAsk, refuse, resolve
from ostler.clients.sdk.events import EventStream, OnConnection, StartCursor
from ostler.clients.sdk.http import build_http_error, map_http_errors, open_http
from ostler.clients.sdk.process import launch
from ostler.clients.sdk.rpc import CALL_SECONDS, AddressFinder, RpcConnection
from ostler.clients.sdk.turn import LiveTurn, StreamSettings, TurnSettings
from ostler.protocol.ask import Answer
from ostler.protocol.client import ClientCapabilities, ClientInfo, ClientKind, Initialize, Initialized
from ostler.protocol.diff import SessionDiff
from ostler.protocol.errors import NotFound, ResultNotFound, SessionNotFound
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import SESSION_DIFF, Method
from ostler.protocol.places import Places, find_places
from ostler.protocol.session import ExportFormat, SessionCreate, SessionRef
from ostler.protocol.shapes import Ask, Turn
from ostler.protocol.turn import Input
from ostler.protocol.wire import Nothing, Params, Shape

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)


class Ostler:
    """A connection to a daemon, to which this client has introduced itself; `connect` makes one."""

    def __init__(self, rpc: RpcConnection) -> None:
        self._rpc = rpc

    @property
    def daemon(self) -> Initialized:
        """What the daemon said about itself, and the id that it gave us."""
        return self._rpc.daemon

    @overload
    async def call(self, method: Method[Nothing, R], *, seconds: float = ...) -> R: ...
    @overload
    async def call(self, method: Method[P, R], params: P, *, seconds: float = ...) -> R: ...

    async def call(self, method: Method[Any, R], params: Params | None = None, *, seconds: float = CALL_SECONDS) -> R:
        """Call a method of `ostler.protocol.methods`; what the daemon refuses is raised as its error."""
        return await self._rpc.call(method, params if params is not None else Nothing(), seconds)

    async def request(self, method: str, params: dict[str, Any] | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """Call a method by name, with JSON in and JSON out."""
        return await self._rpc.request(method, params or {}, seconds)

    def events(
        self,
        session_id: str | Iterable[str] | None = None,
        *,
        after: StartCursor = "now",
        on_connection: OnConnection | None = None,
        patience_seconds: float | None = None,
    ) -> EventStream:
        """The events of a session, of several or of all: after a cursor, from the start (0), or from now.

        A daemon that is gone is waited for: for ever, or for `patience_seconds`.
        """
        ids = (session_id,) if isinstance(session_id, str) else tuple(session_id or ())
        return EventStream(
            self._rpc,
            tuple(SessionId(one) for one in ids),
            after,
            on_connection=on_connection,
            patience_seconds=patience_seconds,
        )

    async def start(self, session_id: str, input: Input, **settings: Unpack[TurnSettings]) -> Turn:
        """Start a turn and leave it to itself; `follow` shows what becomes of it."""
        return await live_turn.start(self._rpc, session_id, input, settings)

    def turn(
        self,
        session_id: str,
        input: Input,
        *,
        on_ask: OnAsk | None = None,
        on_connection: OnConnection | None = None,
        patience_seconds: float | None = None,
        **settings: Unpack[TurnSettings],
    ) -> AbstractAsyncContextManager[LiveTurn]:
        """Start a turn and follow it; leaving the block leaves the turn to itself."""
        stream: StreamSettings = {"on_connection": on_connection, "patience_seconds": patience_seconds}
        return live_turn.start_and_follow(self._rpc, session_id, input, settings, on_ask, stream)

    def follow(
        self,
        turn: Turn,
        *,
        on_ask: OnAsk | None = None,
        on_connection: OnConnection | None = None,
        patience_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[LiveTurn]:
        """Follow a turn that somebody else started, from the state of it that is given."""
        stream: StreamSettings = {"on_connection": on_connection, "patience_seconds": patience_seconds}
        return live_turn.follow_turn(self._rpc, turn, on_ask, stream)

    async def run(
        self,
        where: SessionCreate | str,
        input: Input,
        *,
        on_ask: OnAsk | None = None,
        patience_seconds: float | None = None,
        **settings: Unpack[TurnSettings],
    ) -> Turn:
        """Do one turn to its end, in a new session or in one that exists; without `on_ask`, asks are refused.

        The turn ends after the agents that it sent to the background, unless `wait_for_agents` is false.
        """
        settings = {"wait_for_agents": True, **settings}
        session_id = await live_turn.resolve_session(self._rpc, where, asks=on_ask is not None)
        answers = on_ask or (refuse if isinstance(where, str) else None)
        stream: StreamSettings = {"patience_seconds": patience_seconds}
        async with live_turn.start_and_follow(self._rpc, session_id, input, settings, answers, stream) as live:
            return await live.wait()

    async def resolve(self, ask: Ask, answer: Answer) -> Ask:
        """Answer an ask; the ask that comes back says whose answer won."""
        return await resolve(self._rpc, ask, answer)

    async def diff(self, session_id: str) -> SessionDiff:
        """The files that a session and its agents changed, from before the first change to now."""
        return await self.call(SESSION_DIFF, SessionRef(session_id=SessionId(session_id)))

    def printed(self, task_id: str, *, follow: bool = False) -> AsyncIterator[str]:
        """What a background task has printed; with `follow`, until it is over, also across a restart of the daemon."""
        return tasks.read_output(self, task_id, follow=follow)

    @asynccontextmanager
    async def export(self, session_id: str, format: ExportFormat = "markdown") -> AsyncIterator[AsyncIterator[bytes]]:
        """A session as one file, in chunks."""
        path = f"/sessions/{_quote_segment(session_id)}/export"
        async with self._download(path, {"format": format}, SessionNotFound(session_id)) as chunks:
            yield chunks

    @asynccontextmanager
    async def result(self, result_id: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """All of a persisted result, in chunks; `result/read` and `result/search` give parts of it."""
        async with self._download(f"/results/{_quote_segment(result_id)}", {}, ResultNotFound(result_id)) as chunks:
            yield chunks

    @asynccontextmanager
    async def _download(
        self, path: str, query: dict[str, str], missing: NotFound
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        address = await self._rpc.find()
        with map_http_errors(address):
            async with (
                open_http(address, read_seconds=CALL_SECONDS) as http,
                http.stream("GET", path, params=query, headers=self._rpc.headers) as response,
            ):
                if response.status_code == 404:
                    raise missing
                if response.status_code != 200:
                    raise build_http_error(address, response.status_code, await response.aread())
                yield response.aiter_bytes()


def _quote_segment(text: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - one use

    return quote(text, safe="")


@asynccontextmanager
async def connect(
    home: str | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    name: str = "ostler-sdk",
    version: str = "0",
    kind: ClientKind = "sdk",
    capabilities: ClientCapabilities | None = None,
    start: bool = False,
) -> AsyncIterator[Ostler]:
    """Find the daemon of `home`, or the one at `url`, and introduce this client to it."""
    client = ClientInfo(name=name, version=version, kind=kind)
    introduction = Initialize(client=client, capabilities=capabilities or ClientCapabilities())
    if url is not None:
        rpc = RpcConnection(_build_fixed_finder(Address(url, None, token)), introduction)
    else:
        places = find_places(home)
        if start:
            await to_thread.run_sync(launch.start, places)
        rpc = RpcConnection(_build_file_finder(places, token), introduction)
    await rpc.open()
    try:
        yield Ostler(rpc)
    finally:
        await rpc.close()


def _build_fixed_finder(address: Address) -> AddressFinder:
    async def find() -> Address:
        return address

    return find


def _build_file_finder(places: Places, token: str | None) -> AddressFinder:
    async def find() -> Address:
        found = await to_thread.run_sync(find_address, places)
        return Address(found.url, found.socket, token or found.token)

    return find

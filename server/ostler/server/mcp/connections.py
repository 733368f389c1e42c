"""The connections to MCP servers: one for each server of a session, while somebody needs it."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol.ids import CallId, SessionId
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connect import Site, opened
from ostler.server.mcp.connection import Connection, Unreachable, words_of
from ostler.server.mcp.server_config import hider
from ostler.server.mcp.stdio import Remarks
from ostler.server.observability import logs
from ostler.storage import Tx
from ostler.storage.repositories import processes
from ostler.storage.repositories.processes import ProcessRecord

_CONNECT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Want:
    """Which server, and whose."""

    session_id: SessionId
    server: str
    digest: str
    """Of the entry that somebody said yes to: another one under the same name is another server."""


Find = Callable[[Want], Awaitable[Site]]
"""The server as its session has it now. Raises NotThere."""

_Key = tuple[SessionId, str, str]


@dataclass(slots=True)
class _Held:
    """A connection and its users. One task opens and closes it: the library wants that."""

    users: int = 0
    connection: Connection | None = None
    trouble: str = ""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """It is open, or cannot be opened."""
    unwanted: anyio.Event = field(default_factory=anyio.Event)
    """Nobody needs it any more, or it is lost."""
    closed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self.unwanted.set()
            if self.connection is None:
                # It may be waiting for an answer that never comes.
                self.scope.cancel()


@dataclass(slots=True)
class Lease:
    """The use of a connection; to be given back."""

    connection: Connection
    _held: _Held
    _back: bool = False

    async def give_back(self, *, broken: bool = False) -> None:
        """The last one waits until the connection is closed, and a server that is a program is gone.

        One that is broken is given to nobody any more.
        """
        if not self._back:
            self._back = True
            if broken:
                self._held.unwanted.set()
            self._held.leave()
            if not self._held.users:
                await self._held.closed.wait()


class McpRoom:
    def __init__(self, log: EventLog, find: Find, ready: Callable[[], Awaitable[object]]) -> None:
        self._log = log
        self._find = find
        self._ready = ready
        """Returns when what a crash left is gone: a server that is started before could be taken for it."""
        self._held: dict[_Key, _Held] = {}
        self.group: TaskGroup | None = None

    async def lease(self, want: Want) -> Lease:
        """A connection to a server of a session: the one that is open, or a new one. Raises Unreachable."""
        await self._ready()
        site = await self._find(want)
        key = (want.session_id, want.server, want.digest)
        held = self._held.get(key)
        if held is None or held.unwanted.is_set():
            held = self._held[key] = _Held()
            assert self.group is not None
            self.group.start_soon(self._own, key, held, site)
        held.users += 1
        try:
            with anyio.move_on_after(_CONNECT_SECONDS):
                await held.settled.wait()
            if held.connection is None:
                why = held.trouble or f"It did not answer within {_CONNECT_SECONDS:g} s."
                raise Unreachable(f"The MCP server {want.server!r} cannot be reached. {why}")
        except BaseException:
            held.leave()
            raise
        return Lease(held.connection, held)

    async def _own(self, key: _Key, held: _Held, site: Site) -> None:
        remarks, hide = Remarks(), hider(site.server.secrets)
        theirs = _Processes(self._log, key[0])
        # Marks its processes as a call's are, so that they are found wherever they go.
        marker = CallId(f"mcp_{secrets.token_hex(8)}")
        try:
            with held.scope:
                async with opened(site, marker, theirs, remarks, held.unwanted.set) as connection:
                    held.connection = connection
                    held.settled.set()
                    await held.unwanted.wait()
                    # A program is ended all the same; an address that does not answer its goodbye is left.
                    held.scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except Exception as error:  # noqa: BLE001 - the boundary of a server: its trouble is its users' alone
            said = f" It said: {remarks}" if str(remarks) else ""
            held.trouble = hide(f"{words_of(error)}{said}")
            logs.log.warning("mcp_server_failed", session_id=key[0], server=key[1], reason=held.trouble)
        finally:
            if self._held.get(key) is held:
                del self._held[key]
            held.unwanted.set()
            held.settled.set()
            if held.connection is not None:
                held.connection.close()
            held.closed.set()


@dataclass(frozen=True, slots=True)
class _Processes:
    """The programs of a session's servers, so that the next daemon ends those that a crash leaves."""

    log: EventLog
    session_id: SessionId
    _started: dict[int, str] = field(default_factory=dict)

    async def started(self, call_id: CallId, pid: int, start_time: str) -> None:
        record = ProcessRecord(pid, start_time, self.session_id, call_id)
        self._started[pid] = start_time

        def work(tx: Tx) -> None:
            processes.add(tx.connection, record)

        await self.log.write(work)

    def ended(self, call_id: CallId, pid: int) -> None:
        start_time = self._started.pop(pid, "")
        self.log.submit_quietly(lambda tx: processes.drop(tx.connection, pid, start_time))

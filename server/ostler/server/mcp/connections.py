"""The connections to MCP servers: one for each server of a session, while somebody needs it."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import anyio
from anyio.abc import TaskGroup

from ostler.protocol.ids import CallId, SessionId
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connection import Connection, Unreachable, describe_error
from ostler.server.mcp.server_config import build_redactor
from ostler.server.mcp.stdio import Diagnostics
from ostler.server.observability import logs
from ostler.storage import Tx
from ostler.storage.repositories.processes import ProcessRecord

if TYPE_CHECKING:
    from ostler.server.mcp.connect import ResolvedServer

_CONNECT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ServerKey:
    """Identifies a server of a session."""

    session_id: SessionId
    server: str
    digest: str
    """Of the entry that somebody said yes to: another one under the same name is another server."""


FindServer = Callable[[ServerKey], Awaitable["ResolvedServer"]]
"""The server as its session has it now. Raises NoSuchServer."""

_Key = tuple[SessionId, str, str]


@dataclass(slots=True)
class _SharedConnection:
    """A connection and the number of its users. One task opens and closes it, as the library demands."""

    users: int = 0
    read_diagnostics: Callable[[], str] = str
    connection: Connection | None = None
    error: str = ""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """It is open, or cannot be opened."""
    unwanted: anyio.Event = field(default_factory=anyio.Event)
    """Nobody needs it any more, or it is lost."""
    closed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def remove_user(self) -> None:
        self.users -= 1
        if not self.users:
            self.unwanted.set()
            if self.connection is None:
                # It may be waiting for an answer that never comes.
                self.scope.cancel()


@dataclass(slots=True)
class Lease:
    """The use of a connection; to be released."""

    connection: Connection
    _shared: _SharedConnection
    _returned: bool = False

    async def release(self, *, broken: bool = False) -> None:
        """The last one waits until the connection is closed, and a server that is a program is gone.

        A connection that is broken is not leased again.
        """
        if not self._returned:
            self._returned = True
            if broken:
                self._shared.unwanted.set()
            self._shared.remove_user()
            if not self._shared.users:
                await self._shared.closed.wait()


class McpConnections:
    def __init__(self, log: EventLog, find: FindServer, ready: Callable[[], Awaitable[object]]) -> None:
        self._log = log
        self._find = find
        self._ready = ready
        """Waits until the processes that a crash left are gone: a server started before could be taken for one."""
        self._connections: dict[_Key, _SharedConnection] = {}
        self.group: TaskGroup | None = None
        self._diagnostics: dict[_Key, str] = {}
        """Of each server of a session that is in memory: the end of what it printed beside its messages."""
        self._older: set[str] = set()
        """The digests of entries whose servers speak a protocol of before 2026: asked again, some would wait 10 s."""

    async def lease(self, server_key: ServerKey) -> Lease:
        """A connection to a server of a session: the one that is open, or a new one. Raises Unreachable."""
        await self._ready()
        resolved = await self._find(server_key)
        key = (server_key.session_id, server_key.server, server_key.digest)
        shared = self._connections.get(key)
        if shared is None or shared.unwanted.is_set():
            shared = self._connections[key] = _SharedConnection()
            assert self.group is not None
            self.group.start_soon(self._run_connection, key, shared, resolved)
        shared.users += 1
        try:
            with anyio.move_on_after(_CONNECT_SECONDS):
                await shared.settled.wait()
            if shared.connection is None:
                why = shared.error or f"It did not answer within {_CONNECT_SECONDS:g} s."
                raise Unreachable(f"The MCP server {server_key.server!r} cannot be reached. {why}")
        except BaseException:
            shared.remove_user()
            raise
        return Lease(shared.connection, shared)

    def read_diagnostics(self, server_key: ServerKey) -> str:
        """The end of what a server printed beside its messages, without secrets."""
        key = (server_key.session_id, server_key.server, server_key.digest)
        shared = self._connections.get(key)
        return self._diagnostics.get(key, "") if shared is None else shared.read_diagnostics()

    def forget(self, session_id: SessionId) -> None:
        """The session is no longer in memory."""
        for key in [each for each in self._diagnostics if each[0] == session_id]:
            del self._diagnostics[key]

    def close(self, server_key: ServerKey) -> None:
        """Closes a connection, whoever uses it: the next lease opens another one."""
        shared = self._connections.get((server_key.session_id, server_key.server, server_key.digest))
        if shared is not None:
            shared.unwanted.set()
            if shared.connection is None:
                shared.scope.cancel()

    def _choose_mode(self, key: _Key) -> Literal["auto", "legacy"]:
        return "legacy" if key[2] in self._older else "auto"

    def _note_version(self, key: _Key, connection: Connection) -> None:
        if connection.speaks_older_protocol:
            self._older.add(key[2])

    async def _run_connection(self, key: _Key, shared: _SharedConnection, resolved: "ResolvedServer") -> None:
        # Imported here, so that the daemon starts faster.
        from ostler.server.mcp.connect import open_connection  # noqa: PLC0415

        diagnostics, redact = Diagnostics(), build_redactor(resolved.server.secrets)
        shared.read_diagnostics = lambda: redact(str(diagnostics))
        own_processes = _Processes(self._log, key[0])
        # Marks its processes as a call's are, so that they are found wherever they go.
        marker = CallId(f"mcp_{secrets.token_hex(8)}")
        try:
            with shared.scope:
                async with open_connection(
                    resolved, marker, own_processes, diagnostics, shared.unwanted.set, mode=self._choose_mode(key)
                ) as connection:
                    self._note_version(key, connection)
                    shared.connection = connection
                    shared.settled.set()
                    await shared.unwanted.wait()
                    # A program is ended in any case; an HTTP server that does not answer the closing request is left.
                    shared.scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except Exception as error:  # noqa: BLE001 - the boundary of a server: its errors concern its users alone
            said = f" It said: {diagnostics}" if str(diagnostics) else ""
            self._older.discard(key[2])
            shared.error = redact(f"{describe_error(error)}{said}")
            logs.log.warning("mcp_server_failed", session_id=key[0], server=key[1], reason=shared.error)
        finally:
            if self._connections.get(key) is shared:
                del self._connections[key]
                self._diagnostics[key] = shared.read_diagnostics()
            shared.unwanted.set()
            shared.settled.set()
            if shared.connection is not None:
                shared.connection.close()
            shared.closed.set()


@dataclass(frozen=True, slots=True)
class _Processes:
    """The programs of a session's servers, so that the next daemon ends those that a crash leaves."""

    log: EventLog
    session_id: SessionId
    _started: dict[int, str] = field(default_factory=dict)

    async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
        record = ProcessRecord(pid, start_time, self.session_id, call_id)
        self._started[pid] = start_time

        def work(tx: Tx) -> None:
            tx.processes.add(record)

        await self.log.write(work)

    def record_end(self, call_id: CallId, pid: int) -> None:
        start_time = self._started.pop(pid, "")
        self.log.submit_quietly(lambda tx: tx.processes.drop(pid, start_time))

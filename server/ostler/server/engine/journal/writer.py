"""How a session writes: units of work about it, waited for or queued."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ostler.protocol import times
from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.session import SessionStatus
from ostler.protocol.shapes import Turn, Usage
from ostler.server.engine.journal.session_view import tell
from ostler.server.events.event_log import EventLog
from ostler.storage import Ahead, Scope, Tx
from ostler.storage.repositories import sessions

T = TypeVar("T")


@dataclass(slots=True)
class Units:
    """What was promised to somebody is waited for. The rest is queued in the same order and waits for nothing."""

    log: EventLog
    session_id: SessionId
    root_id: SessionId
    used: Usage
    """What the session has used so far; summed in memory, since every `session.updated` shows it."""
    on_trouble: Callable[[Exception], None]
    """Told where a queued unit fails: what is in memory then is more than what is on the disk."""
    _under_way: Ahead | None = field(default=None, init=False)
    """The last unit that somebody waits for at a gate."""

    def scope(self, turn_id: TurnId | None) -> Scope:
        return Scope(self.session_id, self.root_id, turn_id)

    async def write(self, work: Callable[[Tx], T]) -> T:
        return await self.log.write(work, self.root_id)

    def post(self, work: Callable[[Tx], object], *, urgent: bool = False) -> None:
        """Queue a unit that nobody waits for."""
        try:
            self.submit(work, urgent=urgent)
        except ProtocolError as error:
            self.on_trouble(error)

    def submit(
        self, work: Callable[[Tx], T], *, urgent: bool = True, ahead: Ahead | None = None
    ) -> "asyncio.Future[T]":
        """Queue a unit; waiting for it is for the caller to decide."""
        future = self.log.submit(work, self.root_id, urgent=urgent, ahead=ahead)
        future.add_done_callback(self._look)
        return future

    def ahead(self, work: Callable[[Tx], object]) -> Ahead:
        """Queue a unit whose end opens a gate: a request leaves then, or a command begins."""
        ahead = self._under_way = Ahead()
        self.submit(work, ahead=ahead)
        return ahead

    async def with_the_disk(self) -> None:
        """Wait until what stands before a gate is the disk's business alone: what is done then takes no time of it."""
        if self._under_way is not None:
            await self._under_way.ran()

    def _look(self, future: "asyncio.Future[Any]") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self.on_trouble(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def set_status(self, tx: Tx, status: SessionStatus, turn: Turn | None) -> None:
        """The session does something else now: `turn` is the one that it is in."""
        record = sessions.get(tx.connection, self.session_id)
        if record.status == status:
            return
        record = replace(record, status=status, updated_at=times.now())
        sessions.put(tx.connection, record)
        tell(tx, "session.updated", record, self.used, turn)

"""The write queue of a session: units of work, waited for or not, and the commit gate."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ostler.protocol import times
from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.session import SessionStatus
from ostler.protocol.shapes import Turn, Usage
from ostler.server.engine.journal.session_view import append_session_event
from ostler.server.events.event_log import EventLog
from ostler.storage import CommitProgress, Scope, Tx

T = TypeVar("T")


@dataclass(slots=True)
class WriteQueue:
    """Writes units of work about one session, in order. What a client was promised is waited for, the rest is not.

    A unit at the commit gate is one that must be on the disk before something happens outside: a model request is sent,
    or a command begins.
    """

    log: EventLog
    session_id: SessionId
    root_id: SessionId
    used: Usage
    """The usage of the session so far; summed in memory, since every `session.updated` has it."""
    on_trouble: Callable[[Exception], None]
    """Called where a queued unit fails: the state in memory is then ahead of the disk."""
    _last_gated: CommitProgress | None = field(default=None, init=False)
    """The last unit that was submitted with a commit gate."""

    def scope(self, turn_id: TurnId | None) -> Scope:
        return Scope(self.session_id, self.root_id, turn_id)

    async def write(self, work: Callable[[Tx], T]) -> T:
        return await self.log.write(work, self.root_id)

    def post(self, work: Callable[[Tx], object], *, urgent: bool = False) -> None:
        """Queue a unit of work that nobody waits for."""
        try:
            self.submit(work, urgent=urgent)
        except ProtocolError as error:
            self.on_trouble(error)

    def submit(
        self, work: Callable[[Tx], T], *, urgent: bool = True, progress: CommitProgress | None = None
    ) -> "asyncio.Future[T]":
        """Queue a unit of work; the caller decides whether to wait for it."""
        future = self.log.submit(work, self.root_id, urgent=urgent, progress=progress)
        future.add_done_callback(self._report_failure)
        return future

    def submit_gated(self, work: Callable[[Tx], object]) -> CommitProgress:
        """Queue a unit of work whose commit opens a gate: a model request is sent then, or a command begins."""
        progress = self._last_gated = CommitProgress()
        self.submit(work, progress=progress)
        return progress

    async def reach_commit_gate(self) -> None:
        """Wait until the last gated unit has run and only its commit is outstanding.

        What is computed after that does not delay the commit: it runs while the disk writes.
        """
        if self._last_gated is not None:
            await self._last_gated.executed()

    def _report_failure(self, future: "asyncio.Future[Any]") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self.on_trouble(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def set_status(self, tx: Tx, status: SessionStatus, turn: Turn | None) -> None:
        """Store a new status of the session, and announce it; `turn` is its current turn."""
        record = tx.sessions.get(self.session_id)
        if record.status == status:
            return
        record = replace(record, status=status, updated_at=times.now())
        tx.sessions.put(record)
        append_session_event(tx, "session.updated", record, self.used, turn)

    def put_state(self, tx: Tx, state: dict[str, Any] | None) -> None:
        """What is kept between requests, where it has changed."""
        if state is not None:
            tx.states.put(self.session_id, state)

"""The journal of a session: each method writes one unit of work, rows and events together.

What is written about turns, messages, calls and asks is in the module of each; all share one write queue.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ostler.protocol import times
from ostler.protocol.events import Notice, PullRequest
from ostler.protocol.hook import HookData, HookRun
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.shapes import Usage
from ostler.server.engine.journal.asks import AskJournal
from ostler.server.engine.journal.calls import CallJournal
from ostler.server.engine.journal.compactions import CompactionJournal
from ostler.server.engine.journal.messages import MessageJournal
from ostler.server.engine.journal.session_view import store_session
from ostler.server.engine.journal.turns import TurnJournal
from ostler.server.engine.journal.writer import WriteQueue
from ostler.server.events.event_log import EventLog
from ostler.storage import Tx
from ostler.storage.repositories.sessions import SessionRecord


class Journal:
    """Writes everything of one session: the session itself and what is said of it, and by its parts the rest."""

    __slots__ = ("asks", "calls", "compactions", "log", "messages", "session_id", "turns", "writes")

    def __init__(
        self,
        log: EventLog,
        session_id: SessionId,
        root_id: SessionId,
        used: Usage,
        on_trouble: Callable[[Exception], None],
    ) -> None:
        self.log = log
        self.session_id = session_id
        self.writes = WriteQueue(log, session_id, root_id, used, on_trouble)
        self.calls = CallJournal(self.writes)
        self.asks = AskJournal(self.writes, self.calls)
        self.messages = MessageJournal(self.writes, self.calls)
        self.turns = TurnJournal(self.writes, self.messages)
        self.compactions = CompactionJournal(self.writes)

    async def change_session(self, **changes: Any) -> SessionRecord:
        """Change fields of the session's record."""

        def work(tx: Tx) -> SessionRecord:
            record = replace(tx.sessions.get(self.writes.session_id), **changes, updated_at=times.now())
            store_session(tx, record, self.writes.used)
            return record

        return await self.writes.write(work)

    def link_pull(self, pull: PullRequest) -> None:
        def work(tx: Tx) -> None:
            record = tx.sessions.get(self.writes.session_id)
            store_session(
                tx,
                replace(record, metadata=add_pull_link(record.metadata, pull), updated_at=times.now()),
                self.writes.used,
            )

        self.writes.post(work)

    def store_state(self, state: dict[str, Any]) -> None:
        self.writes.post(lambda tx: self.writes.put_state(tx, state))

    def record_hook_run(self, turn_id: TurnId | None, run: HookRun) -> None:
        def work(tx: Tx) -> None:
            tx.append("hook.ran", self.writes.scope(turn_id), data=HookData(run=run))

        self.writes.post(work)

    def add_notice(self, turn_id: TurnId | None, notice: Notice) -> None:
        def work(tx: Tx) -> None:
            tx.append("notice", self.writes.scope(turn_id), data=notice)

        self.writes.post(work)


def add_pull_link(metadata: dict[str, Any], pull: PullRequest) -> dict[str, Any]:
    """A session's metadata with one more pull request; left alone where a client keeps something else under `pr`."""
    known = metadata.get("pr", [])
    entry = {"number": pull.number, "url": pull.url}
    if not isinstance(known, list) or entry in known:
        return metadata
    return {**metadata, "pr": [*known, entry]}

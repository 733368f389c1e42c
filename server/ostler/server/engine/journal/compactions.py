"""Writes compactions: what the model is sent in the place of older messages, which stay as they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ostler.protocol.events import ContextCompacted
from ostler.protocol.ids import TurnId
from ostler.protocol.shapes import Message
from ostler.server.engine.journal.writer import WriteQueue
from ostler.storage import Tx

Reads = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CompactionJournal:
    """Writes the compactions of a session; each is on the disk when the method returns."""

    writes: WriteQueue

    async def clear(
        self, turn_id: TurnId | None, texts: Mapping[str, str], reads: Reads, done: ContextCompacted
    ) -> None:
        """Store the texts in the place of results, and what the session still knows of files."""

        def work(tx: Tx) -> None:
            self._put(tx, texts, reads)
            tx.append("context.compacted", self.writes.scope(turn_id), data=done)

        await self.writes.write(work)

    async def summarise(
        self, message: Message, kept_from: int, texts: Mapping[str, str], reads: Reads, done: ContextCompacted
    ) -> None:
        """Store a summary that stands in the place of all messages before a position."""

        def work(tx: Tx) -> None:
            self._put(tx, texts, reads)
            tx.messages.add_summary(message, kept_from)
            scope = self.writes.scope(message.turn_id)
            tx.append("message.completed", scope, reference=message.id, thing=message)
            tx.append("context.compacted", scope, data=done)

        await self.writes.write(work)

    def _put(self, tx: Tx, texts: Mapping[str, str], reads: Reads) -> None:
        if texts:
            tx.messages.clear_results(self.writes.session_id, texts)
        for path, read in reads.items():
            tx.states.put_read(self.writes.session_id, path, read)

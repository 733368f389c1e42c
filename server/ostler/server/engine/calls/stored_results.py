"""Persisted results, read piece by piece: one of any size costs one piece of memory."""

import sqlite3
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from ostler.protocol.errors import ResultNotFound
from ostler.protocol.ids import ResultId, SessionId
from ostler.server.events.event_log import EventLog
from ostler.storage.repositories import results
from ostler.storage.repositories.results import ResultRecord
from ostler.tools.services import NoSuchResult


async def find_result(log: EventLog, result_id: ResultId) -> ResultRecord:
    """What is known of a result; raises ResultNotFound."""

    def look(connection: sqlite3.Connection) -> ResultRecord:
        found = results.find(connection, result_id)
        if found is None:
            raise ResultNotFound(result_id)
        return found

    return await log.read(look)


async def pieces_of(log: EventLog, record: ResultRecord) -> AsyncIterator[str]:
    """The text; it ends early where the result is deleted meanwhile."""
    offset = 0
    while offset < record.total_chars:
        start = offset
        piece = await log.read(lambda connection: results.piece_after(connection, record.id, start))  # noqa: B023
        if piece is None:
            return
        yield piece
        offset += len(piece)


async def drop_pieces(log: EventLog, result_ids: Iterable[ResultId]) -> None:
    """Remove what is left of results that nobody has any more, step by step."""
    for result_id in result_ids:
        while await log.write(lambda tx: results.drop_pieces(tx.connection, result_id)):  # noqa: B023 - awaited at once
            pass


@dataclass(frozen=True, slots=True)
class OwnedResults:
    """The results of one session, for its tools: what others have is none of its business."""

    log: EventLog
    session_id: SessionId

    async def pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        record = await self.log.read(lambda connection: self._owned(connection, result_id))
        if record is None:
            raise NoSuchResult(
                f"This session has no result {result_id[:100]!r}. "
                "A result's path stands where its output was too large, as result://ID."
            )
        async for piece in pieces_of(self.log, record):
            yield piece

    def _owned(self, connection: sqlite3.Connection, result_id: ResultId) -> ResultRecord | None:
        if not results.owns(connection, self.session_id, result_id):
            return None
        return results.find(connection, result_id)

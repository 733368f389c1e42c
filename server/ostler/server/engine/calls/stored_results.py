"""Reads persisted results piece by piece: one of any size takes the memory of one piece."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from ostler.protocol.errors import InvalidParams, ResultNotFound
from ostler.protocol.ids import ResultId, SessionId
from ostler.server.events.event_log import EventLog
from ostler.storage import Snapshot
from ostler.storage.repositories.results import ResultRecord
from ostler.tools.services import NoSuchResult


async def find_result(log: EventLog, result_id: ResultId) -> ResultRecord:
    """The record of a result; raises ResultNotFound."""

    def find_record(snapshot: Snapshot) -> ResultRecord:
        found = snapshot.results.find(result_id)
        if found is None:
            raise ResultNotFound(result_id)
        return found

    return await log.read(find_record)


async def find_text(log: EventLog, result_id: ResultId) -> ResultRecord:
    """The same of one that is text: a file has no lines or characters to be asked for."""
    record = await find_result(log, result_id)
    if record.file_name is not None:
        raise InvalidParams.of("result_id", f"is the file {record.file_name!r}: download it from /results/{record.id}")
    return record


async def read_file(log: EventLog, record: ResultRecord) -> AsyncIterator[bytes]:
    """A file, piece by piece; it ends early where the result is deleted meanwhile."""
    offset = 0
    while offset < record.total_bytes:
        start = offset
        piece = await log.read(lambda snapshot: snapshot.results.read_bytes(record.id, start))  # noqa: B023
        if piece is None:
            return
        yield piece
        offset += len(piece)


async def read_pieces(log: EventLog, record: ResultRecord) -> AsyncIterator[str]:
    """The text, piece by piece; it ends early where the result is deleted meanwhile."""
    offset = 0
    while offset < record.total_chars:
        start = offset
        piece = await log.read(lambda snapshot: snapshot.results.read_piece(record.id, start))  # noqa: B023
        if piece is None:
            return
        yield piece
        offset += len(piece)


async def drop_pieces(log: EventLog, result_ids: Iterable[ResultId]) -> None:
    """Delete the pieces of results that no session owns any more, in several transactions."""
    for result_id in result_ids:
        while await log.write(lambda tx: tx.results.drop_pieces(result_id)):  # noqa: B023 - awaited at once
            pass


@dataclass(frozen=True, slots=True)
class OwnedResults:
    """The results of one session, for its tools; those of other sessions are not found."""

    log: EventLog
    session_id: SessionId

    async def read_pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        record = await self.log.read(lambda snapshot: self._find_owned(snapshot, result_id))
        if record is None:
            raise NoSuchResult(
                f"This session has no result {result_id[:100]!r}. "
                "A result's path stands where its output was too large, as result://ID."
            )
        if record.file_name is not None:
            raise NoSuchResult(
                f"{result_id} is the file {record.file_name!r} that was sent to the person, and no text."
            )
        async for piece in read_pieces(self.log, record):
            yield piece

    def _find_owned(self, snapshot: Snapshot, result_id: ResultId) -> ResultRecord | None:
        if not snapshot.results.owns(self.session_id, result_id):
            return None
        return snapshot.results.find(result_id)

"""What files held before a turn changed them first: packed on a thread, and on the disk before the file is changed."""

from dataclasses import dataclass
from typing import Final

from ostler.protocol.ids import TurnId
from ostler.server.engine.journal import Journal
from ostler.storage import Tx, file_history
from ostler.storage.file_history import ContentGone, KeptFile
from ostler.tools.context import OlderFile
from ostler.tools.threads import read_in_thread

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""The content of a larger file is not kept; that it was changed is."""
MAX_SESSION_BYTES: Final = 200 * 1024 * 1024
"""What one session's contents may take, packed: the oldest turns go first."""


@dataclass(frozen=True, slots=True)
class TurnFiles:
    """The file history of one turn, as its calls extend it."""

    journal: Journal
    turn_id: TurnId | None

    async def keep(self, path: str, older: OlderFile | None) -> None:
        if self.turn_id is None:
            return
        file = self._record(self.turn_id, path, older)
        known = await self.journal.log.read(lambda connection: file_history.known(connection, file))
        if known.kept:
            return
        if known.content or older is None or file.digest is None:
            try:
                await self._store(file, None)
            except ContentGone:  # its last session was deleted just now
                assert older is not None
            else:
                return
        await self._store(file, await read_in_thread(_packed, older))

    def _record(self, turn_id: TurnId, path: str, older: OlderFile | None) -> KeptFile:
        session_id = self.journal.session_id
        if older is None:
            return KeptFile(session_id, turn_id, path, None)
        if older.size > MAX_FILE_BYTES:
            return KeptFile(session_id, turn_id, path, older.mode, older.size, None, "too_large")
        return KeptFile(session_id, turn_id, path, older.mode, older.size, older.digest)

    async def _store(self, file: KeptFile, packed: bytes | None) -> None:
        def work(tx: Tx) -> None:
            file_history.keep(tx.connection, file, packed, MAX_SESSION_BYTES)

        await self.journal.write(work)


def _packed(older: OlderFile) -> bytes:
    return file_history.pack(older.content())

"""What files held before a turn changed them first: packed on a thread, and on the disk before the file is changed.

So it is known which files a daemon may have been writing when it died, and what it left beside them can be removed.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio

from ostler.protocol.ids import SessionId, TurnId
from ostler.server.engine.journal.journal import Journal
from ostler.server.events.event_log import EventLog
from ostler.storage import Tx
from ostler.storage.repositories import file_history, turns
from ostler.storage.repositories.file_history import ContentGone, KeptFile
from ostler.tools.services import OlderFile
from ostler.tools.threads import read_in_thread

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""The content of a larger file is not kept; that it was changed is."""
MAX_SESSION_BYTES: Final = 200 * 1024 * 1024
"""What one session's contents may take, packed: the oldest turns go first."""
_STEM_BYTES: Final = 100
_CLEAR_SECONDS: Final = 5.0


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


async def clear_left_overs(log: EventLog, session_id: SessionId, born: float) -> None:
    """Remove what was left beside the files of an unfinished turn by a daemon that died before this one was born."""

    def changed(connection: sqlite3.Connection) -> list[str]:
        turn = turns.current(connection, session_id)
        rows = file_history.of_sessions(connection, [session_id]) if turn is not None else []
        return [row.path for row in rows if turn is not None and row.turn_id == turn.id]

    paths = await log.read(changed)
    if paths:
        with anyio.move_on_after(_CLEAR_SECONDS):  # a disk that does not answer holds nobody up
            await read_in_thread(_clear, paths, born)


def _clear(paths: Iterable[str], born: float) -> None:
    for path in paths:
        folder, name = os.path.split(path)
        # As `ostler.tools.fs.atomic_write` calls what it is still writing: of a long name, only the beginning.
        stem = re.escape(os.fsdecode(os.fsencode(name)[:_STEM_BYTES]))
        temporary = re.compile(rf"\.{stem}\.[0-9a-f]{{12}}\.tmp", re.DOTALL)
        # A disk that is gone, or takes nothing, keeps what it has.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if temporary.fullmatch(entry.name) and _is_nobodys(entry, born):
                    os.unlink(entry.path)


def _is_nobodys(entry: "os.DirEntry[str]", born: float) -> bool:
    """What was written to since may be a change that is going on now."""
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < born

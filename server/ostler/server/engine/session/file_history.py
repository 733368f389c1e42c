"""The file history: the content of files before a turn changed them, compressed on a thread and stored beforehand.

So it is known which files a daemon may have been writing when it died, and its temporary files can be removed.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio

from ostler.protocol.ids import SessionId, TurnId
from ostler.server.engine.journal.journal import Journal
from ostler.server.events.event_log import EventLog
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories import file_history
from ostler.storage.repositories.file_history import ContentGone, FileSnapshot
from ostler.tools.services import OlderFile
from ostler.tools.threads import read_in_thread

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""The content of a larger file is not kept; that it was changed is recorded."""
MAX_SESSION_BYTES: Final = 200 * 1024 * 1024
"""What the contents of one session may take, compressed: those of the oldest turns are dropped first."""
_STEM_BYTES: Final = 100
_CLEAR_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TurnFiles:
    """The file history of one turn, for its calls to add to."""

    journal: Journal
    turn_id: TurnId | None

    async def keep(self, path: str, older: OlderFile | None) -> None:
        if self.turn_id is None:
            return
        file = self._build_record(self.turn_id, path, older)
        known = await self.journal.log.read(lambda snapshot: snapshot.file_history.check_stored(file))
        if known.has_snapshot:
            return
        if known.has_content or older is None or file.digest is None:
            try:
                await self._store(file, None)
            except ContentGone:  # its last session was deleted just now
                assert older is not None
            else:
                return
        await self._store(file, await read_in_thread(_pack_content, older))

    def _build_record(self, turn_id: TurnId, path: str, older: OlderFile | None) -> FileSnapshot:
        session_id = self.journal.session_id
        if older is None:
            return FileSnapshot(session_id, turn_id, path, None)
        if older.size > MAX_FILE_BYTES:
            return FileSnapshot(session_id, turn_id, path, older.mode, older.size, None, "too_large")
        return FileSnapshot(session_id, turn_id, path, older.mode, older.size, older.digest)

    async def _store(self, file: FileSnapshot, packed: bytes | None) -> None:
        def work(tx: Tx) -> None:
            tx.file_history.keep(file, packed, MAX_SESSION_BYTES)

        await self.journal.writes.write(work)


def _pack_content(older: OlderFile) -> bytes:
    return file_history.pack(older.content())


async def clear_left_overs(log: EventLog, session_id: SessionId, started_at: float) -> None:
    """Remove temporary files beside the files of an unfinished turn, left by a daemon that died before `started_at`."""

    def read_paths(snapshot: Snapshot) -> list[str]:
        turn = snapshot.turns.find_current(session_id)
        rows = snapshot.file_history.list_by_sessions([session_id]) if turn is not None else []
        return [row.path for row in rows if turn is not None and row.turn_id == turn.id]

    paths = await log.read(read_paths)
    if paths:
        with anyio.move_on_after(_CLEAR_SECONDS):  # a disk that does not answer is not waited for
            await read_in_thread(_remove_temporary_files, paths, started_at)


def _remove_temporary_files(paths: Iterable[str], started_at: float) -> None:
    for path in paths:
        folder, name = os.path.split(path)
        # The names that `ostler.tools.fs.atomic_write` gives its temporary files: of a long name, only the beginning.
        stem = re.escape(os.fsdecode(os.fsencode(name)[:_STEM_BYTES]))
        temporary = re.compile(rf"\.{stem}\.[0-9a-f]{{12}}\.tmp", re.DOTALL)
        # Best effort: a disk may be gone, or read-only.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if temporary.fullmatch(entry.name) and _is_left_over(entry, started_at):
                    os.unlink(entry.path)


def _is_left_over(entry: "os.DirEntry[str]", started_at: float) -> bool:
    """Whether it is older than this daemon: what was written since may belong to a change that is going on now."""
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < started_at

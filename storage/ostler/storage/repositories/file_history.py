"""File history: what files contained before a turn first changed them.

A content is stored once, by its digest, however often it is kept, and is deleted when no row refers to it any more.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.protocol.ids import SessionId, TurnId

LeftOut = Literal["too_large", "no_room"]

_LEVEL: Final = 1
"""Whoever changes a file waits for the packing: almost as good as by the higher levels, in a third of the time."""


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A file as it was before a turn changed it first."""

    session_id: SessionId
    turn_id: TurnId
    path: str
    mode: int | None
    """Null: there was no file."""
    size: int = 0
    digest: str | None = None
    """Of the content; null where there was no file, or where its content is not kept."""
    left_out: LeftOut | None = None
    """Why the content is not kept: the file is too large, or the space limit of the session was reached."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """What is stored already of a file that is about to be kept."""

    has_snapshot: bool
    """The turn has changed the file before."""
    has_content: bool
    """The content is stored, for this file or another one."""


class ContentGone(Exception):
    """The content that a row should refer to is not stored any more: the caller has to pass it."""


_COLUMNS: Final = "session_id, turn_id, path, mode, size, digest, left_out"


def pack(content: bytes) -> bytes:
    return zlib.compress(content, _LEVEL)


def unpack(packed: bytes) -> bytes:
    return zlib.decompress(packed)


class FileHistory:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def check_stored(self, file: FileSnapshot) -> StoredState:
        row = self._connection.execute(
            "SELECT 1 FROM file_history WHERE session_id = ? AND turn_id = ? AND path = ?",
            (file.session_id, file.turn_id, file.path),
        ).fetchone()
        return StoredState(row is not None, self._has_content(file.digest))

    def keep(self, file: FileSnapshot, packed: bytes | None, limit: int) -> None:
        """Keep a file, unless its turn has done so before, and enforce the space limit: the oldest turns go first.

        Without `packed` its content must be stored already: ContentGone where it is not.
        """
        if packed is None and file.digest is not None and not self._has_content(file.digest):
            raise ContentGone
        added = self._connection.execute(
            f"INSERT OR IGNORE INTO file_history ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant text
            (file.session_id, file.turn_id, file.path, file.mode, file.size, file.digest, file.left_out),
        ).rowcount
        if not added or file.digest is None:
            return
        if packed is not None:
            self._connection.execute(
                "INSERT OR IGNORE INTO file_contents (digest, packed_bytes, packed) VALUES (?, ?, ?)",
                (file.digest, len(packed), packed),
            )
        self._make_room(file, limit)

    def _make_room(self, file: FileSnapshot, limit: int) -> None:
        while self.sum_packed_bytes(file.session_id) > limit:
            oldest = self._connection.execute(
                "SELECT turn_id FROM file_history WHERE session_id = ? AND turn_id != ? AND digest IS NOT NULL"
                " ORDER BY id LIMIT 1",
                (file.session_id, file.turn_id),
            ).fetchone()
            if oldest is None:
                # The turn alone is too much: what it kept before is older, and worth more, than this one.
                self._leave_out(
                    "session_id = ? AND turn_id = ? AND path = ?", (file.session_id, file.turn_id, file.path)
                )
                return
            self._leave_out("session_id = ? AND turn_id = ?", (file.session_id, oldest[0]))

    def _leave_out(self, where: str, values: Sequence[str]) -> None:
        digests = self._list_digests(where, values)
        self._connection.execute(
            f"UPDATE file_history SET digest = NULL, left_out = 'no_room' WHERE {where} AND digest IS NOT NULL",  # noqa: S608
            values,
        )
        self._drop_unused(digests)

    def sum_packed_bytes(self, session_id: SessionId) -> int:
        """The packed size of all contents of a session, each counted once."""
        (total,) = self._connection.execute(
            "SELECT coalesce(sum(packed_bytes), 0) FROM file_contents"
            " WHERE digest IN (SELECT digest FROM file_history WHERE session_id = ? AND digest IS NOT NULL)",
            (session_id,),
        ).fetchone()
        return int(total)

    def list_by_sessions(self, session_ids: Iterable[SessionId]) -> list[FileSnapshot]:
        """All that was kept for these sessions, in the order in which it was kept."""
        found: list[tuple[Any, ...]] = []
        for session_id in session_ids:
            found += self._connection.execute(
                f"SELECT id, {_COLUMNS} FROM file_history WHERE session_id = ?",  # noqa: S608 - constant text
                (session_id,),
            )
        return [FileSnapshot(*row) for _, *row in sorted(found, key=lambda row: row[0])]

    def load_content(self, digest: str) -> bytes | None:
        """A content, still packed; None where it was deleted meanwhile."""
        row = self._connection.execute("SELECT packed FROM file_contents WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row else None

    def forget(self, session_id: SessionId) -> None:
        """Delete everything of a session, and contents that nothing else refers to."""
        digests = self._list_digests("session_id = ?", (session_id,))
        self._connection.execute("DELETE FROM file_history WHERE session_id = ?", (session_id,))
        self._drop_unused(digests)

    def _has_content(self, digest: str | None) -> bool:
        found = self._connection.execute("SELECT 1 FROM file_contents WHERE digest = ?", (digest,)).fetchone()
        return found is not None

    def _list_digests(self, where: str, values: Sequence[str]) -> list[str]:
        rows = self._connection.execute(
            f"SELECT DISTINCT digest FROM file_history WHERE {where} AND digest IS NOT NULL",  # noqa: S608 - constant text
            values,
        )
        return [digest for (digest,) in rows]

    def _drop_unused(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self._connection.execute(
                "DELETE FROM file_contents WHERE digest = ?1"
                " AND NOT EXISTS (SELECT 1 FROM file_history WHERE digest = ?1)",
                (digest,),
            )

"""File history: what files held before a turn changed them first.

A content is stored once, however often and by whomever it is kept, and goes when nothing names it any more.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.protocol.ids import SessionId, TurnId

LeftOut = Literal["too_large", "no_room"]

_LEVEL: Final = 1
"""Whoever changes a file waits for it: packed almost as well as by the higher levels, in a third of the time."""


@dataclass(frozen=True, slots=True)
class KeptFile:
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
    """Why the content is not kept: the file is too large, or it had to make room."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored already of a file that is about to be kept."""

    kept: bool
    """The turn has changed the file before."""
    content: bool
    """The content is there, for whatever it was kept."""


class ContentGone(Exception):
    """The content that a row was to name is not there any more: it has to be brought along."""


_COLUMNS: Final = "session_id, turn_id, path, mode, size, digest, left_out"


def pack(content: bytes) -> bytes:
    return zlib.compress(content, _LEVEL)


def known(connection: sqlite3.Connection, file: KeptFile) -> Known:
    row = connection.execute(
        "SELECT 1 FROM file_history WHERE session_id = ? AND turn_id = ? AND path = ?",
        (file.session_id, file.turn_id, file.path),
    ).fetchone()
    return Known(row is not None, _has_content(connection, file.digest))


def keep(connection: sqlite3.Connection, file: KeptFile, packed: bytes | None, limit: int) -> None:
    """Keep a file, unless its turn has done so before, and make room for it: the oldest turns go first.

    Without `packed` its content must be there already: ContentGone where it is not.
    """
    if packed is None and file.digest is not None and not _has_content(connection, file.digest):
        raise ContentGone
    added = connection.execute(
        f"INSERT OR IGNORE INTO file_history ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant text
        (file.session_id, file.turn_id, file.path, file.mode, file.size, file.digest, file.left_out),
    ).rowcount
    if not added or file.digest is None:
        return
    if packed is not None:
        connection.execute(
            "INSERT OR IGNORE INTO file_contents (digest, packed_bytes, packed) VALUES (?, ?, ?)",
            (file.digest, len(packed), packed),
        )
    _make_room(connection, file, limit)


def _make_room(connection: sqlite3.Connection, file: KeptFile, limit: int) -> None:
    while packed_bytes(connection, file.session_id) > limit:
        oldest = connection.execute(
            "SELECT turn_id FROM file_history WHERE session_id = ? AND turn_id != ? AND digest IS NOT NULL"
            " ORDER BY id LIMIT 1",
            (file.session_id, file.turn_id),
        ).fetchone()
        if oldest is None:
            # The turn alone is too much: what it kept before is older, and worth more, than this one.
            _leave_out(
                connection, "session_id = ? AND turn_id = ? AND path = ?", (file.session_id, file.turn_id, file.path)
            )
            return
        _leave_out(connection, "session_id = ? AND turn_id = ?", (file.session_id, oldest[0]))


def _leave_out(connection: sqlite3.Connection, where: str, values: Sequence[str]) -> None:
    digests = _digests(connection, where, values)
    connection.execute(
        f"UPDATE file_history SET digest = NULL, left_out = 'no_room' WHERE {where} AND digest IS NOT NULL",  # noqa: S608
        values,
    )
    _drop_unused(connection, digests)


def packed_bytes(connection: sqlite3.Connection, session_id: SessionId) -> int:
    """What the contents of a session take, each counted once."""
    (total,) = connection.execute(
        "SELECT coalesce(sum(packed_bytes), 0) FROM file_contents"
        " WHERE digest IN (SELECT digest FROM file_history WHERE session_id = ? AND digest IS NOT NULL)",
        (session_id,),
    ).fetchone()
    return int(total)


def of_sessions(connection: sqlite3.Connection, session_ids: Iterable[SessionId]) -> list[KeptFile]:
    """All that was kept for these, in the order in which it was."""
    found: list[tuple[Any, ...]] = []
    for session_id in session_ids:
        found += connection.execute(
            f"SELECT id, {_COLUMNS} FROM file_history WHERE session_id = ?",  # noqa: S608 - constant text
            (session_id,),
        )
    return [KeptFile(*row) for _, *row in sorted(found, key=lambda row: row[0])]


def content(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """A content, still packed; null where it was let go of meanwhile."""
    row = connection.execute("SELECT packed FROM file_contents WHERE digest = ?", (digest,)).fetchone()
    return row[0] if row else None


def unpack(packed: bytes) -> bytes:
    return zlib.decompress(packed)


def forget(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """Everything of a session; contents that nothing else names go too."""
    digests = _digests(connection, "session_id = ?", (session_id,))
    connection.execute("DELETE FROM file_history WHERE session_id = ?", (session_id,))
    _drop_unused(connection, digests)


def _has_content(connection: sqlite3.Connection, digest: str | None) -> bool:
    found = connection.execute("SELECT 1 FROM file_contents WHERE digest = ?", (digest,)).fetchone()
    return found is not None


def _digests(connection: sqlite3.Connection, where: str, values: Sequence[str]) -> list[str]:
    rows = connection.execute(
        f"SELECT DISTINCT digest FROM file_history WHERE {where} AND digest IS NOT NULL",  # noqa: S608 - constant text
        values,
    )
    return [digest for (digest,) in rows]


def _drop_unused(connection: sqlite3.Connection, digests: Iterable[str]) -> None:
    for digest in digests:
        connection.execute(
            "DELETE FROM file_contents WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM file_history WHERE digest = ?1)",
            (digest,),
        )

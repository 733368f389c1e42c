"""Persisted results: what a tool printed, in packed pieces, so that none has to be read or kept whole."""

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ostler.protocol import times
from ostler.protocol.ids import ResultId, SessionId

_PIECE_CHARS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ResultRecord:
    id: ResultId
    tool: str
    media_type: str
    total_chars: int
    total_bytes: int
    created_at: str


def put(
    connection: sqlite3.Connection,
    result_id: ResultId,
    session_id: SessionId,
    text: str,
    *,
    tool: str,
    media_type: str = "text/plain; charset=utf-8",
) -> ResultRecord:
    total_bytes = 0
    for first in range(0, len(text), _PIECE_CHARS):
        piece = text[first : first + _PIECE_CHARS]
        # A tool may print lone surrogates by way of replacement; what is stored must come out again.
        raw = piece.encode("utf-8", "replace")
        total_bytes += len(raw)
        connection.execute(
            "INSERT INTO result_pieces (result_id, first_char, chars, packed) VALUES (?, ?, ?, ?)",
            (result_id, first, len(piece), zlib.compress(raw, 1)),
        )
    record = ResultRecord(result_id, tool, media_type, len(text), total_bytes, times.now())
    connection.execute(
        "INSERT INTO results (id, tool, media_type, total_chars, total_bytes, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            record.id,
            record.tool,
            record.media_type,
            record.total_chars,
            record.total_bytes,
            record.created_at,
        ),
    )
    own(connection, session_id, result_id)
    return record


def find(connection: sqlite3.Connection, result_id: ResultId) -> ResultRecord | None:
    row = connection.execute(
        "SELECT id, tool, media_type, total_chars, total_bytes, created_at FROM results WHERE id = ?",
        (result_id,),
    ).fetchone()
    return ResultRecord(*row) if row else None


def piece_after(connection: sqlite3.Connection, result_id: ResultId, char: int) -> str | None:
    """The text from a character on, to the end of its piece; None past the end."""
    row = connection.execute(
        "SELECT first_char, packed FROM result_pieces WHERE result_id = ? AND first_char <= ?"
        " ORDER BY first_char DESC LIMIT 1",
        (result_id, char),
    ).fetchone()
    if row is None:
        return None
    text = zlib.decompress(row[1]).decode("utf-8")[char - row[0] :]
    return text or None


def read(connection: sqlite3.Connection, result_id: ResultId, offset: int, limit: int) -> str:
    """Up to `limit` characters from an offset."""
    return "".join(_parts(connection, result_id, offset, limit))


def _parts(connection: sqlite3.Connection, result_id: ResultId, offset: int, limit: int) -> Iterator[str]:
    while limit > 0 and (part := piece_after(connection, result_id, offset)) is not None:
        yield part[:limit]
        offset += len(part)
        limit -= len(part)


def own(connection: sqlite3.Connection, session_id: SessionId, result_id: ResultId) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO result_owners (session_id, result_id) VALUES (?, ?)", (session_id, result_id)
    )


def share(connection: sqlite3.Connection, source: SessionId, target: SessionId) -> None:
    """Let a fork own what its history may speak of."""
    connection.execute(
        "INSERT OR IGNORE INTO result_owners (session_id, result_id)"
        " SELECT ?, result_id FROM result_owners WHERE session_id = ?",
        (target, source),
    )


def disown(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """Take a session's results from it; those that nobody owns any more go."""
    owned = connection.execute("SELECT result_id FROM result_owners WHERE session_id = ?", (session_id,)).fetchall()
    connection.execute("DELETE FROM result_owners WHERE session_id = ?", (session_id,))
    for (result_id,) in owned:
        if connection.execute("SELECT 1 FROM result_owners WHERE result_id = ?", (result_id,)).fetchone() is None:
            connection.execute("DELETE FROM result_pieces WHERE result_id = ?", (result_id,))
            connection.execute("DELETE FROM results WHERE id = ?", (result_id,))

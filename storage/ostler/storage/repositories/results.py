"""Persisted results: the output of tools, in packed pieces, so that none has to be in memory as a whole."""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ostler.protocol import times
from ostler.protocol.ids import ResultId, SessionId

PIECE_CHARS: Final = 64 * 1024

DROPPED_AT_ONCE: Final = 64

PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ResultRecord:
    id: ResultId
    tool: str
    media_type: str
    total_chars: int
    total_bytes: int
    created_at: str
    file_name: str | None = None
    """Of a file: its pieces are bytes, and its characters are counted as such. Null: the text of a call."""


class Piece(NamedTuple):
    """A part of a text, ready to be stored."""

    first_char: int
    chars: int
    size: int
    """Bytes of the text."""
    packed: bytes


def pack_piece(piece: str, first_char: int) -> Piece:
    """A part of a text that begins with that character of it."""
    # A tool may print lone surrogates by way of replacement; what is stored must come out again.
    raw = piece.encode("utf-8", "replace")
    return Piece(first_char, len(piece), len(raw), zlib.compress(raw, 1))


def pack_bytes(piece: bytes, first: int) -> Piece:
    """A part of a file that begins with that byte of it."""
    return Piece(first, len(piece), len(piece), zlib.compress(piece, 1))


def pack_pieces(text: str, first: int = 0, end: int | None = None) -> Iterator[Piece]:
    """A text, or a part of it that begins where a piece does, in pieces: none takes long to make."""
    for start in range(first, len(text) if end is None else min(end, len(text)), PIECE_CHARS):
        yield pack_piece(text[start : start + PIECE_CHARS], start)


class Results:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put_pieces(self, result_id: ResultId, pieces: Iterable[Piece]) -> int:
        """Store pieces of a result that `add` registers later; returns how many bytes of text they hold."""
        total = 0
        for piece in pieces:
            total += piece.size
            self._connection.execute(
                "INSERT INTO result_pieces (result_id, first_char, chars, packed) VALUES (?, ?, ?, ?)",
                (result_id, piece.first_char, piece.chars, piece.packed),
            )
        return total

    def put(
        self,
        result_id: ResultId,
        session_id: SessionId,
        text: str,
        *,
        tool: str,
        media_type: str = PLAIN,
    ) -> ResultRecord:
        """Store a whole text at once, which delays the next write: pieces of a long one are better stored before."""
        total_bytes = self.put_pieces(result_id, pack_pieces(text))
        record = ResultRecord(result_id, tool, media_type, len(text), total_bytes, times.now())
        self.add(session_id, record)
        return record

    def add(self, session_id: SessionId, record: ResultRecord) -> None:
        """Register a result whose pieces are stored."""
        self._connection.execute(
            "INSERT INTO results (id, tool, media_type, total_chars, total_bytes, created_at, file_name)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                record.id,
                record.tool,
                record.media_type,
                record.total_chars,
                record.total_bytes,
                record.created_at,
                record.file_name,
            ),
        )
        self.own(session_id, record.id)

    def list_unfinished(self, before: ResultId) -> list[ResultId]:
        """Results with smaller ids that have pieces but were never registered: a crash came between."""
        rows = self._connection.execute(
            "SELECT DISTINCT result_id FROM result_pieces"
            " WHERE result_id < ? AND result_id NOT IN (SELECT id FROM results)",
            (before,),
        )
        return [row[0] for row in rows]

    def drop_pieces(self, result_id: ResultId) -> bool:
        """Drop a bounded number of pieces, so that nobody's write waits long; true where more are left."""
        dropped = self._connection.execute(
            "DELETE FROM result_pieces WHERE rowid IN (SELECT rowid FROM result_pieces WHERE result_id = ? LIMIT ?)",
            (result_id, DROPPED_AT_ONCE),
        )
        return dropped.rowcount == DROPPED_AT_ONCE

    def find(self, result_id: ResultId) -> ResultRecord | None:
        row = self._connection.execute(
            "SELECT id, tool, media_type, total_chars, total_bytes, created_at, file_name FROM results WHERE id = ?",
            (result_id,),
        ).fetchone()
        return ResultRecord(*row) if row else None

    def read_piece(self, result_id: ResultId, char: int) -> str | None:
        """The text from a character on, to the end of its piece; None past the end."""
        row = self._find_piece(result_id, char)
        text = zlib.decompress(row[1]).decode("utf-8")[char - row[0] :] if row is not None else ""
        return text or None

    def read_bytes(self, result_id: ResultId, offset: int) -> bytes | None:
        """The same of a file, from a byte on."""
        row = self._find_piece(result_id, offset)
        content = zlib.decompress(row[1])[offset - row[0] :] if row is not None else b""
        return content or None

    def _find_piece(self, result_id: ResultId, place: int) -> tuple[int, bytes] | None:
        row: tuple[int, bytes] | None = self._connection.execute(
            "SELECT first_char, packed FROM result_pieces WHERE result_id = ? AND first_char <= ?"
            " ORDER BY first_char DESC LIMIT 1",
            (result_id, place),
        ).fetchone()
        return row

    def read(self, result_id: ResultId, offset: int, limit: int) -> str:
        """Up to `limit` characters from an offset."""
        return "".join(self._read_parts(result_id, offset, limit))

    def _read_parts(self, result_id: ResultId, offset: int, limit: int) -> Iterator[str]:
        while limit > 0 and (part := self.read_piece(result_id, offset)) is not None:
            yield part[:limit]
            offset += len(part)
            limit -= len(part)

    def own(self, session_id: SessionId, result_id: ResultId) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO result_owners (session_id, result_id) VALUES (?, ?)", (session_id, result_id)
        )

    def owns(self, session_id: SessionId, result_id: ResultId) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM result_owners WHERE session_id = ? AND result_id = ?", (session_id, result_id)
        ).fetchone()
        return row is not None

    def share(self, source: SessionId, target: SessionId) -> None:
        """Let a fork own the results that its history may refer to."""
        self._connection.execute(
            "INSERT OR IGNORE INTO result_owners (session_id, result_id)"
            " SELECT ?, result_id FROM result_owners WHERE session_id = ?",
            (target, source),
        )

    def disown(self, session_id: SessionId) -> list[ResultId]:
        """Remove a session as owner of its results; results without an owner are deleted.

        Returns the large ones, of which pieces are left that nobody can reach: `drop_pieces` is for them.
        """
        left: list[ResultId] = []
        owned = self._connection.execute(
            "SELECT result_id FROM result_owners WHERE session_id = ?", (session_id,)
        ).fetchall()
        self._connection.execute("DELETE FROM result_owners WHERE session_id = ?", (session_id,))
        for (result_id,) in owned:
            owner = self._connection.execute("SELECT 1 FROM result_owners WHERE result_id = ?", (result_id,)).fetchone()
            if owner is None:
                self._connection.execute("DELETE FROM results WHERE id = ?", (result_id,))
                if self.drop_pieces(result_id):
                    left.append(result_id)
        return left

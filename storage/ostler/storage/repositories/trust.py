"""Folders that a person trusted, each bound to a digest of what was trusted."""

import sqlite3
from dataclasses import dataclass

from ostler.protocol.ids import ClientId


@dataclass(frozen=True, slots=True)
class TrustRecord:
    folder: str
    digest: str
    granted_at: str
    granted_by: ClientId | None


class Trust:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def grant(self, record: TrustRecord) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO trusted_folders (folder, digest, granted_at, granted_by) VALUES (?, ?, ?, ?)",
            (record.folder, record.digest, record.granted_at, record.granted_by),
        )

    def find(self, folder: str) -> TrustRecord | None:
        row = self._connection.execute(
            "SELECT folder, digest, granted_at, granted_by FROM trusted_folders WHERE folder = ?", (folder,)
        ).fetchone()
        return TrustRecord(*row) if row else None

    def revoke(self, folder: str) -> bool:
        return self._connection.execute("DELETE FROM trusted_folders WHERE folder = ?", (folder,)).rowcount == 1

    def list_all(self) -> list[TrustRecord]:
        rows = self._connection.execute(
            "SELECT folder, digest, granted_at, granted_by FROM trusted_folders ORDER BY folder"
        )
        return [TrustRecord(*row) for row in rows]

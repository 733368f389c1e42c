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


def grant(connection: sqlite3.Connection, record: TrustRecord) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO trusted_folders (folder, digest, granted_at, granted_by) VALUES (?, ?, ?, ?)",
        (record.folder, record.digest, record.granted_at, record.granted_by),
    )


def find(connection: sqlite3.Connection, folder: str) -> TrustRecord | None:
    row = connection.execute(
        "SELECT folder, digest, granted_at, granted_by FROM trusted_folders WHERE folder = ?", (folder,)
    ).fetchone()
    return TrustRecord(*row) if row else None


def revoke(connection: sqlite3.Connection, folder: str) -> bool:
    return connection.execute("DELETE FROM trusted_folders WHERE folder = ?", (folder,)).rowcount == 1


def list_all(connection: sqlite3.Connection) -> list[TrustRecord]:
    rows = connection.execute("SELECT folder, digest, granted_at, granted_by FROM trusted_folders ORDER BY folder")
    return [TrustRecord(*row) for row in rows]

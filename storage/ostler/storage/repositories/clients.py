"""Clients that have called `initialize`; their ids outlive the daemon, so that a restart detaches nobody."""

import sqlite3
from dataclasses import dataclass
from typing import Any

import orjson

from ostler.protocol.client import ClientKind
from ostler.protocol.ids import ClientId


@dataclass(frozen=True, slots=True)
class ClientRecord:
    id: ClientId
    name: str
    version: str
    kind: ClientKind
    capabilities: dict[str, Any]
    first_seen: str


class Clients:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, client: ClientRecord) -> None:
        self._connection.execute(
            "INSERT INTO clients (id, name, version, kind, capabilities_json, first_seen, last_seen)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                client.id,
                client.name,
                client.version,
                client.kind,
                orjson.dumps(client.capabilities).decode(),
                client.first_seen,
                client.first_seen,
            ),
        )

    def find(self, client_id: ClientId) -> ClientRecord | None:
        row = self._connection.execute(
            "SELECT id, name, version, kind, capabilities_json, first_seen FROM clients WHERE id = ?",
            (client_id,),
        ).fetchone()
        if row is None:
            return None
        found, name, version, kind, capabilities, first_seen = row
        return ClientRecord(found, name, version, kind, orjson.loads(capabilities), first_seen)

    def mark_seen(self, client_id: ClientId, when: str) -> None:
        self._connection.execute("UPDATE clients SET last_seen = ? WHERE id = ?", (when, client_id))

    def forget(self, before: str) -> int:
        return self._connection.execute("DELETE FROM clients WHERE last_seen < ?", (before,)).rowcount

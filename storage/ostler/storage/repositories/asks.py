"""Asks: stored questions to the people. The first answer that reaches the database settles an ask."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from ostler.protocol.ids import AskId, CallId, Cursor, SessionId
from ostler.protocol.shapes import Ask, AskStatus
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import load_packed, pack, unpack
from ostler.storage.stamp import Stamp, is_place


class Page(NamedTuple):
    asks: list[Ask]
    last: Cursor | None
    """The place of the last one, after which the next page comes; None where there is none."""


class Asks:
    __slots__ = ("_connection", "unstamped")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.unstamped: list[AskId] = []

    def open_ask(self, ask: Ask, cursor: Cursor) -> None:
        """Store an open ask; the cursor is its place in every list."""
        if is_place(cursor):
            self.unstamped.append(ask.id)
        self._connection.execute(
            "INSERT INTO asks (id, session_id, root_id, status, ask_json, call_id, cursor)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                ask.id,
                ask.session_id,
                ask.root_id,
                ask.status,
                pack(long_json.encode(ask)),
                ask.call.call_id if ask.call else None,
                cursor,
            ),
        )

    def stamp(self, stamp: Stamp) -> None:
        for ask_id in self.unstamped:
            self._connection.execute("UPDATE asks SET cursor = cursor - ? WHERE id = ?", (stamp.shift, ask_id))

    def settle(self, ask: Ask) -> bool:
        """Store the outcome of an open ask; false where it was settled before, and nothing changes."""
        changed = self._connection.execute(
            "UPDATE asks SET status = ?, ask_json = ? WHERE id = ? AND status = 'open'",
            (ask.status, pack(long_json.encode(ask)), ask.id),
        )
        return changed.rowcount == 1

    def correct(self, ask: Ask) -> None:
        """Replace the stored outcome of a settled ask, because it could not be carried out."""
        self._connection.execute("UPDATE asks SET ask_json = ? WHERE id = ?", (pack(long_json.encode(ask)), ask.id))

    def load_encoded(self, ask_id: str) -> bytes | None:
        row = self._connection.execute("SELECT ask_json FROM asks WHERE id = ?", (ask_id,)).fetchone()
        return unpack(row[0]) if row else None

    def load_many(self, ask_ids: Sequence[str]) -> dict[str, bytes]:
        return load_packed(self._connection, "SELECT id, ask_json FROM asks WHERE id IN", ask_ids)

    def find(self, ask_id: AskId) -> Ask | None:
        ask = self.load_encoded(ask_id)
        return Ask.model_validate_json(ask) if ask else None

    def list_open(self, root_id: SessionId) -> list[Ask]:
        """The open asks of a session tree, oldest first."""
        rows = self._connection.execute(
            "SELECT ask_json FROM asks WHERE root_id = ? AND status = 'open' ORDER BY cursor", (root_id,)
        )
        return [Ask.model_validate_json(unpack(row[0])) for row in rows]

    def list_open_by_tree(self, roots: Collection[SessionId]) -> dict[SessionId, list[Ask]]:
        """The open asks of some session trees, oldest first; trees without one are left out."""
        placeholders = ", ".join("?" * len(roots))
        rows = self._connection.execute(
            f"SELECT root_id, ask_json FROM asks WHERE root_id IN ({placeholders}) AND status = 'open' ORDER BY cursor",  # noqa: S608
            (*roots,),
        )
        trees: dict[SessionId, list[Ask]] = {}
        for root_id, ask in rows:
            trees.setdefault(root_id, []).append(Ask.model_validate_json(unpack(ask)))
        return trees

    def find_by_call(self, call_id: CallId) -> Ask | None:
        """The newest ask about a call."""
        row = self._connection.execute(
            "SELECT ask_json FROM asks WHERE call_id = ? ORDER BY cursor DESC LIMIT 1", (call_id,)
        ).fetchone()
        return Ask.model_validate_json(unpack(row[0])) if row else None

    def find_open_without_call(self, session_id: SessionId) -> Ask | None:
        """The open ask of a session that is about no call: whether its folder is trusted."""
        row = self._connection.execute(
            "SELECT ask_json FROM asks WHERE session_id = ? AND status = 'open' AND call_id IS NULL"
            " ORDER BY cursor LIMIT 1",
            (session_id,),
        ).fetchone()
        return Ask.model_validate_json(unpack(row[0])) if row else None

    def list_page(
        self,
        root_id: SessionId | None,
        members: Collection[SessionId] | None,
        status: AskStatus | None,
        after: Cursor | None,
        limit: int,
    ) -> Page:
        """Asks after one in the order of their opening, of everything or of one tree, or of some members of it."""
        conditions: list[str] = []
        values: list[Any] = []
        if after is not None:
            conditions.append("cursor > ?")
            values.append(after)
        if root_id is not None:
            conditions.append("root_id = ?")
            values.append(root_id)
        if members is not None:
            conditions.append(f"session_id IN ({', '.join('?' * len(members))})")
            values += members
        if status is not None:
            # Written out where it is `open`: the index for those is found only by a constant.
            conditions.append("status = 'open'" if status == "open" else "status = ?")
            values += [] if status == "open" else [status]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self._connection.execute(
            f"SELECT ask_json, cursor FROM asks{where} ORDER BY cursor LIMIT ?",  # noqa: S608 - constant text
            (*values, limit + 1),
        ).fetchall()
        found = [Ask.model_validate_json(unpack(row[0])) for row in rows[:limit]]
        return Page(found, Cursor(rows[limit - 1][1]) if len(rows) > limit else None)

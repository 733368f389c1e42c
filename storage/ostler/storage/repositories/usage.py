"""Usage: one row per model request, summed when asked for."""

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from ostler.protocol import times
from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.shapes import Usage


class UsageRow(NamedTuple):
    """One model request."""

    session_id: SessionId
    model: str
    used: Usage


class UsageRows:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, session_id: SessionId, turn_id: TurnId | None, model: str, used: Usage) -> None:
        self._connection.execute(
            "INSERT INTO usage (session_id, turn_id, model, input_tokens, output_tokens, cache_read_tokens,"
            " cache_write_tokens, cost_usd, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session_id,
                turn_id,
                model,
                used.input_tokens,
                used.output_tokens,
                used.cache_read_tokens,
                used.cache_write_tokens,
                used.cost_usd,
                times.now(),
            ),
        )

    def hand_up(self, session_ids: Sequence[SessionId], parent_id: SessionId) -> None:
        """Let the rows of agents that are about to be deleted stand under the session that they worked for."""
        for session_id in session_ids:
            self._connection.execute(
                "UPDATE usage SET session_id = ?, turn_id = NULL WHERE session_id = ?", (parent_id, session_id)
            )

    def list_family(self, session_id: SessionId, since: str = "") -> list[UsageRow]:
        """What a session and its agents have used since a time, request by request."""
        rows = self._connection.execute(
            """
            WITH RECURSIVE family(member) AS (
                SELECT ? UNION ALL SELECT child.id FROM sessions AS child JOIN family ON child.parent_id = member
            )
            SELECT session_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
            FROM family JOIN usage ON usage.session_id = member WHERE created_at >= ?
            """,
            (session_id, since),
        )
        return [UsageRow(row[0], row[1], _sum([row[2:]])) for row in rows]

    def sum_session(self, session_id: SessionId) -> Usage:
        return self.sum_sessions([session_id])[session_id]

    def sum_sessions(self, session_ids: Sequence[SessionId]) -> dict[SessionId, Usage]:
        """The sum of each session with its agents; zeros where nothing was used, no cost where a price is unknown."""
        placeholders = ", ".join("?" * len(session_ids))
        rows = self._connection.execute(
            f"SELECT DISTINCT session_id FROM usage WHERE session_id IN ({placeholders})"  # noqa: S608 - placeholders
            f" UNION SELECT parent_id FROM sessions WHERE parent_id IN ({placeholders})",
            (*session_ids, *session_ids),
        )
        used = {row[0] for row in rows}  # most sessions of a long list have not used anything
        return {one: self._sum_rows(one) if one in used else Usage() for one in session_ids}

    def _sum_rows(self, session_id: SessionId) -> Usage:
        rows = self._connection.execute(
            """
            WITH RECURSIVE family(member) AS (
                SELECT ? UNION ALL SELECT child.id FROM sessions AS child JOIN family ON child.parent_id = member
            )
            SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
            FROM family JOIN usage ON usage.session_id = member
            """,
            (session_id,),
        ).fetchall()
        return _sum(rows)


def _sum(rows: Sequence[Sequence[Any]]) -> Usage:
    if not rows:
        return Usage()
    # Added here and not by SQLite: a sum of text would go through binary floats.
    costs = [row[4] for row in rows]
    return Usage(
        input_tokens=sum(row[0] for row in rows),
        output_tokens=sum(row[1] for row in rows),
        cache_read_tokens=sum(row[2] for row in rows),
        cache_write_tokens=sum(row[3] for row in rows),
        cost_usd=None if None in costs else f"{sum(map(Decimal, costs)):f}",
    )

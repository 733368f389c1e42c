"""Turns: one row each, with the whole turn as JSON beside the columns that are searched."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import Cursor, MessageId, SessionId, TaskId, TurnId
from ostler.protocol.shapes import Turn
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import load_packed, pack, unpack
from ostler.storage.stamp import Stamp, is_place


class HeldInput(NamedTuple):
    """The input of a turn that is held back from the model, because hooks or the trust ask are not through yet."""

    message_id: MessageId
    ends: list[TaskId]
    """The tasks whose end it reports."""


_BEFORE_ALL: Final = -(1 << 62)


class Turns:
    __slots__ = ("_connection", "unstamped")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.unstamped: dict[TurnId, tuple[Cursor, Turn]] = {}
        """The place of each row, and the turn as it was written last."""

    def put(self, turn: Turn, turn_input: Any) -> None:
        """Insert a turn; its cursor as it is now is its place in every list."""
        if is_place(turn.cursor):
            self.unstamped[turn.id] = turn.cursor, turn
        self._connection.execute(
            "INSERT INTO turns (id, session_id, status, turn_json, input_json, cursor) VALUES (?, ?, ?, ?, ?, ?)",
            (
                turn.id,
                turn.session_id,
                turn.status,
                pack(long_json.encode(turn)),
                pack(long_json.encode_plain(turn_input)),
                turn.cursor,
            ),
        )

    def update(self, turn: Turn) -> None:
        if turn.id in self.unstamped:
            self.unstamped[turn.id] = self.unstamped[turn.id][0], turn
        self._connection.execute(
            "UPDATE turns SET status = ?, turn_json = ? WHERE id = ?",
            (turn.status, pack(long_json.encode(turn)), turn.id),
        )

    def stamp(self, stamp: Stamp) -> None:
        for place, turn in self.unstamped.values():
            self._connection.execute(
                "UPDATE turns SET turn_json = ?, cursor = ? WHERE id = ?",
                (pack(long_json.encode(stamp.apply(turn))), stamp.convert(place), turn.id),
            )

    def hold_input(self, turn_id: TurnId, message_id: MessageId, ends: Sequence[TaskId]) -> None:
        """Hold the input of a turn back from the model, until hooks have run or the trust ask is answered."""
        unheard = orjson.dumps({"message_id": message_id, "ends": list(ends)})
        self._connection.execute("UPDATE turns SET unheard_json = ? WHERE id = ?", (unheard.decode(), turn_id))

    def release_input(self, turn_id: TurnId) -> None:
        """The input may go to the model: it is not held back any more."""
        self._connection.execute("UPDATE turns SET unheard_json = NULL WHERE id = ?", (turn_id,))

    def find_held_input(self, turn_id: TurnId) -> HeldInput | None:
        row = self._connection.execute("SELECT unheard_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
        return HeldInput(**orjson.loads(row[0])) if row and row[0] is not None else None

    def load_encoded(self, turn_id: str) -> bytes | None:
        row = self._connection.execute("SELECT turn_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
        return unpack(row[0]) if row else None

    def load_many(self, turn_ids: Sequence[str]) -> dict[str, bytes]:
        return load_packed(self._connection, "SELECT id, turn_json FROM turns WHERE id IN", turn_ids)

    def find(self, turn_id: TurnId) -> Turn | None:
        turn = self.load_encoded(turn_id)
        return Turn.model_validate_json(turn) if turn else None

    def load_input(self, turn_id: TurnId) -> Any:
        row = self._connection.execute("SELECT input_json FROM turns WHERE id = ?", (turn_id,)).fetchone()
        return orjson.loads(unpack(row[0])) if row else None

    def find_current(self, session_id: SessionId) -> Turn | None:
        """The turn that runs or waits; a queued one is not current yet."""
        row = self._connection.execute(
            "SELECT turn_json FROM turns WHERE session_id = ? AND status != 'ended' AND status != 'queued'",
            (session_id,),
        ).fetchone()
        return Turn.model_validate_json(unpack(row[0])) if row else None

    def find_current_by_session(self, session_ids: Sequence[SessionId]) -> dict[SessionId, Turn]:
        """The turn that runs or waits in each of some sessions; sessions at rest are left out."""
        placeholders = ", ".join("?" * len(session_ids))
        rows = self._connection.execute(
            f"SELECT session_id, turn_json FROM turns WHERE session_id IN ({placeholders})"  # noqa: S608 - placeholders
            " AND status != 'ended' AND status != 'queued'",
            (*session_ids,),
        )
        return {row[0]: Turn.model_validate_json(unpack(row[1])) for row in rows}

    def list_queued(self, session_id: SessionId) -> list[Turn]:
        """The turns that wait for the one before them, in order."""
        rows = self._connection.execute(
            "SELECT turn_json FROM turns WHERE session_id = ? AND status != 'ended' AND status = 'queued'"
            " ORDER BY cursor",
            (session_id,),
        )
        return [Turn.model_validate_json(unpack(row[0])) for row in rows]

    def list_page(self, session_id: SessionId, after: TurnId | None, limit: int) -> list[Turn]:
        """The turns after one, in order."""
        rows = self._connection.execute(
            "SELECT turn_json FROM turns WHERE session_id = ?"
            " AND cursor > coalesce((SELECT cursor FROM turns WHERE id = ?), ?) ORDER BY cursor LIMIT ?",
            (session_id, after, _BEFORE_ALL, limit),
        )
        return [Turn.model_validate_json(unpack(row[0])) for row in rows]

    def list_by_session(self, session_id: SessionId) -> list[Turn]:
        rows = self._connection.execute(
            "SELECT turn_json FROM turns WHERE session_id = ? ORDER BY cursor", (session_id,)
        )
        return [Turn.model_validate_json(unpack(row[0])) for row in rows]

    def list_unfinished_sessions(self) -> list[SessionId]:
        """The sessions that recovery has to look at."""
        rows = self._connection.execute(
            "SELECT session_id FROM turns WHERE status != 'ended' UNION SELECT session_id FROM steers"
        )
        return [row[0] for row in rows]

    def find_last_reason(self, session_id: SessionId) -> str | None:
        """How the session's last turn ended."""
        row = self._connection.execute(
            "SELECT turn_json FROM turns WHERE session_id = ? AND status = 'ended' ORDER BY cursor DESC LIMIT 1",
            (session_id,),
        ).fetchone()
        return Turn.model_validate_json(unpack(row[0])).reason if row else None

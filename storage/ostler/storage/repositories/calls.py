"""Calls: each tool_use and its result."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import CallId, MessageId, SessionId
from ostler.protocol.shapes import Call
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.packing import load_packed, pack, unpack

_CHANGING_FIELDS: Final = ("input", "summary", "activity")


class CallSize(NamedTuple):
    """How much a call has brought into the conversation."""

    tool: str
    input_bytes: int
    result_chars: int
    pictures: int


class Calls:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, call: Call) -> bytes:
        """Insert a call, or replace the state it has; returns its JSON, for a caller that publishes it at once."""
        encoded = long_json.encode(call)
        self._connection.execute(
            "INSERT INTO calls (id, session_id, turn_id, status, call_json) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET status = excluded.status, call_json = excluded.call_json",
            (call.call_id, call.session_id, call.turn_id, call.status, pack(encoded)),
        )
        return encoded

    def keep_as_queued(self, call: Call) -> None:
        """Keep the fields of a call before they change: `tool.queued` is replayed as the call was then."""
        was = {name: getattr(call, name) for name in _CHANGING_FIELDS}
        self._connection.execute(
            "UPDATE calls SET queued_json = ? WHERE id = ? AND queued_json IS NULL",
            (pack(long_json.encode_plain(was)), call.call_id),
        )

    def load_queued_fields(self, call_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The fields of calls that had other values when they were queued."""
        rows = self._connection.execute(
            "SELECT id, queued_json FROM calls WHERE queued_json IS NOT NULL"
            " AND id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(call_ids).decode(),),
        )
        return {row[0]: orjson.loads(unpack(row[1])) for row in rows}

    def mark_unusable(self, call_id: CallId, why: str) -> None:
        """Mark a call whose input could not be parsed: it must never run, also not after a restart."""
        self._connection.execute(
            "UPDATE calls SET unusable_json = ? WHERE id = ?", (pack(long_json.encode_plain(why)), call_id)
        )

    def find_unusable_reason(self, call_id: CallId) -> str | None:
        """Why a call cannot run, or None."""
        row = self._connection.execute("SELECT unusable_json FROM calls WHERE id = ?", (call_id,)).fetchone()
        return str(orjson.loads(unpack(row[0]))) if row and row[0] is not None else None

    def load_encoded(self, call_id: str) -> bytes | None:
        row = self._connection.execute("SELECT call_json FROM calls WHERE id = ?", (call_id,)).fetchone()
        return unpack(row[0]) if row else None

    def load_many(self, call_ids: Sequence[str]) -> dict[str, bytes]:
        return load_packed(self._connection, "SELECT id, call_json FROM calls WHERE id IN", call_ids)

    def put_messages(self, call_id: CallId, given: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Keep the further user messages that a call gave: they follow when all results of its message are there."""
        encoded = pack(long_json.encode_plain(given))
        self._connection.execute("UPDATE calls SET messages_json = ? WHERE id = ?", (encoded, call_id))

    def load_messages(self, call_id: CallId) -> list[list[dict[str, Any]]]:
        """The further user messages that a call gave, each as its blocks."""
        row = self._connection.execute("SELECT messages_json FROM calls WHERE id = ?", (call_id,)).fetchone()
        return list(orjson.loads(unpack(row[0]))) if row and row[0] is not None else []

    def find(self, call_id: CallId) -> Call | None:
        call = self.load_encoded(call_id)
        return Call.model_validate_json(call) if call else None

    def measure_completed(self, session_ids: Sequence[SessionId], since: str = "") -> Iterator[CallSize]:
        """The sizes of the calls that sessions have made since a time."""
        for session_id in session_ids:
            rows = self._connection.execute(
                "SELECT call_json FROM calls WHERE session_id = ? AND status = 'completed'", (session_id,)
            )
            for (stored,) in rows:
                call = orjson.loads(unpack(stored))
                if (call.get("started_at") or "") >= since:
                    content = call.get("content") or ()
                    texts = sum(len(block.get("text", "")) for block in content)
                    pictures = sum(block["type"] == "image" for block in content)
                    yield CallSize(call["tool"], len(orjson.dumps(call["input"])), texts, pictures)

    def list_unfinished(self, session_id: SessionId) -> list[Call]:
        """In the order in which they were stored first."""
        rows = self._connection.execute(
            "SELECT call_json FROM calls WHERE session_id = ? AND status != 'completed' ORDER BY rowid",
            (session_id,),
        )
        return [Call.model_validate_json(unpack(row[0])) for row in rows]

    def list_by_message(self, message_id: MessageId) -> list[Call]:
        """The calls of one message, in the order of its blocks."""
        # Every id that begins with `MESSAGE_ID#`: `$` is the character after `#`.
        rows = self._connection.execute(
            "SELECT call_json FROM calls WHERE id > ? AND id < ?", (f"{message_id}#", f"{message_id}$")
        )
        found = [Call.model_validate_json(unpack(row[0])) for row in rows]
        return sorted(found, key=lambda call: int(call.call_id.rpartition("#")[2]))

    def load_contents(self, call_ids: Sequence[str]) -> dict[str, Any]:
        """What the model was given as the results of calls."""
        return {call_id: orjson.loads(call)["content"] for call_id, call in self.load_many(call_ids).items()}

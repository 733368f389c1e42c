"""Writes sessions with long histories into a database: messages and calls as turns would have left them."""

from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol import times
from ostler.protocol.ids import TurnId, call_id, new_message_id, new_turn_id
from ostler.protocol.shapes import Call, Message, Turn
from ostler.storage import Scope, Tx
from ostler.storage.repositories.sessions import SessionRecord

MODEL = "claude-sonnet-4-5"
RESULT_TEXT = "The quick brown mare walks past the stable door and back again, line by line.\n" * 8
"""So long that a thousand of them nearly fill the context window of a model."""


@dataclass(frozen=True, slots=True)
class History:
    """Writes one session's history."""

    tx: Tx
    record: SessionRecord
    turn_id: TurnId

    def add(self, role: str, content: list[dict[str, Any]], results: dict[str, Any] | None = None) -> Message:
        message = Message.model_validate(
            {
                "id": new_message_id(),
                "session_id": self.record.id,
                "turn_id": self.turn_id,
                "role": role,
                "content": content,
                "created_at": times.now(),
            }
        )
        self.tx.messages.add(message, results)
        scope = Scope(self.record.id, self.record.root_id, self.turn_id)
        self.tx.append("message.completed", scope, reference=message.id)
        return message

    def add_read(self, number: int) -> None:
        """Add a call and its result: two messages."""
        content = [{"type": "text", "text": RESULT_TEXT}]
        call = self.add_call(number, status="completed", content=content)
        result = {"type": "tool_result", "tool_use_id": call.tool_use_id, "content": content}
        self.add("user", [result], {call.tool_use_id: call.call_id})

    def add_call(self, number: int, **fields: Any) -> Call:
        name, tool_input = f"toolu_{number:08d}", {"file_path": f"/stable/{number}"}
        message = self.add("assistant", [{"type": "tool_use", "id": name, "name": "Read", "input": tool_input}])
        scope = {"session_id": self.record.id, "turn_id": self.turn_id}
        identity = {"call_id": call_id(message.id, 0), "tool_use_id": name, "tool": "Read", "input": tool_input}
        call = Call.model_validate({**scope, **identity, **fields})
        self.tx.calls.put(call)
        return call


def write_history(tx: Tx, record: SessionRecord, first_input: str, count: int) -> None:
    """Write an idle session with `count` messages."""
    history = _begin_history(tx, record, first_input, status="ended", reason="completed", ended_at=times.now())
    for number in range((count - 2) // 2):
        history.add_read(number)
    history.add("assistant", [{"type": "text", "text": "Done."}])


def write_unfinished(tx: Tx, record: SessionRecord) -> None:
    """Write a session whose turn was cut while a call ran."""
    history = _begin_history(tx, replace(record, status="running"), "go on", status="running")
    history.add_read(0)
    history.add_call(1, status="running", started_at=times.now())


def _begin_history(tx: Tx, record: SessionRecord, first_input: str, **fields: Any) -> History:
    """Write a session with a turn that has only its input."""
    record = replace(record, model=MODEL, provider="anthropic", options={"rules": {"allow": ["Bash(true)"]}})
    tx.sessions.put(record)
    identity = {"id": new_turn_id(), "session_id": record.id, "started_at": times.now(), "cursor": tx.next_cursor}
    turn = Turn.model_validate({**identity, **fields})
    settings = {"model": MODEL, "max_requests": 500}
    tx.turns.put(turn, {**settings, "input": [{"type": "text", "text": first_input}], "mode": None})
    history = History(tx, record, turn.id)
    history.add("user", [{"type": "text", "text": first_input}])
    return history

"""Builders of the records and wire shapes that the tests store."""

from typing import Any

from ostler.protocol.ids import (
    SessionId,
    new_ask_id,
    new_message_id,
    new_turn_id,
)
from ostler.protocol.shapes import Ask, Call, Message, Task, Turn
from ostler.storage import Store
from ostler.storage.repositories import sessions

NOW = "2026-01-01T00:00:00.000Z"


async def write(store: Store, work: Any) -> Any:
    return await store.writer.submit(work, lambda appended: None)


def build_session_record(session_id: SessionId, **more: Any) -> sessions.SessionRecord:
    given: dict[str, Any] = {
        "root_id": session_id,
        "cwd": "/",
        "model": "rehearsal",
        "provider": "rehearsal",
        "mode": "default",
        "on_ask": "ask",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return sessions.SessionRecord(session_id, **{**given, **more})


def build_turn(session_id: str, status: str = "running") -> Turn:
    return Turn.model_validate({"id": new_turn_id(), "session_id": session_id, "status": status, "cursor": 1})


def build_message(session_id: str, text: str) -> Message:
    content = [{"type": "text", "text": text}]
    return Message.model_validate(
        {"id": new_message_id(), "session_id": session_id, "role": "user", "content": content, "created_at": NOW}
    )


def build_call(session_id: str, status: str = "queued", call_id: str = "m_1#0") -> Call:
    return Call.model_validate(
        {
            "call_id": call_id,
            "tool_use_id": "t",
            "session_id": session_id,
            "tool": "Bash",
            "input": {},
            "status": status,
        }
    )


def build_ask(session_id: str, root_id: str | None = None) -> Ask:
    return Ask.model_validate(
        {
            "id": new_ask_id(),
            "session_id": session_id,
            "root_id": root_id or session_id,
            "kind": "permission",
            "status": "open",
            "choices": ["allow", "deny"],
            "opened_at": NOW,
        }
    )


def build_task(session_id: str, task_id: str, status: str = "running") -> Task:
    return Task.model_validate(
        {"id": task_id, "type": "local_bash", "status": status, "session_id": session_id, "started_at": NOW}
    )

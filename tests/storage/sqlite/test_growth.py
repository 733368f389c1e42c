"""A day of heavy use does not grow the file by more than what people said and tools printed."""

import random
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.events import MessageData, SessionData, TurnData
from ostler.protocol.ids import CallId, MessageId, SessionId, call_id, new_message_id, new_session_id, new_turn_id
from ostler.protocol.session import Session
from ostler.protocol.shapes import Call, Message, Turn
from ostler.storage import Scope, Tx, open_store
from tests.storage.records import NOW, build_session_record
from tests.support.repository import ROOT

pytestmark = pytest.mark.anyio

TURNS = 60
CALLS = 10
SOURCE = "\n".join(path.read_text() for path in sorted(ROOT.glob("s*/ostler/**/*.py")))


class WorkloadWriter:
    """Writes turns as the engine does, and counts the characters of what was said and printed in them."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.text_chars = 0

    def draw_text(self, at_least: int, at_most: int) -> str:
        """A passage of real text: what tools print is mostly source code and the like."""
        length = self.random.randint(at_least, at_most)
        start = self.random.randrange(len(SOURCE) - length)
        self.text_chars += length
        return SOURCE[start : start + length]

    def write_turn(self, tx: Tx, session_id: SessionId) -> None:
        scope = Scope(session_id, session_id, new_turn_id())
        turn = Turn.model_validate({"id": scope.turn_id, "session_id": session_id, "status": "running", "cursor": 1})
        prompt = self.draw_text(50, 400)
        tx.turns.put(turn, prompt)
        tx.append("turn.started", scope, data=TurnData(turn=turn))
        self.write_message(tx, scope, "user", [{"type": "text", "text": prompt}])
        for _ in range(CALLS):
            self.write_round_trip(tx, scope)
        answer = self.draw_text(200, 1500)
        self.write_message(tx, scope, "assistant", [{"type": "text", "text": answer}])
        ended = turn.model_copy(update={"status": "ended", "reason": "completed", "result_text": answer})
        tx.turns.update(ended)
        tx.append("turn.ended", scope, reference=turn.id)
        self.append_session_updates(tx, session_id)

    def write_round_trip(self, tx: Tx, scope: Scope) -> None:
        """Writes a message with one call, the call's three states, and the message with its result."""
        path = self.draw_text(20, 80)
        use = {"type": "tool_use", "id": "toolu_01", "name": "Read", "input": {"file_path": path}}
        message_id = self.write_message(
            tx, scope, "assistant", [{"type": "text", "text": self.draw_text(20, 200)}, use]
        )
        # Half of an agent's calls read a file, a fifth search, the rest run something.
        printed = self.draw_text(*self.random.choices([(2000, 16000), (200, 4000), (100, 8000)], [5, 2, 3])[0])
        call = Call.model_validate(
            {
                "call_id": call_id(message_id, 1),
                "tool_use_id": "toolu_01",
                "session_id": scope.session_id,
                "turn_id": scope.turn_id,
                "tool": "Read",
                "input": {"file_path": path},
                "status": "queued",
            }
        )
        for status, kind in (("queued", "tool.queued"), ("running", "tool.started"), ("completed", "tool.completed")):
            done = {"output": {"content": printed}, "content": [{"type": "text", "text": printed}]}
            tx.calls.put(call.model_copy(update={"status": status, **(done if status == "completed" else {})}))
            tx.append(kind, scope, reference=call.call_id)
        result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": printed}]}
        self.write_message(tx, scope, "user", [result], {"toolu_01": call.call_id})

    def write_message(
        self,
        tx: Tx,
        scope: Scope,
        role: str,
        content: list[dict[str, Any]],
        results: dict[str, CallId] | None = None,
    ) -> MessageId:
        shape = {"session_id": scope.session_id, "turn_id": scope.turn_id, "role": role, "created_at": NOW}
        message = Message.model_validate({"id": new_message_id(), "content": content, **shape})
        if role == "assistant":
            started = message.model_copy(update={"content": []})
            tx.append("message.started", scope, data=MessageData(message=started))
        tx.messages.add(message, results)
        tx.append("message.completed", scope, reference=message.id)
        return message.id

    def append_session_updates(self, tx: Tx, session_id: SessionId) -> None:
        from ostler.server.engine.journal.session_view import build_session

        stored = tx.sessions.get(session_id)
        for _ in range(2):
            session: Session = build_session(stored, tx.next_cursor)
            tx.append("session.updated", Scope(session_id, session_id), data=SessionData(session=session))


async def test_a_day_of_heavy_use_grows_the_file_by_no_more_than_was_said_and_printed(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    await open_store(path, pending_limit=1000).close()
    empty = path.stat().st_size
    store = open_store(path, pending_limit=1000)
    session_id = new_session_id()
    await store.writer.submit(lambda tx: tx.sessions.put(build_session_record(session_id)), lambda _: None)
    workload = WorkloadWriter()
    for _ in range(TURNS):
        await store.writer.submit(lambda tx: workload.write_turn(tx, session_id), lambda _: None)
    events = await store.read(lambda snapshot: snapshot.events.count())
    await store.close()
    assert events > TURNS * CALLS * 5
    assert workload.text_chars > 2_000_000
    assert path.stat().st_size - empty < workload.text_chars

"""A session from its rows: read in one snapshot, on a reader's thread."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Ask, Call, Message, Turn, Usage
from ostler.server.engine.session.history import History
from ostler.server.models.assembler import ToolUse
from ostler.storage.repositories import asks, calls, messages, sessions, states, steers, turns, usage
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool_use of the last message, with what is known of it."""

    use: ToolUse
    call: Call | None
    ask: Ask | None


@dataclass(frozen=True, slots=True)
class StoredSession:
    record: SessionRecord
    history: History
    state: dict[str, Any]
    reads: dict[str, dict[str, Any]]
    used: Usage
    steers: list[Steer]
    turn: Turn | None
    """The turn that was running or waiting."""
    options: dict[str, Any]
    """Of that turn."""
    last_message: Message | None
    """The model's last message, where its results are not stored yet."""
    last_calls: list[StoredCall]
    last_reason: str | None
    """How the last turn ended."""
    paused: str = ""
    """What the model has said so far of an answer in which it pauses."""
    trust_ask: Ask | None = None
    """Asks whether the folder is trusted, and is open."""
    opening: Message | None = None
    """The turn's input, where that is asked or hooks have not heard it all: nobody has let it pass yet."""
    told_ends: Sequence[TaskId] = ()
    """Tasks whose end that input tells."""


def load(connection: sqlite3.Connection, session_id: SessionId) -> StoredSession:
    record = sessions.get(connection, session_id)
    turn = turns.current(connection, session_id)
    trust_ask = asks.open_without_call(connection, session_id) if turn else None
    last = messages.last(connection, session_id) if turn else None
    open_message = last if last is not None and last.role == "assistant" else None
    unheard = turns.unheard(connection, turn.id) if turn else None
    return StoredSession(
        record=record,
        history=History(messages.for_model(connection, session_id)),
        state=states.find(connection, session_id),
        reads=states.reads(connection, session_id),
        used=usage.total(connection, session_id),
        steers=steers.of_session(connection, session_id),
        turn=turn,
        options=turns.input_of(connection, turn.id) if turn else {},
        last_message=open_message,
        last_calls=_calls_of(connection, open_message) if open_message else [],
        last_reason=turns.last_reason(connection, session_id),
        paused=paused_text(connection, turn) if turn else "",
        trust_ask=trust_ask,
        opening=last if last is not None and _waits(last, unheard, trust_ask) else None,
        told_ends=unheard.ends if unheard is not None else (),
    )


def paused_text(connection: sqlite3.Connection, turn: Turn) -> str:
    """The words of the model's last messages, back to the first of an answer in which it pauses."""
    pieces: list[str] = []
    for message in messages.backwards(connection, turn.session_id):
        if message.turn_id != turn.id or message.stop_reason != "pause_turn":
            break
        pieces.insert(0, text_of(message))
    return "".join(pieces)


def text_of(message: Message) -> str:
    return "".join(getattr(block, "text", "") for block in message.content if block.type == "text")


def _waits(last: Message, unheard: turns.Unheard | None, trust_ask: Ask | None) -> bool:
    """Whether it is a turn's input that nobody has let pass."""
    if last.role != "user":
        return False
    return trust_ask is not None or (unheard is not None and unheard.message_id == last.id)


def _calls_of(connection: sqlite3.Connection, message: Message) -> list[StoredCall]:
    stored = {call.call_id: call for call in calls.of_message(connection, message.id)}
    found: list[StoredCall] = []
    for index, block in enumerate(message.content):
        if block.type != "tool_use":
            continue
        data: Any = block
        call = next((one for one in stored.values() if one.call_id.endswith(f"#{index}")), None)
        ask = asks.of_call(connection, call.call_id) if call and call.status == "waiting" else None
        found.append(StoredCall(_use(connection, index, data, call), call, ask))
    return found


def _use(connection: sqlite3.Connection, index: int, block: Any, call: Call | None) -> ToolUse:
    if call is None:
        return ToolUse(index, block.id, block.name, block.input)
    # The stored input is what the call runs with; the block keeps what the model wrote.
    return ToolUse(index, block.id, call.tool, call.input, calls.unusable(connection, call.call_id))

"""Loads a session from its rows, in one snapshot, on a reader's thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Ask, Call, Message, Turn, Usage
from ostler.server.engine.session.history import History
from ostler.server.models.assembler import ToolUse
from ostler.storage import Snapshot
from ostler.storage.repositories import turns
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool_use of the last message, with its call and ask as far as they are stored."""

    use: ToolUse
    call: Call | None
    ask: Ask | None
    messages: Sequence[Sequence[dict[str, Any]]] = ()
    """Further user messages that the call gave."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What is stored of a session, as it is loaded into memory."""

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
    paused_text: str = ""
    """The text so far of an answer that `pause_turn` interrupted."""
    trust_ask: Ask | None = None
    """The open ask whether the folder is trusted."""
    input_message: Message | None = None
    """The turn's input, where it may not be sent yet: trust is being asked for, or its hooks have not run."""
    announced_task_ids: Sequence[TaskId] = ()
    """Tasks whose end that input announces."""


def load_session(snapshot: Snapshot, session_id: SessionId) -> StoredSession:
    record = snapshot.sessions.get(session_id)
    turn = snapshot.turns.find_current(session_id)
    trust_ask = snapshot.asks.find_open_without_call(session_id) if turn else None
    last = snapshot.messages.find_last(session_id) if turn else None
    open_message = last if last is not None and last.role == "assistant" else None
    pending_input = snapshot.turns.find_held_input(turn.id) if turn else None
    return StoredSession(
        record=record,
        history=History(snapshot.messages.load_for_model(session_id)),
        state=snapshot.states.find(session_id),
        reads=snapshot.states.list_reads(session_id),
        used=snapshot.usage.sum_session(session_id),
        steers=snapshot.steers.list_by_session(session_id),
        turn=turn,
        options=snapshot.turns.load_input(turn.id) if turn else {},
        last_message=open_message,
        last_calls=_load_calls(snapshot, open_message) if open_message else [],
        last_reason=snapshot.turns.find_last_reason(session_id),
        paused_text=read_paused_text(snapshot, turn) if turn else "",
        trust_ask=trust_ask,
        input_message=last if last is not None and _is_pending_input(last, pending_input, trust_ask) else None,
        announced_task_ids=pending_input.ends if pending_input is not None else (),
    )


def read_paused_text(snapshot: Snapshot, turn: Turn) -> str:
    """The text of the model's last messages, back to the first of an answer that `pause_turn` interrupted."""
    pieces: list[str] = []
    for message in snapshot.messages.iterate_backwards(turn.session_id):
        if message.turn_id != turn.id or message.stop_reason != "pause_turn":
            break
        pieces.insert(0, extract_message_text(message))
    return "".join(pieces)


def extract_message_text(message: Message) -> str:
    return "".join(getattr(block, "text", "") for block in message.content if block.type == "text")


def _is_pending_input(last: Message, pending_input: turns.HeldInput | None, trust_ask: Ask | None) -> bool:
    """Whether it is a turn's input that trust or hooks have not let pass yet."""
    if last.role != "user":
        return False
    return trust_ask is not None or (pending_input is not None and pending_input.message_id == last.id)


def _load_calls(snapshot: Snapshot, message: Message) -> list[StoredCall]:
    stored = {call.call_id: call for call in snapshot.calls.list_by_message(message.id)}
    found: list[StoredCall] = []
    for index, block in enumerate(message.content):
        if block.type != "tool_use":
            continue
        data: Any = block
        call = next((one for one in stored.values() if one.call_id.endswith(f"#{index}")), None)
        ask = snapshot.asks.find_by_call(call.call_id) if call and call.status == "waiting" else None
        given = snapshot.calls.load_messages(call.call_id) if call else ()
        found.append(StoredCall(_build_tool_use(snapshot, index, data, call), call, ask, given))
    return found


def _build_tool_use(snapshot: Snapshot, index: int, block: Any, call: Call | None) -> ToolUse:
    if call is None:
        return ToolUse(index, block.id, block.name, block.input)
    # The stored input is what the call runs with; the block keeps what the model wrote.
    return ToolUse(index, block.id, call.tool, call.input, snapshot.calls.find_unusable_reason(call.call_id))

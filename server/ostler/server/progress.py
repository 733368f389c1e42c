"""Messages that are still being written: what a client needs that attaches in the middle."""

from dataclasses import dataclass, field

from ostler.protocol.content import ContentBlock, OtherBlock, TextBlock, ThinkingBlock
from ostler.protocol.events import MessageData, MessageDelta
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.shapes import Message
from ostler.storage import Scope
from ostler.storage.events import LoggedEvent


@dataclass(slots=True)
class _Block:
    kind: str
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        # Joined for good: a long message is asked for more than once.
        self.parts = ["".join(self.parts)]
        return self.parts[0]

    def as_content(self) -> ContentBlock:
        match self.kind:
            case "text":
                return TextBlock(text=self.text)
            case "thinking":
                return ThinkingBlock(thinking=self.text)
            case _:
                # Not a tool_use yet: its JSON is not complete.
                return OtherBlock.model_validate({"type": "tool_input", "text": self.text})


@dataclass(slots=True)
class _InProgress:
    message: Message
    scope: Scope
    started: Cursor
    blocks: dict[int, _Block] = field(default_factory=dict)


class MessagesInProgress:
    """Follows what is published, so that it is never ahead of what readers have seen."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, _InProgress] = {}

    def see(self, event: LoggedEvent) -> None:
        if event.session_id is None:
            return
        match event.type:
            case "message.started":
                message = MessageData.model_validate_json(event.data).message
                scope = Scope(event.session_id, event.root_id, event.turn_id)
                self._by_session[event.session_id] = _InProgress(message, scope, event.cursor)
            case "message.completed" | "message.aborted":
                self._end(event)
            case "session.deleted":
                self._by_session.pop(event.session_id, None)

    def _end(self, event: LoggedEvent) -> None:
        assert event.session_id is not None
        current = self._by_session.get(event.session_id)
        # User messages complete while an assistant's is in progress; only its own ending ends it. The id stands first,
        # and the rest is not read: a message may be megabytes.
        if current and event.data.startswith(b'{"message":{"id":"%s"' % current.message.id.encode()):
            del self._by_session[event.session_id]

    def see_delta(self, session_id: SessionId | None, delta: MessageDelta) -> None:
        current = self._by_session.get(session_id) if session_id else None
        if current and current.message.id == delta.message_id:
            current.blocks.setdefault(delta.index, _Block(delta.kind)).parts.append(delta.text)

    def message(self, session_id: SessionId, at: Cursor) -> Message | None:
        """The message in progress, if it had started by then."""
        current = self._by_session.get(session_id)
        if current is None or current.started > at:
            return None
        blocks = [block.as_content() for _, block in sorted(current.blocks.items())]
        return current.message.model_copy(update={"content": blocks})

    def again(self) -> list[tuple[Scope, MessageDelta]]:
        """Every message in progress from its start, as one delta per block."""
        return [
            (
                current.scope,
                MessageDelta.model_validate(
                    {
                        "message_id": current.message.id,
                        "index": index,
                        "kind": block.kind,
                        "offset": 0,
                        "text": block.text,
                    }
                ),
            )
            for current in sorted(self._by_session.values(), key=lambda one: one.started)
            for index, block in sorted(current.blocks.items())
        ]

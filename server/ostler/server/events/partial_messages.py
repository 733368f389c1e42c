"""Partial messages: what the model has written so far, for clients that attach in the middle of a message."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ostler.protocol.content import ContentBlock, OtherBlock, TextBlock, ThinkingBlock
from ostler.protocol.events import MessageData, MessageDelta
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.shapes import Message
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent

_TEXT: Final = b'"text":"'
_END: Final = b'"}'
"""Around the text of a delta, which is the last of its fields."""


@dataclass(slots=True)
class _PartialBlock:
    first: MessageDelta
    parts: list[str] = field(default_factory=list)
    encoded_parts: list[bytes] = field(default_factory=list)
    """The same parts encoded as JSON, so that nothing has to be encoded again when a client attaches."""

    def add(self, delta: MessageDelta, encoded: bytes) -> None:
        self.parts.append(delta.text)
        self.encoded_parts.append(encoded[encoded.index(_TEXT) + len(_TEXT) : -len(_END)])

    @property
    def whole_delta(self) -> bytes:
        """The whole block so far, as one delta."""
        self.encoded_parts = [b"".join(self.encoded_parts)]
        empty = self.first.changed(offset=0, text="").encoded()
        return b"".join((empty.removesuffix(_END), *self.encoded_parts, _END))

    @property
    def text(self) -> str:
        # The joined text is kept: a long message is asked for more than once.
        self.parts = ["".join(self.parts)]
        return self.parts[0]

    def as_content(self) -> ContentBlock:
        match self.first.kind:
            case "text":
                return TextBlock(text=self.text)
            case "thinking":
                return ThinkingBlock(thinking=self.text)
            case _:
                # Not a tool_use yet: its JSON is not complete.
                return OtherBlock.model_validate({"type": "tool_input", "text": self.text})


@dataclass(slots=True)
class _PartialMessage:
    message: Message
    scope: Scope
    started: Cursor
    blocks: dict[int, _PartialBlock] = field(default_factory=dict)


class PartialMessages:
    """The message in progress of each session. It follows what is published, so it is never ahead of subscribers."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, _PartialMessage] = {}

    def track_event(self, event: LoggedEvent) -> None:
        if event.session_id is None:
            return
        match event.type:
            case "message.started":
                message = MessageData.model_validate_json(event.data).message
                scope = Scope(event.session_id, event.root_id, event.turn_id)
                self._by_session[event.session_id] = _PartialMessage(message, scope, event.cursor)
            case "message.completed" | "message.aborted":
                self._end_message(event)
            case "session.deleted":
                self._by_session.pop(event.session_id, None)

    def _end_message(self, event: LoggedEvent) -> None:
        assert event.session_id is not None
        current = self._by_session.get(event.session_id)
        # User messages complete while an assistant's is in progress; only its own ending ends it. The id stands first,
        # and the rest is not read: a message may be megabytes.
        if current and event.data.startswith(b'{"message":{"id":"%s"' % current.message.id.encode()):
            del self._by_session[event.session_id]

    def track_delta(self, session_id: SessionId | None, delta: MessageDelta, encoded: bytes) -> None:
        current = self._by_session.get(session_id) if session_id else None
        if current and current.message.id == delta.message_id:
            current.blocks.setdefault(delta.index, _PartialBlock(delta)).add(delta, encoded)

    def find_message(self, session_id: SessionId, at: Cursor) -> Message | None:
        """The message in progress, if it had started by then."""
        current = self._by_session.get(session_id)
        if current is None or current.started > at:
            return None
        blocks = [block.as_content() for _, block in sorted(current.blocks.items())]
        return current.message.model_copy(update={"content": blocks})

    def replay_deltas(self, wanted: Callable[[Scope], bool]) -> Iterator[tuple[Scope, bytes]]:
        """Every message in progress in a wanted scope, from its start, as one delta per block."""
        for current in sorted(self._by_session.values(), key=lambda one: one.started):
            if wanted(current.scope):
                yield from ((current.scope, block.whole_delta) for _, block in sorted(current.blocks.items()))

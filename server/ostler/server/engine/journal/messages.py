"""Writes messages: those of the model with their usage, and those of the user with what they carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ostler.protocol.events import MessageData, ModelRetry, UsageData
from ostler.protocol.ids import CallId, TurnId
from ostler.protocol.shapes import Message, Turn, Usage
from ostler.server.engine.journal.calls import CallJournal, CompletedCall
from ostler.server.engine.journal.writer import WriteQueue
from ostler.storage import CommitProgress, Tx
from ostler.storage.repositories import messages
from ostler.storage.repositories.tasks import TaskReport


@dataclass(frozen=True, slots=True)
class StoredUserMessage:
    """A user message with its content in two more forms: as blocks, and as the bytes that the model is sent."""

    message: Message
    blocks: Sequence[dict[str, Any]]
    encoded: bytes
    call_ids: Mapping[str, CallId]
    """The call of each tool_result, by tool_use id."""


@dataclass(frozen=True, slots=True)
class MessageJournal:
    """Writes the messages of a session."""

    writes: WriteQueue
    calls: CallJournal

    def start(self, message: Message) -> None:
        # Urgent, although nobody waits for it: the first deltas may only be sent after it.
        self.writes.post(lambda tx: self.put_start(tx, message), urgent=True)

    def put_start(self, tx: Tx, message: Message) -> None:
        tx.drafts.put(message)
        tx.append("message.started", self.writes.scope(message.turn_id), data=MessageData(message=message))

    def abort(self, message: Message) -> None:
        def work(tx: Tx) -> None:
            tx.drafts.drop(self.writes.session_id)
            tx.append("message.aborted", self.writes.scope(message.turn_id), data=MessageData(message=message))

        self.writes.post(work)

    def complete(self, message: Message, content: bytes, turn: Turn, request: Usage) -> None:
        """Store a complete message of the model, and the usage of its request. The content is JSON already."""
        session_used = self.writes.used

        def work(tx: Tx) -> None:
            tx.drafts.drop(self.writes.session_id)
            tx.messages.add_encoded(message, content)
            shape = messages.encode_with_content(message, content)
            tx.append("message.completed", self.writes.scope(message.turn_id), reference=message.id, thing=shape)
            self._put_usage(tx, message.model or "", turn, request, session_used)

        self.writes.post(work)

    def add_user_message(
        self,
        stored: StoredUserMessage,
        taken_steers: list[int],
        turn: Turn,
        shortened: Sequence[CompletedCall] = (),
        announced: Sequence[TaskReport] = (),
        state: dict[str, Any] | None = None,
        from_calls: Sequence[tuple[Message, bytes]] = (),
    ) -> CommitProgress:
        """Store results, further input or both; wait for it before the model is sent them.

        `shortened` are calls whose results were too long together, as the model gets them: each is written again.
        `from_calls` are further messages that the calls gave, with the JSON of their blocks.
        """

        def work(tx: Tx) -> None:
            for ended in shortened:
                self.calls.put_end(tx, ended, tx.calls.put(ended.call))
            tx.messages.add_blocks(stored.message, stored.blocks, stored.call_ids)
            shape = messages.encode_with_content(stored.message, stored.encoded)
            scope = self.writes.scope(stored.message.turn_id)
            tx.append("message.completed", scope, reference=stored.message.id, thing=shape)
            for message, content in from_calls:
                tx.messages.add_encoded(message, content)
                shape = messages.encode_with_content(message, content)
                tx.append("message.completed", scope, reference=message.id, thing=shape)
            tx.steers.drop(taken_steers)
            tx.tasks.mark_reported(announced)
            self.writes.put_state(tx, state)
            tx.turns.update(turn)
            tx.turns.release_input(turn.id)  # hooks have let the input pass

        return self.writes.submit_gated(work)

    def record_retry(self, turn_id: TurnId, retry: ModelRetry) -> None:
        def work(tx: Tx) -> None:
            tx.append("model.retrying", self.writes.scope(turn_id), data=retry)

        self.writes.post(work)

    def record_usage(self, model: str, turn: Turn | None, request: Usage) -> None:
        """Record the usage of a request whose message was dropped, or that is not a turn's own."""
        session_used = self.writes.used
        self.writes.post(lambda tx: self._put_usage(tx, model, turn, request, session_used))

    def _put_usage(self, tx: Tx, model: str, turn: Turn | None, request: Usage, session_used: Usage) -> None:
        turn_id = turn.id if turn is not None else None
        tx.usage.add(self.writes.session_id, turn_id, model, request)
        if turn is not None:
            tx.turns.update(turn)
        of_turn = turn.usage if turn is not None else Usage()
        data = UsageData(model=model, request=request, turn=of_turn, session=session_used)
        tx.append("usage.updated", self.writes.scope(turn_id), data=data)

    def restore_reads(self, reads: Mapping[str, dict[str, Any] | None]) -> None:
        """Store file reads as they were before a message that was removed from the history."""

        def work(tx: Tx) -> None:
            for path, read in reads.items():
                tx.states.put_read(self.writes.session_id, path, read)

        self.writes.post(work)

"""The journal of a session: each method writes one unit of work, rows and events together.

The write queue is in writer.py; what is written about calls and asks is in calls.py and asks.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol import times
from ostler.protocol.events import (
    MessageData,
    ModelRetry,
    Notice,
    PullRequest,
    TurnData,
    UsageData,
)
from ostler.protocol.hook import HookData, HookRun
from ostler.protocol.ids import CallId, TurnId
from ostler.protocol.shapes import Message, Turn, Usage
from ostler.protocol.turn import GivenBack
from ostler.server.engine.journal.asks import AskJournal
from ostler.server.engine.journal.calls import CompletedCall
from ostler.server.engine.journal.session_view import store_session
from ostler.storage import CommitProgress, Tx
from ostler.storage.repositories import messages
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer
from ostler.storage.repositories.tasks import TaskReport


@dataclass(frozen=True, slots=True)
class StoredUserMessage:
    """A user message with its content in two more forms: as blocks, and as the bytes that the model is sent."""

    message: Message
    blocks: Sequence[dict[str, Any]]
    encoded: bytes
    call_ids: Mapping[str, CallId]
    """The call of each tool_result, by tool_use id."""


@dataclass(slots=True)
class Journal(AskJournal):
    """Writes everything of one session: turns, messages, steers, hooks and notices; calls and asks by inheritance."""

    # Turns.

    async def start_turn(
        self,
        turn: Turn,
        options: dict[str, Any] | None,
        message: Message,
        key: Key | None = None,
        taken_steers: Sequence[int] = (),
        announced: Sequence[TaskReport] = (),
        first: Message | None = None,
        state: dict[str, Any] | None = None,
    ) -> Turn:
        """Store a turn that begins, with its input; also the start of the model's `first` message, where no hook or ask
        comes before the first request.

        `options` is None where the turn was queued before: they are stored already.
        """

        def work(tx: Tx) -> Turn:
            if key is not None and (answer := tx.idempotency.claim(key, self.session_id)) is not None:
                return Turn.model_validate_json(answer)
            begun = turn.model_copy(update={"cursor": tx.next_cursor})
            if options is None:
                tx.turns.update(begun)
            else:
                tx.turns.put(begun, options)
            tx.append("turn.started", self.scope(turn.id), data=TurnData(turn=begun))
            self.set_status(tx, "running", begun)
            tx.messages.add(message)
            tx.append("message.completed", self.scope(message.turn_id), reference=message.id, thing=message)
            tx.steers.drop(list(taken_steers))
            tx.tasks.mark_reported(announced)
            self._put_state(tx, state)
            if first is not None:
                self._start_message(tx, first)
            else:
                ends = [each.task_id for each in announced if each.heard_bytes is None]
                tx.turns.hold_input(begun.id, message.id, ends)
            if key is not None:
                tx.idempotency.remember(key, begun.encoded())
            return begun

        return await self.write(work)

    async def queue_turn(self, turn: Turn, options: dict[str, Any], key: Key | None) -> Turn:
        def work(tx: Tx) -> Turn:
            if key is not None and (answer := tx.idempotency.claim(key, self.session_id)) is not None:
                return Turn.model_validate_json(answer)
            queued = turn.model_copy(update={"cursor": tx.next_cursor})
            tx.turns.put(queued, options)
            tx.append("turn.queued", self.scope(turn.id), data=TurnData(turn=queued))
            if key is not None:
                tx.idempotency.remember(key, queued.encoded())
            return queued

        return await self.write(work)

    async def drop_queued(self, turn_id: TurnId) -> tuple[Turn, GivenBack] | None:
        """End a turn before it began, and give its input back; None where it is not queued."""

        def work(tx: Tx) -> tuple[Turn, GivenBack] | None:
            turn = tx.turns.find(turn_id)
            return None if turn is None or turn.status != "queued" else self._drop_queued(tx, turn)

        return await self.write(work)

    def _drop_queued(self, tx: Tx, turn: Turn) -> tuple[Turn, GivenBack]:
        ended = turn.model_copy(update={"status": "ended", "reason": "interrupted", "ended_at": times.now()})
        tx.turns.update(ended)
        tx.append("turn.ended", self.scope(turn.id), reference=turn.id)
        return ended, GivenBack(turn_id=turn.id, input=tx.turns.load_input(turn.id)["input"])

    async def give_back(self, waiting: Sequence[Steer]) -> list[GivenBack]:
        """Drop further input that waits, and all queued turns; returns what they said."""

        def work(tx: Tx) -> list[GivenBack]:
            tx.steers.drop([steer.id for steer in waiting])
            queued = tx.turns.list_queued(self.session_id)
            return [self._drop_queued(tx, turn)[1] for turn in queued]

        steered = [GivenBack(turn_id=steer.turn_id, input=steer.blocks) for steer in waiting]
        return [*steered, *await self.write(work)]

    async def change_session(self, **changes: Any) -> SessionRecord:
        """Change fields of the session's record."""

        def work(tx: Tx) -> SessionRecord:
            record = replace(tx.sessions.get(self.session_id), **changes, updated_at=times.now())
            store_session(tx, record, self.used)
            return record

        return await self.write(work)

    async def end_turn(self, turn: Turn) -> None:
        def work(tx: Tx) -> None:
            tx.turns.update(turn)
            tx.append("turn.ended", self.scope(turn.id), reference=turn.id, thing=turn)
            self.set_status(tx, "idle", None)

        await self.write(work)

    # Messages.

    def start_message(self, message: Message) -> None:
        # Urgent, although nobody waits for it: the first deltas may only be sent after it.
        self.post(lambda tx: self._start_message(tx, message), urgent=True)

    def _start_message(self, tx: Tx, message: Message) -> None:
        tx.drafts.put(message)
        tx.append("message.started", self.scope(message.turn_id), data=MessageData(message=message))

    def abort_message(self, message: Message) -> None:
        def work(tx: Tx) -> None:
            tx.drafts.drop(self.session_id)
            tx.append("message.aborted", self.scope(message.turn_id), data=MessageData(message=message))

        self.post(work)

    def complete_message(self, message: Message, content: bytes, turn: Turn, request: Usage) -> None:
        """Store a complete message of the model, and the usage of its request. The content is JSON already."""
        session_used = self.used

        def work(tx: Tx) -> None:
            tx.drafts.drop(self.session_id)
            tx.messages.add_encoded(message, content)
            shape = messages.encode_with_content(message, content)
            tx.append("message.completed", self.scope(message.turn_id), reference=message.id, thing=shape)
            self._write_usage(tx, message.model or "", turn, request, session_used)

        self.post(work)

    def record_usage(self, model: str, turn: Turn | None, request: Usage) -> None:
        """Record the usage of a request whose message was dropped, or that is not a turn's own."""
        session_used = self.used
        self.post(lambda tx: self._write_usage(tx, model, turn, request, session_used))

    def _write_usage(self, tx: Tx, model: str, turn: Turn | None, request: Usage, session_used: Usage) -> None:
        turn_id = turn.id if turn is not None else None
        tx.usage.add(self.session_id, turn_id, model, request)
        if turn is not None:
            tx.turns.update(turn)
        of_turn = turn.usage if turn is not None else Usage()
        data = UsageData(model=model, request=request, turn=of_turn, session=session_used)
        tx.append("usage.updated", self.scope(turn_id), data=data)

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
                self.write_call_end(tx, ended, tx.calls.put(ended.call))
            tx.messages.add_blocks(stored.message, stored.blocks, stored.call_ids)
            shape = messages.encode_with_content(stored.message, stored.encoded)
            scope = self.scope(stored.message.turn_id)
            tx.append("message.completed", scope, reference=stored.message.id, thing=shape)
            for message, content in from_calls:
                tx.messages.add_encoded(message, content)
                shape = messages.encode_with_content(message, content)
                tx.append("message.completed", scope, reference=message.id, thing=shape)
            tx.steers.drop(taken_steers)
            tx.tasks.mark_reported(announced)
            self._put_state(tx, state)
            tx.turns.update(turn)
            tx.turns.release_input(turn.id)  # hooks have let the input pass

        return self.submit_gated(work)

    async def add_steer(self, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
        return await self.write(lambda tx: tx.steers.add(self.session_id, turn_id, blocks))

    def withdraw_steer(self, steer: Steer, why: str) -> None:
        """Drop further input that a hook blocked: the model is never sent it, and clients get a notice."""

        def work(tx: Tx) -> None:
            tx.steers.drop([steer.id])
            notice = Notice(level="warning", text=f"A hook kept further input from the turn: {why}")
            tx.append("notice", self.scope(steer.turn_id), data=notice)

        self.post(work)

    def restore_reads(self, reads: Mapping[str, dict[str, Any] | None]) -> None:
        """Store file reads as they were before a message that was removed from the history."""

        def work(tx: Tx) -> None:
            for path, read in reads.items():
                tx.states.put_read(self.session_id, path, read)

        self.post(work)

    def link_pull(self, pull: PullRequest) -> None:
        def work(tx: Tx) -> None:
            record = tx.sessions.get(self.session_id)
            store_session(
                tx, replace(record, metadata=add_pull_link(record.metadata, pull), updated_at=times.now()), self.used
            )

        self.post(work)

    # Hooks.

    def record_hook_run(self, turn_id: TurnId | None, run: HookRun) -> None:
        def work(tx: Tx) -> None:
            tx.append("hook.ran", self.scope(turn_id), data=HookData(run=run))

        self.post(work)

    def accept_input(self, turn_id: TurnId) -> CommitProgress:
        """Record that hooks have let the input pass; wait for it before the model is sent the input."""
        return self.submit_gated(lambda tx: tx.turns.release_input(turn_id))

    def withdraw_message(self, message: Message, untold: Sequence[TaskReport], state: dict[str, Any]) -> None:
        """Drop a message that a hook blocked: the model is never sent it, nor the task ends that it announces."""

        def work(tx: Tx) -> None:
            tx.messages.drop(message.id)
            tx.tasks.mark_unreported(untold)
            self._put_state(tx, state)

        self.post(work)

    # Notices and state.

    def record_retry(self, turn_id: TurnId, retry: ModelRetry) -> None:
        def work(tx: Tx) -> None:
            tx.append("model.retrying", self.scope(turn_id), data=retry)

        self.post(work)

    def add_notice(self, turn_id: TurnId | None, notice: Notice) -> None:
        def work(tx: Tx) -> None:
            tx.append("notice", self.scope(turn_id), data=notice)

        self.post(work)

    def store_state(self, state: dict[str, Any]) -> None:
        self.post(lambda tx: self._put_state(tx, state))

    def _put_state(self, tx: Tx, state: dict[str, Any] | None) -> None:
        """What is kept between requests, where it has changed."""
        if state is not None:
            tx.states.put(self.session_id, state)


def add_pull_link(metadata: dict[str, Any], pull: PullRequest) -> dict[str, Any]:
    """A session's metadata with one more pull request; left alone where a client keeps something else under `pr`."""
    known = metadata.get("pr", [])
    entry = {"number": pull.number, "url": pull.url}
    if not isinstance(known, list) or entry in known:
        return metadata
    return {**metadata, "pr": [*known, entry]}

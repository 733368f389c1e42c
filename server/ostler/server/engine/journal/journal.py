"""Everything that a session writes: each method is one unit of work, with its events.

How they are written stands in units.py, what is written about calls and asks in call_notes.py and ask_notes.py.
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
from ostler.server.engine.journal.asks import AskNotes
from ostler.server.engine.journal.calls import Ended
from ostler.server.engine.journal.session_view import tell_change
from ostler.storage import Ahead, Tx
from ostler.storage.repositories import calls, drafts, idempotency, messages, sessions, states, steers, tasks, turns
from ostler.storage.repositories import usage as usage_rows
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.steers import Steer
from ostler.storage.repositories.tasks import Told


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user's, with its content beside it: as blocks, and as the bytes that the model is sent."""

    message: Message
    blocks: Sequence[dict[str, Any]]
    encoded: bytes
    brought: Mapping[str, CallId]
    """The call of each result."""


@dataclass(slots=True)
class Journal(AskNotes):
    # Turns.

    async def start_turn(
        self,
        turn: Turn,
        options: dict[str, Any] | None,
        message: Message,
        key: Key | None = None,
        taken_steers: Sequence[int] = (),
        told_tasks: Sequence[Told] = (),
        first: Message | None = None,
        state: dict[str, Any] | None = None,
    ) -> Turn:
        """A turn begins with its input, and, where nothing stands before its first request, with the message to come.

        Options are null where it was queued before, and has them.
        """

        def work(tx: Tx) -> Turn:
            if key is not None and (answer := idempotency.answer_to(tx.connection, key)) is not None:
                return Turn.model_validate_json(answer)
            begun = turn.model_copy(update={"cursor": tx.next_cursor})
            if options is None:
                turns.update(tx.connection, begun)
            else:
                turns.put(tx.connection, begun, options)
            tx.append("turn.started", self.scope(turn.id), data=TurnData(turn=begun))
            self.set_status(tx, "running", begun)
            messages.add(tx.connection, message)
            tx.append("message.completed", self.scope(message.turn_id), reference=message.id, thing=message)
            steers.drop(tx.connection, list(taken_steers))
            tasks.mark_told(tx.connection, told_tasks)
            self._put_state(tx, state)
            if first is not None:
                self._start_message(tx, first)
            else:
                ends = [told.task_id for told in told_tasks if told.heard_bytes is None]
                turns.put_unheard(tx.connection, begun.id, message.id, ends)
            if key is not None:
                idempotency.remember(tx.connection, key, self.session_id, begun.encoded())
            return begun

        return await self.write(work)

    async def queue_turn(self, turn: Turn, options: dict[str, Any], key: Key | None) -> Turn:
        def work(tx: Tx) -> Turn:
            if key is not None and (answer := idempotency.answer_to(tx.connection, key)) is not None:
                return Turn.model_validate_json(answer)
            queued = turn.model_copy(update={"cursor": tx.next_cursor})
            turns.put(tx.connection, queued, options)
            tx.append("turn.queued", self.scope(turn.id), data=TurnData(turn=queued))
            if key is not None:
                idempotency.remember(tx.connection, key, self.session_id, queued.encoded())
            return queued

        return await self.write(work)

    async def drop_queued(self, turn_id: TurnId) -> Turn | None:
        """End a turn before it began; None where it is not queued."""

        def work(tx: Tx) -> Turn | None:
            turn = turns.find(tx.connection, turn_id)
            if turn is None or turn.status != "queued":
                return None
            ended = turn.model_copy(update={"status": "ended", "reason": "interrupted", "ended_at": times.now()})
            turns.update(tx.connection, ended)
            tx.append("turn.ended", self.scope(turn_id), reference=turn_id)
            return ended

        return await self.write(work)

    async def change(self, **changes: Any) -> SessionRecord:
        """Other values for some fields of the session."""

        def work(tx: Tx) -> SessionRecord:
            record = replace(sessions.get(tx.connection, self.session_id), **changes, updated_at=times.now())
            tell_change(tx, record, self.used)
            return record

        return await self.write(work)

    async def end_turn(self, turn: Turn) -> None:
        def work(tx: Tx) -> None:
            turns.update(tx.connection, turn)
            tx.append("turn.ended", self.scope(turn.id), reference=turn.id, thing=turn)
            self.set_status(tx, "idle", None)

        await self.write(work)

    # Messages.

    def message_started(self, message: Message) -> None:
        # In a hurry, although nobody waits for it: the first words come after it.
        self.post(lambda tx: self._start_message(tx, message), urgent=True)

    def _start_message(self, tx: Tx, message: Message) -> None:
        drafts.put(tx.connection, message)
        tx.append("message.started", self.scope(message.turn_id), data=MessageData(message=message))

    def message_aborted(self, message: Message) -> None:
        def work(tx: Tx) -> None:
            drafts.drop(tx.connection, self.session_id)
            tx.append("message.aborted", self.scope(message.turn_id), data=MessageData(message=message))

        self.post(work)

    def message_completed(self, message: Message, content: bytes, turn: Turn, request: Usage) -> None:
        """The model's message is whole, and has been paid for. Its content is JSON already."""
        session_used = self.used

        def work(tx: Tx) -> None:
            drafts.drop(tx.connection, self.session_id)
            messages.add_encoded(tx.connection, message, content)
            told = messages.with_content(message, content)
            tx.append("message.completed", self.scope(message.turn_id), reference=message.id, thing=told)
            self._pay(tx, message.model or "", turn, request, session_used)

        self.post(work)

    def paid(self, model: str, turn: Turn | None, request: Usage) -> None:
        """A request whose message was dropped costs all the same, and so does one that was none of a turn's."""
        session_used = self.used
        self.post(lambda tx: self._pay(tx, model, turn, request, session_used))

    def _pay(self, tx: Tx, model: str, turn: Turn | None, request: Usage, session_used: Usage) -> None:
        turn_id = turn.id if turn is not None else None
        usage_rows.add(tx.connection, self.session_id, turn_id, model, request)
        if turn is not None:
            turns.update(tx.connection, turn)
        of_turn = turn.usage if turn is not None else Usage()
        data = UsageData(model=model, request=request, turn=of_turn, session=session_used)
        tx.append("usage.updated", self.scope(turn_id), data=data)

    def add_user_message(
        self,
        said: Said,
        taken_steers: list[int],
        turn: Turn,
        shortened: Sequence[Ended] = (),
        told_tasks: Sequence[Told] = (),
        state: dict[str, Any] | None = None,
    ) -> Ahead:
        """Results, further input or both; to be waited for before the model is sent them.

        `shortened` are calls whose results were too long together, as they are brought: each is told again.
        """

        def work(tx: Tx) -> None:
            for ended in shortened:
                self.complete_call(tx, ended, calls.put(tx.connection, ended.call))
            messages.add_blocks(tx.connection, said.message, said.blocks, said.brought)
            told = messages.with_content(said.message, said.encoded)
            tx.append("message.completed", self.scope(said.message.turn_id), reference=said.message.id, thing=told)
            steers.drop(tx.connection, taken_steers)
            tasks.mark_told(tx.connection, told_tasks)
            self._put_state(tx, state)
            turns.update(tx.connection, turn)
            turns.hear(tx.connection, turn.id)  # what hooks had to say of the input, or what came after it

        return self.ahead(work)

    async def add_steer(self, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
        return await self.write(lambda tx: steers.add(tx.connection, self.session_id, turn_id, blocks))

    def steer_taken_back(self, steer: Steer, why: str) -> None:
        """A hook did not let it pass: the model is never sent it, and whoever said it is told."""

        def work(tx: Tx) -> None:
            steers.drop(tx.connection, [steer.id])
            notice = Notice(level="warning", text=f"A hook kept further input from the turn: {why}")
            tx.append("notice", self.scope(steer.turn_id), data=notice)

        self.post(work)

    def reads_taken_back(self, reads: Mapping[str, dict[str, Any] | None]) -> None:
        """What was shown in a message that is out of the history was shown to nobody."""

        def work(tx: Tx) -> None:
            for path, read in reads.items():
                states.put_read(tx.connection, self.session_id, path, read)

        self.post(work)

    def pull_linked(self, pull: PullRequest) -> None:
        def work(tx: Tx) -> None:
            record = sessions.get(tx.connection, self.session_id)
            tell_change(tx, replace(record, metadata=linked(record.metadata, pull), updated_at=times.now()), self.used)

        self.post(work)

    # Hooks.

    def hook_ran(self, turn_id: TurnId | None, run: HookRun) -> None:
        def work(tx: Tx) -> None:
            tx.append("hook.ran", self.scope(turn_id), data=HookData(run=run))

        self.post(work)

    def heard(self, turn_id: TurnId) -> Ahead:
        """Hooks have let the input pass; to be waited for before the model is sent it."""
        return self.ahead(lambda tx: turns.hear(tx.connection, turn_id))

    def take_back(self, message: Message, untold: Sequence[Told], state: dict[str, Any]) -> None:
        """A message that a hook did not let pass: the model is never sent it, and knows nothing of what it told."""

        def work(tx: Tx) -> None:
            messages.drop(tx.connection, message.id)
            tasks.mark_untold(tx.connection, untold)
            self._put_state(tx, state)

        self.post(work)

    # Words.

    def retrying(self, turn_id: TurnId, retry: ModelRetry) -> None:
        def work(tx: Tx) -> None:
            tx.append("model.retrying", self.scope(turn_id), data=retry)

        self.post(work)

    def notice(self, turn_id: TurnId | None, notice: Notice) -> None:
        def work(tx: Tx) -> None:
            tx.append("notice", self.scope(turn_id), data=notice)

        self.post(work)

    def state_changed(self, state: dict[str, Any]) -> None:
        self.post(lambda tx: self._put_state(tx, state))

    def _put_state(self, tx: Tx, state: dict[str, Any] | None) -> None:
        """What is remembered between requests, where that is another than before."""
        if state is not None:
            states.put(tx.connection, self.session_id, state)


def linked(metadata: dict[str, Any], pull: PullRequest) -> dict[str, Any]:
    """A session's metadata with one more pull request; what a client keeps there under that name is left alone."""
    known = metadata.get("pr", [])
    entry = {"number": pull.number, "url": pull.url}
    if not isinstance(known, list) or entry in known:
        return metadata
    return {**metadata, "pr": [*known, entry]}

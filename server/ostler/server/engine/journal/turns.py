"""Writes turns: that they are queued, that they start and how they ended, and the input that they take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ostler.protocol import times
from ostler.protocol.events import Notice, TurnData
from ostler.protocol.ids import TurnId
from ostler.protocol.shapes import Message, Turn
from ostler.protocol.turn import GivenBack
from ostler.server.engine.journal.messages import MessageJournal
from ostler.server.engine.journal.writer import WriteQueue
from ostler.storage import CommitProgress, Tx
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.steers import Steer
from ostler.storage.repositories.tasks import TaskReport


@dataclass(frozen=True, slots=True)
class TurnJournal:
    """Writes the turns of a session."""

    writes: WriteQueue
    messages: MessageJournal

    async def start(
        self,
        turn: Turn,
        options: dict[str, Any] | None,
        message: Message,
        key: Key | None = None,
        taken_steers: Sequence[int] = (),
        announced: Sequence[TaskReport] = (),
        first: Message | None = None,
        state: dict[str, Any] | None = None,
        together: Callable[[Tx], None] | None = None,
    ) -> Turn:
        """Store a turn that begins, with its input; also the start of the model's `first` message, where no hook or ask
        comes before the first request.

        `options` is None where the turn was queued before: they are stored already.
        """

        def work(tx: Tx) -> Turn:
            if key is not None and (answer := tx.idempotency.claim(key, self.writes.session_id)) is not None:
                return Turn.model_validate_json(answer)
            begun = turn.model_copy(update={"cursor": tx.next_cursor})
            if options is None:
                tx.turns.update(begun)
            else:
                tx.turns.put(begun, options)
            tx.append("turn.started", self.writes.scope(turn.id), data=TurnData(turn=begun))
            self.writes.set_status(tx, "running", begun)
            tx.messages.add(message)
            tx.append("message.completed", self.writes.scope(message.turn_id), reference=message.id, thing=message)
            tx.steers.drop(list(taken_steers))
            tx.tasks.mark_reported(announced)
            self.writes.put_state(tx, state)
            if first is not None:
                self.messages.put_start(tx, first)
            else:
                ends = [each.task_id for each in announced if each.heard_bytes is None]
                tx.turns.hold_input(begun.id, message.id, ends)
            if key is not None:
                tx.idempotency.remember(key, begun)
            if together is not None:
                together(tx)
            return begun

        return await self.writes.write(work)

    async def queue(self, turn: Turn, options: dict[str, Any], key: Key | None) -> Turn:
        def work(tx: Tx) -> Turn:
            if key is not None and (answer := tx.idempotency.claim(key, self.writes.session_id)) is not None:
                return Turn.model_validate_json(answer)
            queued = turn.model_copy(update={"cursor": tx.next_cursor})
            tx.turns.put(queued, options)
            tx.append("turn.queued", self.writes.scope(turn.id), data=TurnData(turn=queued))
            if key is not None:
                tx.idempotency.remember(key, queued)
            return queued

        return await self.writes.write(work)

    async def drop_queued(self, turn_id: TurnId) -> tuple[Turn, GivenBack] | None:
        """End a turn before it began, and give its input back; None where it is not queued."""

        def work(tx: Tx) -> tuple[Turn, GivenBack] | None:
            turn = tx.turns.find(turn_id)
            return None if turn is None or turn.status != "queued" else self._drop_queued(tx, turn)

        return await self.writes.write(work)

    def _drop_queued(self, tx: Tx, turn: Turn) -> tuple[Turn, GivenBack]:
        ended = turn.model_copy(update={"status": "ended", "reason": "interrupted", "ended_at": times.now()})
        tx.turns.update(ended)
        tx.append("turn.ended", self.writes.scope(turn.id), reference=turn.id)
        return ended, GivenBack(turn_id=turn.id, input=tx.turns.load_input(turn.id)["input"])

    async def give_back(self, waiting: Sequence[Steer]) -> list[GivenBack]:
        """Drop further input that waits, and all queued turns; returns what they said."""

        def work(tx: Tx) -> list[GivenBack]:
            tx.steers.drop([steer.id for steer in waiting])
            queued = tx.turns.list_queued(self.writes.session_id)
            return [self._drop_queued(tx, turn)[1] for turn in queued]

        steered = [GivenBack(turn_id=steer.turn_id, input=steer.blocks) for steer in waiting]
        return [*steered, *await self.writes.write(work)]

    async def end(self, turn: Turn) -> None:
        def work(tx: Tx) -> None:
            tx.turns.update(turn)
            tx.append("turn.ended", self.writes.scope(turn.id), reference=turn.id, thing=turn)
            self.writes.set_status(tx, "idle", None)

        await self.writes.write(work)

    def accept_input(self, turn_id: TurnId) -> CommitProgress:
        """Record that hooks have let the input pass; wait for it before the model is sent the input."""
        return self.writes.submit_gated(lambda tx: tx.turns.release_input(turn_id))

    def withdraw_input(self, message: Message, untold: Sequence[TaskReport], state: dict[str, Any]) -> None:
        """Drop a message that a hook blocked: the model is never sent it, nor the task ends that it announces."""

        def work(tx: Tx) -> None:
            tx.messages.drop(message.id)
            tx.tasks.mark_unreported(untold)
            self.writes.put_state(tx, state)

        self.writes.post(work)

    async def add_steer(self, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
        return await self.writes.write(lambda tx: tx.steers.add(self.writes.session_id, turn_id, blocks))

    def withdraw_steer(self, steer: Steer, why: str) -> None:
        """Drop further input that a hook blocked: the model is never sent it, and clients get a notice."""

        def work(tx: Tx) -> None:
            tx.steers.drop([steer.id])
            notice = Notice(level="warning", text=f"A hook kept further input from the turn: {why}")
            tx.append("notice", self.writes.scope(steer.turn_id), data=notice)

        self.writes.post(work)

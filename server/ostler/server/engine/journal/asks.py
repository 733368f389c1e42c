"""Writes asks: that they are opened, and who settled them, together with what follows for the turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ostler.protocol.events import TurnData
from ostler.protocol.shapes import Ask, Call, Turn
from ostler.server.engine.journal.calls import CallJournal, Draft
from ostler.server.engine.journal.writer import WriteQueue
from ostler.server.settings.types import Behavior
from ostler.storage import Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord


@dataclass(frozen=True, slots=True)
class Settlement:
    """The result of an attempt to settle an ask."""

    ask: Ask
    """As it is stored now: as we settled it, or as somebody before us did."""
    won: bool
    record: SessionRecord | None = None
    """The session, where the answer changed its rules."""


@dataclass(frozen=True, slots=True)
class AskJournal:
    """Writes the asks of a session."""

    writes: WriteQueue
    calls: CallJournal

    async def open(
        self,
        ask: Ask,
        call: Call | None,
        draft: Draft,
        turn: Turn,
        *,
        queued: bool,
        also: Sequence[Callable[[Tx], None]] = (),
    ) -> None:
        def work(tx: Tx) -> None:
            if call is not None:
                self.calls.put(tx, call, draft, () if queued else ("tool.queued",))
            tx.asks.open_ask(ask, tx.next_cursor)
            tx.append("ask.opened", self.writes.scope(ask.turn_id), reference=ask.id, thing=ask)
            self.set_turn(tx, turn)
            for write in also:
                write(tx)

        await self.writes.write(work)

    async def settle(
        self,
        ask: Ask,
        turn: Turn | None,
        remember: tuple[Behavior, str] | None = None,
        trusted: TrustRecord | None = None,
        also: Sequence[Callable[[Tx], None]] = (),
    ) -> Settlement:
        """Settle an ask, unless it is settled already. `turn` is the turn with its new status."""

        def work(tx: Tx) -> Settlement:
            for write in also:
                write(tx)
            if not tx.asks.settle(ask):
                return Settlement(tx.asks.find(ask.id) or ask, won=False)
            tx.append("ask.resolved", self.writes.scope(ask.turn_id), reference=ask.id, thing=ask)
            record = self._add_session_rule(tx, *remember) if remember is not None else None
            if trusted is not None:
                tx.trust.grant(trusted)
            if turn is not None:
                self.set_turn(tx, turn)
            return Settlement(ask, won=True, record=record)

        return await self.writes.write(work)

    async def remember_in_session(self, ask: Ask, behavior: Behavior, rule: str) -> SessionRecord:
        """Add the rule of an answer to the session, since its file could not be written; `ask` has the new scope."""

        def work(tx: Tx) -> SessionRecord:
            tx.asks.correct(ask)
            return self._add_session_rule(tx, behavior, rule)

        return await self.writes.write(work)

    def _add_session_rule(self, tx: Tx, behavior: Behavior, rule: str) -> SessionRecord:
        """To the session at the top: what is remembered holds for its whole tree of agents."""
        record = tx.sessions.get(self.writes.root_id)
        rules = dict(record.options.get("rules") or {})
        rules[behavior] = [*(text for text in rules.get(behavior) or () if text != rule), rule]
        record = replace(record, options={**record.options, "rules": rules})
        tx.sessions.put(record)
        return record

    def set_turn(self, tx: Tx, turn: Turn) -> None:
        """A turn went from running to waiting, or back."""
        before = tx.turns.find(turn.id)
        tx.turns.update(turn)
        if before is not None and before.status != turn.status:
            tx.append("turn.updated", self.writes.scope(turn.id), data=TurnData(turn=turn))
            self.writes.set_status(tx, "waiting" if turn.status == "waiting" else "running", turn)

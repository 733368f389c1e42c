"""What is written about asks: that they are put, and who settled them, together with what follows for the turn."""

from dataclasses import dataclass, replace

from ostler.protocol.events import TurnData
from ostler.protocol.shapes import Ask, Call, Turn
from ostler.server.engine.journal.calls import CallNotes, Draft
from ostler.server.settings.types import Behavior
from ostler.storage import Tx
from ostler.storage.repositories import asks, sessions, trust, turns
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt to settle an ask."""

    ask: Ask
    """As it is now: ours, or the winner's."""
    won: bool
    record: SessionRecord | None = None
    """The session, where the answer changed its rules."""


@dataclass(slots=True)
class AskNotes(CallNotes):
    async def open_ask(self, ask: Ask, call: Call | None, draft: Draft, turn: Turn, *, queued: bool) -> None:
        def work(tx: Tx) -> None:
            if call is not None:
                self.put_call(tx, call, draft, () if queued else ("tool.queued",))
            asks.open_ask(tx.connection, ask)
            tx.append("ask.opened", self.scope(ask.turn_id), reference=ask.id, thing=ask)
            self._set_turn(tx, turn)

        await self.write(work)

    async def settle_ask(
        self,
        ask: Ask,
        turn: Turn | None,
        remember: tuple[Behavior, str] | None = None,
        trusted: TrustRecord | None = None,
    ) -> Settled:
        """Give an ask its ending, unless somebody was faster. `turn` is the turn as it goes on."""

        def work(tx: Tx) -> Settled:
            if not asks.settle(tx.connection, ask):
                return Settled(asks.find(tx.connection, ask.id) or ask, won=False)
            tx.append("ask.resolved", self.scope(ask.turn_id), reference=ask.id, thing=ask)
            record = self._remember(tx, *remember) if remember is not None else None
            if trusted is not None:
                trust.grant(tx.connection, trusted)
            if turn is not None:
                self._set_turn(tx, turn)
            return Settled(ask, won=True, record=record)

        return await self.write(work)

    async def remember_here(self, ask: Ask, behavior: Behavior, rule: str) -> SessionRecord:
        """The rule of an answer counts in the session, since its file did not take it; the ask as it says so."""

        def work(tx: Tx) -> SessionRecord:
            asks.correct(tx.connection, ask)
            return self._remember(tx, behavior, rule)

        return await self.write(work)

    def _remember(self, tx: Tx, behavior: Behavior, rule: str) -> SessionRecord:
        record = sessions.get(tx.connection, self.session_id)
        rules = dict(record.options.get("rules") or {})
        rules[behavior] = [*(text for text in rules.get(behavior) or () if text != rule), rule]
        record = replace(record, options={**record.options, "rules": rules})
        sessions.put(tx.connection, record)
        return record

    def _set_turn(self, tx: Tx, turn: Turn) -> None:
        """A turn went from running to waiting, or back."""
        before = turns.find(tx.connection, turn.id)
        turns.update(tx.connection, turn)
        if before is not None and before.status != turn.status:
            tx.append("turn.updated", self.scope(turn.id), data=TurnData(turn=turn))
            self.set_status(tx, "waiting" if turn.status == "waiting" else "running", turn)

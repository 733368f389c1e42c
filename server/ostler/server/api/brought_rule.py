"""The rule that an answer brings to a settings file."""

from dataclasses import dataclass, replace

from ostler.protocol.errors import Conflict
from ostler.protocol.events import Notice
from ostler.protocol.ids import ClientId
from ostler.protocol.shapes import Ask
from ostler.server.api.rule_changes import RuleChange, check_counts, remember
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.asks.asks import Remembered
from ostler.server.engine.journal.asks import Settled
from ostler.server.settings import CannotWrite, check_addition, destination
from ostler.tools.threads import read_in_thread


@dataclass(frozen=True, slots=True)
class BroughtRule:
    """Written when the answer has won, and never before: of two answers at once, the loser leaves nothing behind."""

    actor: SessionActor
    rule: Remembered
    by: ClientId | None

    async def check(self) -> None:
        """Before the answer is taken: one whose rule cannot be written is refused, while the person can still choose.

        Raises Conflict.
        """
        assert self.rule.scope != "session"
        live = self.actor.live
        await check_counts(live, self._change)
        to = destination(self.rule.scope, live.record.cwd, live.rooms.settings.places, live.rooms.umask)
        try:
            await read_in_thread(check_addition, to, self.rule.behavior, self.rule.rule)
        except CannotWrite as error:
            raise Conflict(f"The rule was not written: {error}", file=to.file) from None

    async def write(self, settled: Settled) -> Settled:
        """The answer has won. Where the file does not take the rule after all, it counts for this session."""
        try:
            await remember(self.actor, self._change, self.by)
        except Conflict as error:
            return await self._for_this_session(settled, error)
        return settled

    @property
    def _change(self) -> RuleChange:
        return RuleChange(self.rule.behavior, self.rule.rule, self.rule.scope)

    async def _for_this_session(self, settled: Settled, error: Conflict) -> Settled:
        journal = self.actor.live.journal
        ask: Ask = settled.ask.model_copy(update={"answer": {**(settled.ask.answer or {}), "scope": "session"}})
        record = await journal.remember_here(ask, self.rule.behavior, self.rule.rule)
        words = f"{error.message} Your answer counts, and the rule {self.rule.rule} for this session only."
        journal.notice(ask.turn_id, Notice(level="warning", text=words))
        return replace(settled, ask=ask, record=record)

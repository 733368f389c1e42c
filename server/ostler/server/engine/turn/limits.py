"""The limits of a turn: its number of requests, and the budgets in money of the turn and the session."""

from dataclasses import dataclass
from decimal import Decimal

from ostler.protocol.shapes import Turn, Usage
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnEnd
from ostler.server.engine.turn.endings import describe_over_budget
from ostler.server.engine.turn.options import TurnServices, TurnSettings


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that each request of a turn is checked against."""

    session: LiveSession
    services: TurnServices
    settings: TurnSettings

    def check(self, turn: Turn, model: str) -> TurnEnd | None:
        """The end of the turn, where a limit forbids another request to this model; else null."""
        if turn.model_requests >= self.settings.max_requests:
            return TurnEnd("max_requests")
        for whose, used, budget in self._list_budgets(turn.usage):
            if budget is None:
                continue
            if used.cost_usd is None or not self._has_price(model):
                return TurnEnd(
                    "budget", describe_over_budget(f"The budget of the {whose} cannot be kept: a price is not known.")
                )
            if Decimal(used.cost_usd) >= Decimal(budget):
                return TurnEnd("budget", describe_over_budget(f"The budget of the {whose}, {budget} USD, is used up."))
        return None

    def _list_budgets(self, used: Usage) -> list[tuple[str, Usage, str | None]]:
        session_budget = self.session.record.options.get("max_budget_usd")
        own = [
            ("turn", used, self.settings.max_budget_usd),
            ("session", self.session.journal.writes.used, session_budget),
        ]
        # What an agent uses counts for those that it works for: their budgets bind the whole tree.
        for above in self.session.parents:
            meter = above.usage_meter
            if meter.state is not None:
                own.append(("turn that it works for", meter.state.turn.usage, meter.max_turn_usd))
            limit = above.record.options.get("max_budget_usd")
            own.append(("session that it works for", meter.journal.writes.used, limit))
        return own

    def _has_price(self, model: str) -> bool:
        return self.services.cost(model, Usage()) is not None

"""How far a turn may go: in requests, and in money."""

from dataclasses import dataclass
from decimal import Decimal

from ostler.protocol.shapes import Turn, Usage
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.endings import End, over_budget
from ostler.server.engine.turn.options import Services, TurnSettings


@dataclass(frozen=True, slots=True)
class Limits:
    session: LiveSession
    services: Services
    settings: TurnSettings

    def reached(self, turn: Turn, model: str) -> End | None:
        """Why there is no further request to this model, if that is so."""
        if turn.model_requests >= self.settings.max_requests:
            return End("max_requests")
        for whose, used, budget in self._budgets(turn.usage):
            if budget is None:
                continue
            if used.cost_usd is None or not self._priced(model):
                return End("budget", over_budget(f"The budget of the {whose} cannot be kept: a price is not known."))
            if Decimal(used.cost_usd) >= Decimal(budget):
                return End("budget", over_budget(f"The budget of the {whose}, {budget} USD, is used up."))
        return None

    def _budgets(self, used: Usage) -> list[tuple[str, Usage, str | None]]:
        session_budget = self.session.record.options.get("max_budget_usd")
        return [("turn", used, self.settings.max_budget_usd), ("session", self.session.journal.used, session_budget)]

    def _priced(self, model: str) -> bool:
        return self.services.cost(model, Usage()) is not None

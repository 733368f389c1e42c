"""Pays for questions to a model beside the turn's own requests: the classifier's, and the hooks' that are prompts."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from ostler.protocol.shapes import Usage
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.models.pricing import usd


def added(total: Usage, more: Usage) -> Usage:
    known = total.cost_usd is not None and more.cost_usd is not None
    return Usage(
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cache_read_tokens=total.cache_read_tokens + more.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + more.cache_write_tokens,
        cost_usd=usd(Decimal(total.cost_usd or 0) + Decimal(more.cost_usd or 0)) if known else None,
    )


@dataclass(slots=True)
class Purse:
    """A session's. What is paid from it counts against the budgets of the session and of the turn that runs."""

    journal: Journal
    cost: Callable[[str, Usage], Decimal | None]
    state: TurnState | None = None
    """The turn that runs."""

    def pay(self, model: str, used: Usage) -> None:
        """One request, whatever came of it."""
        price = self.cost(model, used)
        request = used.changed(cost_usd=None if price is None else usd(price))
        self.journal.used = added(self.journal.used, request)
        state = self.state
        if state is None or state.turn.status == "ended":
            self.journal.paid(model, None, request)
        else:
            self.journal.paid(model, state.change(usage=added(state.turn.usage, request)), request)

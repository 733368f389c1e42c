"""Usage of a session: adds usages, and charges model requests that are not the turn's own, which are those of the
classifier and of prompt hooks."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from ostler.protocol.shapes import Usage
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.models.pricing import format_usd


def add_usage(total: Usage, more: Usage) -> Usage:
    known = total.cost_usd is not None and more.cost_usd is not None
    return Usage(
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cache_read_tokens=total.cache_read_tokens + more.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + more.cache_write_tokens,
        cost_usd=format_usd(Decimal(total.cost_usd or 0) + Decimal(more.cost_usd or 0)) if known else None,
    )


@dataclass(slots=True)
class UsageMeter:
    """Charges side requests to a session and to the turn that runs: they count against the budgets of both."""

    journal: Journal
    cost: Callable[[str, Usage], Decimal | None]
    state: TurnState | None = None
    """The turn that runs."""

    def charge(self, model: str, used: Usage) -> None:
        """Charge one request, whether or not its answer was used."""
        price = self.cost(model, used)
        request = used.changed(cost_usd=None if price is None else format_usd(price))
        self.journal.writes.used = add_usage(self.journal.writes.used, request)
        state = self.state
        if state is None or state.turn.status == "ended":
            self.journal.messages.record_usage(model, None, request)
        else:
            self.journal.messages.record_usage(model, state.change(usage=add_usage(state.turn.usage, request)), request)

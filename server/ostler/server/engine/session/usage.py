"""Usage of a session: adds usages, and charges model requests that are not the turn's own, which are those of the
classifier and of prompt hooks. What an agent uses counts for the sessions above it, too."""

from collections.abc import Callable, Iterator
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
    parent: "UsageMeter | None" = None
    """That of the session that this one works for."""
    state: TurnState | None = None
    """The turn that runs."""
    max_turn_usd: str | None = None
    """What that turn may cost."""

    def charge(self, model: str, used: Usage) -> None:
        """Charge one request, whether or not its answer was used; its `cost_usd` is what it cost beside its tokens."""
        price = self.cost(model, used)
        request = used.changed(cost_usd=None if price is None else format_usd(price + Decimal(used.cost_usd or 0)))
        self._add(request)
        state = self.state
        turn = state.turn if state is not None and state.turn.status != "ended" else None
        self.journal.messages.record_usage(model, turn, request)
        self.charge_parents(request)

    def charge_parents(self, request: Usage) -> None:
        """Add a request of this session to the sums of those above it; its row stands under the session itself."""
        for meter in self.list_parents():
            meter._add(request)

    def list_parents(self) -> Iterator["UsageMeter"]:
        """Those of the sessions above it, nearest first."""
        meter = self.parent
        while meter is not None:
            yield meter
            meter = meter.parent

    def _add(self, request: Usage) -> None:
        self.journal.writes.used = add_usage(self.journal.writes.used, request)
        if self.state is not None and self.state.turn.status != "ended":
            self.state.change(usage=add_usage(self.state.turn.usage, request))

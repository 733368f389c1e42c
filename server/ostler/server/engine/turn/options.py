"""The request for a turn, its settings, and the services that all turns share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ostler.protocol.config import Config
from ostler.protocol.session import OnAsk
from ostler.protocol.shapes import Usage
from ostler.protocol.turn import TurnOptions
from ostler.server.config.credentials import Credentials
from ostler.server.models.provider import Provider
from ostler.server.observability.metrics import ToolCounts
from ostler.storage import Tx
from ostler.storage.repositories.idempotency import Key


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A turn that is asked for."""

    options: TurnOptions
    on_ask: OnAsk | None = None
    """What becomes of asks in this turn; overrides the session's setting."""
    queue: bool = False
    key: Key | None = None
    by_model: bool = False
    """The input is a model's, for an agent, and is taken as it is."""
    together: Callable[[Tx], None] | None = None
    """Stored in one unit of work with the start of the turn."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The settings of one turn, stored with it."""

    model: str
    max_requests: int
    max_budget_usd: str | None = None
    timeout_ms: int | None = None
    thinking: dict[str, Any] | None = None
    tool_choice: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    on_ask: Any = None
    wait_for_agents: bool = False
    skills: Sequence[str] = ()
    """The skills that its input takes up."""


@dataclass(frozen=True, slots=True)
class TurnServices:
    """The services that the turns of all sessions share."""

    provider: Callable[[str], Provider]
    credentials: Credentials
    """The keys of the providers: looked at before each turn."""
    config: Callable[[], Config]
    cost: Callable[[str, Usage], Decimal | None]
    max_output: Callable[[str], int]
    window: Callable[[str], int]
    """How many tokens a model's window holds."""
    tool_counts: ToolCounts

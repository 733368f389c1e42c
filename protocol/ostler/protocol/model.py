"""Models on the wire: which there are, what they hold, and what they cost."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import Params, Shape, Usd


class ModelList(Params):
    """Whose models to list."""

    session_id: SessionId | None = None
    """The session whose model is the `default`. Null: the model of new sessions is."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class ModelPrice(Shape):
    """What a million tokens cost, in dollars."""

    input_usd: Usd
    """Tokens sent."""
    output_usd: Usd
    """Tokens written."""
    cache_read_usd: Usd
    """Tokens found in the cache."""
    cache_write_usd: Usd
    """Tokens put into the cache."""


class ModelEntry(Shape):
    """A model that can be asked for."""

    id: str
    """Its name in `model`."""
    display_name: str
    """Its name for people."""
    provider: str
    """Where its answers come from."""
    context_window: int | None = None
    """Tokens that it takes in, where that is known."""
    max_output: int | None = None
    """Tokens that it writes at most, where that is known."""
    price: ModelPrice | None = None
    """What it costs, where that is known; long requests may cost more."""
    default: bool = False
    """The model in force: the session's, or that of new sessions."""


class ModelPage(Shape):
    """Models, as the provider lists them, or as the daemon knows them."""

    models: list[ModelEntry]
    """The models of this page."""
    source: Literal["provider", "table"]
    """Who says so: the `provider`, just now, or the daemon's own `table` of prices."""
    note: str | None = None
    """Why the provider was not asked, or did not say."""
    next: str | None
    """The `page` to ask for next; null at the end."""

"""Trust on the wire: which folders may bring settings, hooks and servers that act."""

from typing import Annotated

from pydantic import Field

from ostler.protocol.ids import ClientId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import Params, PathText, Shape, Time


class TrustList(Params):
    """Which page of the trusted folders."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class Trust(Shape):
    """A folder that a person trusted, bound to what it brought at that time."""

    folder: str
    """The folder."""
    digest: str
    """SHA-256 of what was trusted: its hooks, allow rules and servers."""
    granted_at: Time
    """When it was trusted."""
    granted_by: ClientId | None = None
    """The client that did it, where it said who it is."""
    current: bool = True
    """Whether it counts: the folder still brings just that, and nobody took it back. If not, it is asked again."""
    what: list[str] = []
    """What the folder brings now that would act, a line each."""


class TrustPage(Shape):
    """Trusted folders, by name."""

    trusts: list[Trust]
    """The folders of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class TrustFor(Params):
    """One folder."""

    folder: PathText
    """An absolute path."""

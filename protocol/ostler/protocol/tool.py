"""What can be asked about the tools of a session."""

from typing import Annotated, Any

from pydantic import Field

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import Params, Shape


class ToolList(Params):
    """Whose tools to list."""

    session_id: SessionId | None = None
    """The tools as this session has them. Null: all that the daemon has."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class ToolInfo(Shape):
    """A tool, as the model and the people see it."""

    name: str
    """Its name, as permission rules spell it."""
    aliases: list[str] = []
    """Other names that work."""
    summary: str
    """One line for people."""
    input_schema: dict[str, Any]
    """JSON Schema of what it takes."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the `output` of its calls; null where the tool's author gave none."""
    source: str
    """Where it comes from: `built-in`, the name of a plug-in's package, or an MCP server."""
    read_only: bool
    """It never changes anything."""
    deferred: bool = False
    """Its schema is left out of the prompt until the model looks for it; without a session: it may be left out."""
    enabled: bool = True
    """It can be used in this session."""
    disabled_reason: str | None = None
    """Why it cannot."""


class ToolPage(Shape):
    """Tools, in the order in which the model is told of them."""

    tools: list[ToolInfo]
    """The tools of this page."""
    next: str | None = None
    """The `page` to ask for next; null at the end."""


class CallRef(Params):
    """One call."""

    call_id: CallId
    """Which call."""

"""MCP servers: those of a session, how each is, and entries that are added and removed."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.wire import JsonObject, Name, Params, Shape

McpStatus = Literal["needs_trust", "stopped", "starting", "connected", "failed"]
McpScope = Literal["user", "project", "local"]


class McpServer(Shape):
    """An MCP server, as the last use of it has left it."""

    name: str
    """Its name: its tools are `mcp__NAME__TOOL`."""
    scope: Literal["policy", "user", "project", "local", "session"]
    """Whose entry it is."""
    file: str | None
    """The file that the entry stands in; null for one of `session/create`."""
    transport: Literal["stdio", "http", "sse"]
    """`stdio`: a program that is started here."""
    target: str
    """The program or the address, with variables as they stand in the entry."""
    status: McpStatus
    """`needs_trust`: it does nothing before a person has trusted the folder. `stopped`: no turn has used it yet."""
    error: str | None = None
    """Why it failed."""
    tools: list[str] = []
    """Its tools, by the server's own names."""
    problems: list[str] = []
    """What was left out of its tools, and why."""
    resources: bool = False
    """Whether it has resources."""
    prompts: bool = False
    """Whether it has prompts."""
    protocol_version: str | None = None
    """The version of the protocol that it speaks; null where it was not reached yet."""
    log: str = ""
    """The end of what it printed to its standard error, or of the HTTP errors that it gave."""


class McpList(Params):
    """Whose servers to list."""

    session_id: SessionId | None = None
    """The session. Null: those that the user and the policy name, which every session has."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class McpPage(Shape):
    """MCP servers, by name."""

    servers: list[McpServer]
    """The servers of this page."""
    next: str | None = None
    """The `page` to ask for next; null at the end."""


class McpRef(Params):
    """One server of a session."""

    session_id: SessionId
    """The session."""
    name: Name
    """The server."""


class McpAdd(Params):
    """An entry to be written."""

    name: Name
    """What the server shall be called."""
    entry: JsonObject
    """What starts or reaches it, as in `.mcp.json`."""
    scope: McpScope = "local"
    """`user`: in all sessions. `project`: `.mcp.json` of the folder. `local`: only here, in a file that git ignores."""
    cwd: Name | None = None
    """The folder of `project` and `local`."""


class McpRemove(Params):
    """An entry to be taken out."""

    name: Name
    """The server."""
    scope: McpScope = "local"
    """Where its entry stands."""
    cwd: Name | None = None
    """The folder of `project` and `local`."""


class McpEntryChange(Shape):
    """An entry that was written or taken out."""

    name: str
    """The server."""
    scope: McpScope
    """Where."""
    file: str
    """The file that was changed."""

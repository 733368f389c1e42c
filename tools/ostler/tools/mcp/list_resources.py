"""ListMcpResources: what the MCP servers of the session offer to be read."""

from typing import Any

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import ServerCallFailed
from ostler.tools.text import one_line
from ostler.tools.tool import (
    Activity,
    Allow,
    Block,
    Check,
    Failure,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits

_SHOWN = 300


class ListResourcesInput(ToolInput):
    """Whose resources."""

    server: str | None = Field(None, description="Only those of this server.")


class ResourceEntry(ToolOutput):
    """One resource."""

    server: str
    """The server that has it."""
    uri: str
    """What it is read by."""
    name: str = ""
    """What it is called."""
    mime_type: str | None = None
    """What it consists of."""
    description: str = ""
    """What it is for."""


class ListResourcesOutput(ToolOutput):
    """What there is."""

    resources: list[ResourceEntry]
    """All of them."""


class ListMcpResources(Tool[ListResourcesInput, ListResourcesOutput]):
    """Lists what can be read of servers."""

    name = "ListMcpResources"
    Input = ListResourcesInput
    Output = ListResourcesOutput
    title = "Lists the resources of MCP servers"
    aliases = ("mcp__listResources", "ListMcpResourcesTool")
    search_hint = "mcp resources list servers uri"
    deferred = True
    only_reads = True
    given_to_agents = "all"
    permissions = PermissionTraits(server="server")

    def is_enabled(self, session: SessionView) -> bool:
        return bool(session.resource_servers)

    def explain_absence(self, session: SessionView) -> str:
        return "no MCP server of this session has resources"

    def is_concurrency_safe(self, given: ListResourcesInput) -> bool:
        return True

    def activity(self, given: ListResourcesInput) -> Activity:
        return "list"

    def summary(self, given: ListResourcesInput) -> str:
        return f"Resources of {given.server}" if given.server else "Resources of all servers"

    async def validate(self, given: ListResourcesInput, context: ToolContext) -> Failure | None:
        return find_unknown_server(given.server, context) if given.server is not None else None

    async def check_permission(self, given: ListResourcesInput, context: ToolContext) -> Check:
        return Allow()  # the names of what could be read, which the server was started to give

    async def run(self, given: ListResourcesInput, context: ToolContext) -> ToolResult[ListResourcesOutput] | Failure:
        names = [given.server] if given.server is not None else context.session.resource_servers
        found: list[ResourceEntry] = []
        try:
            for name in names:
                found += [_build_entry(name, each) for each in await context.services.servers.list_resources(name)]
        except ServerCallFailed as failed:
            if not found:
                return Failure(str(failed))
        return ToolResult(ListResourcesOutput(resources=found))

    def render(self, output: ListResourcesOutput) -> list[Block]:
        lines = [
            f"{each.server}\t{each.uri}\t{each.mime_type or ''}\t{one_line(f'{each.name} {each.description}', _SHOWN)}"
            for each in output.resources
        ]
        return [text_block("\n".join(lines) or "There are no resources.")]


def find_unknown_server(server: str, context: ToolContext) -> Failure | None:
    """The words for a model that names a server which has no resources."""
    known = context.session.resource_servers
    if server in known:
        return None
    return Failure(f"There is no MCP server {server[:100]!r} with resources. There are: {', '.join(known[:20])}.")


def _build_entry(server: str, given: dict[str, Any]) -> ResourceEntry:
    return ResourceEntry(
        server=server,
        uri=str(given.get("uri") or given.get("uriTemplate") or ""),
        name=str(given.get("title") or given.get("name") or ""),
        mime_type=given.get("mimeType"),
        description=str(given.get("description") or ""),
    )

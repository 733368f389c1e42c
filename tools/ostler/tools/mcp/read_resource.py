"""ReadMcpResource: reads a resource of an MCP server; what is no text becomes a file."""

from typing import Any

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.mcp.list_resources import find_unknown_server
from ostler.tools.mcp.results import decode_base64, find_ending
from ostler.tools.mcp.server_tool import save_file
from ostler.tools.services import ServerCallFailed
from ostler.tools.text import one_line
from ostler.tools.threads import change_in_thread
from ostler.tools.tool import Activity, Block, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits


class ReadResourceInput(ToolInput):
    """Which resource."""

    server: str = Field(description="The server's name.")
    uri: str = Field(description="The URI of the resource.", min_length=1, max_length=4_000)


class ResourceContent(ToolOutput):
    """A part of a resource."""

    uri: str
    """Its address."""
    mime_type: str | None = None
    """What it consists of."""
    text: str | None = None
    """The text of it; null where it is none."""
    blob_saved_to: str | None = None
    """The file that it was saved to, where it is no text."""
    problem: str | None = None
    """Why there is neither."""


class ReadResourceOutput(ToolOutput):
    """What was read."""

    contents: list[ResourceContent]
    """Its parts."""


class ReadMcpResource(Tool[ReadResourceInput, ReadResourceOutput]):
    """Reads a resource."""

    name = "ReadMcpResource"
    Input = ReadResourceInput
    Output = ReadResourceOutput
    title = "Reads a resource of an MCP server"
    aliases = ("ReadMcpResourceTool",)
    search_hint = "mcp resource read uri server"
    deferred = True
    only_reads = True
    given_to_agents = "all"
    max_result_chars = 100_000
    permissions = PermissionTraits(server="server")

    def is_enabled(self, session: SessionView) -> bool:
        return bool(session.resource_servers)

    def explain_absence(self, session: SessionView) -> str:
        return "no MCP server of this session has resources"

    def is_concurrency_safe(self, given: ReadResourceInput) -> bool:
        return True

    def activity(self, given: ReadResourceInput) -> Activity:
        return "read"

    def summary(self, given: ReadResourceInput) -> str:
        return f"Read {one_line(given.uri, 200)} of {given.server}"

    async def validate(self, given: ReadResourceInput, context: ToolContext) -> Failure | None:
        return find_unknown_server(given.server, context)

    async def run(self, given: ReadResourceInput, context: ToolContext) -> ToolResult[ReadResourceOutput] | Failure:
        try:
            contents = await context.services.servers.read_resource(given.server, given.uri)
        except ServerCallFailed as failed:
            return Failure(str(failed))
        return ToolResult(await change_in_thread(_build_output, contents, context.session))

    def render(self, output: ReadResourceOutput) -> list[Block]:
        return [text_block(_render(each)) for each in output.contents] or [text_block("It is empty.")]


def _build_output(contents: list[dict[str, Any]], session: SessionView) -> ReadResourceOutput:
    return ReadResourceOutput(contents=[_build_content(each, session) for each in contents])


def _build_content(given: dict[str, Any], session: SessionView) -> ResourceContent:
    uri, mime = str(given.get("uri") or ""), given.get("mimeType")
    if isinstance(given.get("text"), str):
        return ResourceContent(uri=uri, mime_type=mime, text=given["text"])
    data = decode_base64(given.get("blob"))
    if data is None:
        return ResourceContent(uri=uri, mime_type=mime, problem="Its data is no base64.")
    try:
        path = save_file(session, data, find_ending(str(mime or "")))
    except OSError as error:
        return ResourceContent(uri=uri, mime_type=mime, problem=f"It could not be saved: {error}")
    return ResourceContent(uri=uri, mime_type=mime, blob_saved_to=path)


def _render(content: ResourceContent) -> str:
    if content.text is not None:
        return content.text
    saved = f"saved to {content.blob_saved_to}" if content.blob_saved_to else content.problem or ""
    return f"({content.uri}, {content.mime_type or 'of an unknown type'}: {saved})"

"""A tool of an MCP server: it says of itself what the server says, and a call of it goes there."""

import os
import secrets
from typing import Any

import orjson
from pydantic import PrivateAttr

from ostler.tools.call_subject import PATH_PARAMETERS
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.mcp.declaration import ToolDeclaration, list_rule_names
from ostler.tools.mcp.results import map_content
from ostler.tools.permissions.server_files import build_server_folder
from ostler.tools.services import ServerAnswer, ServerCallFailed
from ostler.tools.threads import change_in_thread
from ostler.tools.tool import Activity, Block, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits

_CLASSIFIED_CHARS = 4_000


class ServerToolInput(ToolInput):
    """Whatever the server's schema asks for: the server checks it."""

    arguments: dict[str, Any]


class ServerToolOutput(ToolOutput):
    """What the server gave."""

    content: list[dict[str, Any]]
    """Its content, without the data of pictures, sounds and files."""
    structured_content: Any = None
    """As the server gave it."""
    meta: Any = None
    """The server's `_meta`."""

    _blocks: list[Block] = PrivateAttr(default_factory=list)


class ServerTool(Tool[ServerToolInput, ServerToolOutput]):
    """One tool of one server."""

    Input = ServerToolInput
    Output = ServerToolOutput
    max_result_chars = 100_000
    deferred = True
    given_to_agents = "all"

    def __init__(self, name: str, declared: ToolDeclaration) -> None:
        self.name = name
        self.declared = declared
        self.source = f"mcp:{declared.server}"
        self.title = declared.title or declared.tool
        self.only_reads = declared.reads_only
        self.always_load = declared.always_load
        self.search_hint = declared.search_hint
        self.rule_names = list_rule_names(declared.server, declared.tool)
        self.on_server = (declared.server, declared.tool)
        self.permissions = PermissionTraits(server=self._get_server, paths=_list_given_paths)

    def description(self, session: SessionView) -> str:
        return self.declared.description

    def input_schema(self, session: SessionView) -> dict[str, Any]:
        return dict(self.declared.schema)

    def parse(self, given: dict[str, Any]) -> ServerToolInput:
        return ServerToolInput(arguments=given)

    def is_concurrency_safe(self, given: ServerToolInput) -> bool:
        return self.only_reads

    def is_destructive(self, given: ServerToolInput) -> bool:
        return self.declared.destructive

    def activity(self, given: ServerToolInput) -> Activity:
        return "read" if self.only_reads else "other"

    def summary(self, given: ServerToolInput) -> str:
        return f"{self.declared.tool} of {self.declared.server}"

    def classifier_text(self, given: ServerToolInput) -> str:
        arguments = orjson.dumps(given.arguments, default=str).decode()
        return f"{self.declared.tool} of the MCP server {self.declared.server}: {arguments[:_CLASSIFIED_CHARS]}"

    async def run(self, given: ServerToolInput, context: ToolContext) -> ToolResult[ServerToolOutput] | Failure:
        def forward(progress: dict[str, Any]) -> None:
            context.progress("mcp", progress)

        declared = self.declared
        try:
            answer = await context.services.servers.call_tool(declared.server, declared.tool, given.arguments, forward)
        except ServerCallFailed as failed:
            return Failure(str(failed))
        output = await build_output(answer, context.session)
        return ToolResult(output, is_error=answer.is_error)

    def render(self, output: ServerToolOutput) -> list[Block]:
        return list(output._blocks)

    async def replace_output(self, given: Any, context: ToolContext) -> ServerToolOutput | None:
        """A hook's words in the place of the output: a text, content as a server would give it, or other JSON."""
        if isinstance(given, dict) and isinstance(given.get("content"), list):
            answer = ServerAnswer(given["content"], given.get("structuredContent"))
        elif isinstance(given, list) and all(isinstance(each, dict) and "type" in each for each in given):
            answer = ServerAnswer(given)
        else:
            text = given if isinstance(given, str) else orjson.dumps(given, default=str).decode()
            answer = ServerAnswer([{"type": "text", "text": text}])
        return await build_output(answer, context.session)

    def _get_server(self, given: Any) -> str:
        return self.declared.server


async def build_output(answer: ServerAnswer, session: SessionView) -> ServerToolOutput:
    """The output of a call, with what the model sees of it. What is no text becomes a file."""

    def save(data: bytes, ending: str) -> str:
        return save_file(session, data, ending)

    mapped = await change_in_thread(map_content, answer.content, answer.structured, save)
    output = ServerToolOutput(content=mapped.shown, structured_content=answer.structured, meta=answer.meta)
    output._blocks.extend(mapped.blocks or [text_block("")])
    return output


def save_file(session: SessionView, data: bytes, ending: str) -> str:
    """Keeps what a server gave in a file of the session's own. Raises OSError."""
    folder = build_server_folder(session.home, session.session_id)
    folder.mkdir(0o700, parents=True, exist_ok=True)
    path = folder / f"{secrets.token_hex(6)}{ending}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return str(path)


def _list_given_paths(given: ServerToolInput) -> tuple[str, ...]:
    """Parameters that are named like a path are bound by the rules about files, as those of any tool."""
    named = (given.arguments.get(name) for name in PATH_PARAMETERS)
    paths = (each.removeprefix("file://") for each in named if isinstance(each, str))
    return tuple(os.path.expanduser(path) for path in paths if path and "://" not in path)

"""ToolSearch: finds tools that were left out of the prompt, and loads them."""

from pydantic import Field, PrivateAttr

from ostler.tools.context import ToolContext
from ostler.tools.discovery.search import find_named, parse_query, rank
from ostler.tools.services import DeferredTool
from ostler.tools.spelling import find_close
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

_MAX_RESULTS = 50
_DEFAULT_RESULTS = 5
_MAX_QUERY = 2_000


class ToolSearchInput(ToolInput):
    """What is looked for."""

    query: str = Field(min_length=1, max_length=_MAX_QUERY, description="`select:NAME,NAME`, or words.")
    max_results: int = Field(_DEFAULT_RESULTS, ge=1, le=_MAX_RESULTS, description="How many to load at most.")


class ToolSearchOutput(ToolOutput):
    """What was found, and loaded."""

    matches: list[str]
    """Names of tools, the best first."""
    query: str
    total_deferred_tools: int
    """How many there are to be found, loaded ones included."""
    pending_mcp_servers: list[str]
    """Servers that are still starting: their tools may be found later."""
    _blocks: list[Block] = PrivateAttr(default_factory=list)
    """What the model gets: references where its API knows them, else the schemas."""


class ToolSearch(Tool[ToolSearchInput, ToolSearchOutput]):
    """Finds and loads deferred tools."""

    name = "ToolSearch"
    Input = ToolSearchInput
    Output = ToolSearchOutput
    title = "Finds tools and loads them"
    search_hint = "discover load deferred schema available"
    only_reads = True
    always_load = True
    finds_tools = True
    given_to_agents = "all"
    max_result_chars = 100_000

    def activity(self, given: ToolSearchInput) -> Activity:
        return "search"

    def is_concurrency_safe(self, given: ToolSearchInput) -> bool:
        return True

    def summary(self, given: ToolSearchInput) -> str:
        return f"Look for tools: {one_line(given.query, 100)}"

    async def check_permission(self, given: ToolSearchInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: ToolSearchInput, context: ToolContext) -> ToolResult[ToolSearchOutput] | Failure:
        discovery = context.services.discovery
        tools, query = discovery.list_tools(), parse_query(given.query)
        missing: list[str] = []
        if query.names is not None:
            found, missing = _select(tools, query.names)
            if not found:
                return Failure(" ".join(_explain(name, tools, context) for name in missing) or "select: names no tool.")
        else:
            found = rank(tools, query)[: given.max_results]
        output = ToolSearchOutput(
            matches=[tool.name for tool in found],
            query=given.query,
            total_deferred_tools=len(tools),
            pending_mcp_servers=[],
        )
        output._blocks = discovery.load([tool.name for tool in found]) if found else [_describe_nothing(tools)]
        # Beside references no text may stand in a result, so that it follows as a message.
        told = [[text_block(" ".join(_explain(name, tools, context) for name in missing))]] if missing else []
        return ToolResult(output, messages=told)

    def render(self, output: ToolSearchOutput) -> list[Block]:
        return output._blocks or [text_block("\n".join(output.matches) or "No tool was found.")]


def _select(tools: list[DeferredTool], names: tuple[str, ...]) -> tuple[list[DeferredTool], list[str]]:
    pairs = [(name, find_named(tools, name)) for name in names[:_MAX_RESULTS]]
    found = {tool.name: tool for _, tool in pairs if tool is not None}
    return list(found.values()), [name for name, tool in pairs if tool is None]


def _explain(name: str, tools: list[DeferredTool], context: ToolContext) -> str:
    """Why a tool cannot be selected."""
    if context.session.has(name) and context.session.tools is not None:
        return f"{name} is loaded already: call it."
    close = find_close(name, [tool.name for tool in tools], 3)
    hint = f" Did you mean {' or '.join(close)}?" if close else " Look for it with words."
    return f"There is no tool {name[:100]!r} to be loaded.{hint}"


def _describe_nothing(tools: list[DeferredTool]) -> Block:
    return text_block(f"No tool was found among {len(tools)}. Try other words, or fewer.")

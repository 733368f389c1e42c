"""The tables of docs/prompt.md: what the prompt and the schemas of the built-in tools cost, in tokens."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson

from ostler.protocol.ids import SessionId
from ostler.server.prompt.agent_kinds import load_built_in_kinds
from ostler.server.prompt.system_prompt import render_rules
from ostler.tools.builtin import BUILT_IN
from ostler.tools.context import SessionView
from ostler.tools.token_estimate import BYTES_PER_TOKEN
from ostler.tools.tool import AnyTool

_TABLE: Final = re.compile(r"(<!-- what it costs -->\n).*?(\n<!-- / -->)", re.DOTALL)


def refresh_costs(page: Path) -> str:
    """The page with its table as it is now."""
    return _TABLE.sub(lambda found: found[1] + render_costs() + found[2], page.read_text())


def build_full_view() -> SessionView:
    """A session with the preset `full`, of a person who can be asked."""
    view = SessionView(SessionId(""), "/", "/", (), "default", plan_file="/plan.md", agent_kinds=load_built_in_kinds())
    names = frozenset(tool.name for tool in BUILT_IN if tool.is_enabled(view) and not tool.finds_tools)
    # PowerShell is there on some machines only.
    return replace(view, tools=names - {"PowerShell"})


def count_prompt_tokens() -> int:
    """The rules of the system prompt and all tools, before the first message."""
    view = build_full_view()
    return _count(render_rules(view.tools or ())) + sum(sum(_measure(tool, view)) for tool in _list_tools(view))


def render_costs() -> str:
    return "\n".join(_render_lines())


def _render_lines() -> Iterator[str]:
    view = build_full_view()
    rules = _count(render_rules(view.tools or ()))
    yield "| | description | schema | together |"
    yield "|---|---:|---:|---:|"
    total = rules
    for tool in _list_tools(view):
        described, schema = _measure(tool, view)
        total += described + schema
        name = f"{tool.name} (can be deferred)" if tool.deferred else tool.name
        yield f"| {name} | {described} | {schema} | {described + schema} |"
    yield f"| the rules of the system prompt | | | {rules} |"
    yield f"| **before the first message** | | | **{total:,}** |"


def _list_tools(view: SessionView) -> list[AnyTool]:
    return [tool for tool in BUILT_IN if tool.name in (view.tools or ())]


def _measure(tool: AnyTool, view: SessionView) -> tuple[int, int]:
    frame = orjson.dumps({"name": tool.name, "input_schema": tool.input_schema(view)})
    return _count(tool.description(view)), _count(frame.decode())


def _count(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)

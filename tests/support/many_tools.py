"""A plug-in with many tools, which a daemon loads through real entry points: it stands for servers with as many."""

import os
from pathlib import Path
from typing import Any

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import Allow as Allowed
from ostler.tools.tool import AnyTool, Block, Check, Tool, ToolInput, ToolOutput, ToolResult, text_block
from tests.support.repository import ROOT

_THINGS = ("Stable", "Horse", "Saddle", "Bridle", "Hay", "Oats", "Groom", "Carriage", "Paddock", "Farrier")
_DEEDS = ("List", "Find", "Create", "Remove", "Rename", "Count", "Move", "Lend", "Repair", "Report")


class LedgerInput(ToolInput):
    """Of which entry."""

    entry: int = Field(ge=1, description="The number of the entry in the ledger, as it stands on its first page.")
    remark: str = Field("", max_length=500, description="A remark that is written beside it, for whoever comes next.")


class LedgerOutput(ToolOutput):
    """What became of it."""

    done: str


class LedgerTool(Tool[LedgerInput, LedgerOutput]):
    """One of many alike; each has a name and a hint of its own."""

    name = "Ledger"
    Input = LedgerInput
    Output = LedgerOutput
    deferred = True

    def description(self, session: SessionView) -> str:
        return (
            f"Keeps the ledger of the yard: {self.search_hint}. It takes the number of the entry, and says what "
            "was done. What it writes is seen by everybody who looks after the yard, and cannot be taken back."
        )

    async def check_permission(self, given: LedgerInput, context: ToolContext) -> Check:
        return Allowed()

    async def run(self, given: LedgerInput, context: ToolContext) -> ToolResult[LedgerOutput]:
        return ToolResult(LedgerOutput(done=f"{self.name} {given.entry}"))

    def render(self, output: LedgerOutput) -> list[Block]:
        return [text_block(output.done)]


def name_tool(number: int) -> str:
    """`ListStable`, `FindStable` … and from the hundredth on with a number behind it."""
    thing, deed = _THINGS[number // 10 % 10], _DEEDS[number % 10]
    return f"{deed}{thing}{number // 100 or ''}"


def make_tool(number: int) -> AnyTool:
    name = name_tool(number)
    hint = f"{_DEEDS[number % 10].lower()} {_THINGS[number // 10 % 10].lower()} yard"
    made: type[AnyTool] = type(f"Ledger{number}", (LedgerTool,), {"name": name, "search_hint": hint})
    return made()


def __getattr__(name: str) -> Any:
    """`tool_17`: what makes the tool of this number, as an entry point names it."""
    if not name.startswith("tool_"):
        raise AttributeError(name)
    return lambda: make_tool(int(name.removeprefix("tool_")))


def install(folder: Path, count: int) -> dict[str, str]:
    """Lay the plug-in out as pip would; returns the environment of a daemon that finds it."""
    info = folder / "ledger-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    lines = (f"tool_{number} = tests.support.many_tools:tool_{number}" for number in range(count))
    (info / "entry_points.txt").write_text("\n".join(["[ostler.tools]", *lines]) + "\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}

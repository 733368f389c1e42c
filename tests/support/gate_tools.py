"""A plug-in with tools that tests can stop and let go: loaded by the daemon through a real entry point."""

import os
from pathlib import Path
from typing import Final

import anyio
from pydantic import Field

from ostler.protocol.errors import StorageFailed
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import (
    Allow,
    Block,
    Check,
    Failure,
    FolderChanged,
    Pass,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits, ShellTraits
from tests.support.repository import ROOT

_POLL_SECONDS: Final = 0.005
_ENTRY_POINTS: Final = """\
[ostler.tools]
gate = tests.support.gate_tools:Gate
last = tests.support.gate_tools:StubbornGate
shell = tests.support.gate_tools:ShellGate
asking = tests.support.gate_tools:AskingGate
breaking = tests.support.gate_tools:Breaking
"""


class GateInput(ToolInput):
    """Which gate, and what the tool says of itself."""

    path: str
    """A file: the call ends when it exists. `PATH.here` tells that the call stands at the gate."""
    safe: bool = False
    reads: bool = False
    fails: bool = False
    folder: str = ""
    """Where the next command of the session starts, once the call has passed."""
    tells: list[str] = Field(default_factory=list)
    """Further messages for the model, each one text."""
    instead: str = ""
    """The gate to which the tool's own check sends the call, which is unsafe there."""


class GateOutput(ToolOutput):
    """Which gate it was."""

    path: str


class Gate(Tool[GateInput, GateOutput]):
    """Waits until a file exists."""

    name = "Gate"
    Input = GateInput
    Output = GateOutput
    permissions = PermissionTraits(text="path")

    def description(self, session: SessionView) -> str:
        return "Waits until a file exists."

    def is_concurrency_safe(self, given: GateInput) -> bool:
        return given.safe

    def is_read_only(self, given: GateInput) -> bool:
        return given.reads

    async def validate(self, given: GateInput, context: ToolContext) -> Failure | None:
        return Failure("That gate is walled up.") if given.path.endswith("/walled-up") else None

    async def check_permission(self, given: GateInput, context: ToolContext) -> Check:
        return Allow(GateInput(path=given.instead)) if given.instead else Allow()

    async def run(self, given: GateInput, context: ToolContext) -> ToolResult[GateOutput] | Failure:
        await anyio.Path(f"{given.path}.here").touch()
        gate = anyio.Path(given.path)
        while not await gate.exists():  # noqa: ASYNC110 - another process opens it
            await anyio.sleep(_POLL_SECONDS)
        if given.fails:
            return Failure("This gate fails.")
        changes = [FolderChanged(given.folder)] if given.folder else []
        return ToolResult(
            GateOutput(path=given.path), changes=changes, messages=[[text_block(words)] for words in given.tells]
        )

    def render(self, output: GateOutput) -> list[Block]:
        return [text_block(f"passed {Path(output.path).name}")]


class StubbornGate(Gate):
    """The same, but an interrupt waits for it."""

    name = "StubbornGate"
    interrupt = "block"


class ShellGate(Gate):
    """The same, but it counts as a command."""

    name = "ShellGate"
    shell = ShellTraits(is_shell=True)


class AskingGate(Gate):
    """The same, but a person is asked first."""

    name = "AskingGate"

    async def check_permission(self, given: GateInput, context: ToolContext) -> Check:
        return Pass()


class BreakingInput(ToolInput):
    """Where it breaks."""

    where: str


class Breaking(Tool[BreakingInput, GateOutput]):
    """A plug-in with mistakes."""

    name = "Breaking"
    Input = BreakingInput
    Output = GateOutput

    def description(self, session: SessionView) -> str:
        return "Breaks."

    def is_concurrency_safe(self, given: BreakingInput) -> bool:
        self._break(given, "safety")
        return True

    async def validate(self, given: BreakingInput, context: ToolContext) -> Failure | None:
        self._break(given, "validate")
        return None

    async def check_permission(self, given: BreakingInput, context: ToolContext) -> Check:
        self._break(given, "check")
        return Allow()

    async def run(self, given: BreakingInput, context: ToolContext) -> ToolResult[GateOutput] | Failure:
        self._break(given, "run")
        self._break(given, "disk")
        return ToolResult(GateOutput(path="" if given.where == "empty" else given.where))

    def render(self, output: GateOutput) -> list[Block]:
        if output.path == "render":
            raise RuntimeError("render breaks")
        return [text_block(output.path)]

    def _break(self, given: BreakingInput, place: str) -> None:
        if given.where == "disk" == place:
            raise StorageFailed("the disk breaks")
        if given.where == place:
            raise RuntimeError(f"{place} breaks")


def install(folder: Path) -> dict[str, str]:
    """Lay the plug-in out as pip would; returns the environment of a daemon that finds it."""
    info = folder / "gates-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gates\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    root = ROOT
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(root)])}

"""What an agent can do. This is the front door: what a plug-in needs is imported from here, and from nowhere below."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.tools.context import SessionView, ToolContext
    from ostler.tools.fs.paths import check_path
    from ostler.tools.threads import change_in_thread, read_in_thread
    from ostler.tools.tool import (
        Activity,
        Allow,
        AskFirst,
        AskPeople,
        Block,
        Check,
        Failure,
        FileChanged,
        Pass,
        PlanProposal,
        Questions,
        Refuse,
        Tool,
        ToolInput,
        ToolOutput,
        ToolResult,
        text_block,
    )
    from ostler.tools.traits import PermissionTraits, ShellTraits

__all__ = [
    "Activity",
    "Allow",
    "AskFirst",
    "AskPeople",
    "Block",
    "Check",
    "Failure",
    "FileChanged",
    "Pass",
    "PermissionTraits",
    "PlanProposal",
    "Questions",
    "Refuse",
    "SessionView",
    "ShellTraits",
    "Tool",
    "ToolContext",
    "ToolInput",
    "ToolOutput",
    "ToolResult",
    "change_in_thread",
    "check_path",
    "read_in_thread",
    "text_block",
]

__getattr__ = export_lazily(
    __name__,
    {
        "Activity": "tool",
        "Allow": "tool",
        "AskFirst": "tool",
        "AskPeople": "tool",
        "Block": "tool",
        "Check": "tool",
        "Failure": "tool",
        "FileChanged": "tool",
        "Pass": "tool",
        "PermissionTraits": "traits",
        "PlanProposal": "tool",
        "Questions": "tool",
        "Refuse": "tool",
        "SessionView": "context",
        "ShellTraits": "traits",
        "Tool": "tool",
        "ToolContext": "context",
        "ToolInput": "tool",
        "ToolOutput": "tool",
        "ToolResult": "tool",
        "change_in_thread": "threads",
        "check_path": "fs.paths",
        "read_in_thread": "threads",
        "text_block": "tool",
    },
)

"""The names that permission rules are written with: what their contents are, and which tools' rules cover others.

Rules are read where no tool is loaded, and name tools that this daemon may not have. So the words of the rule language
stand here, once; what a tool is bound by, it says itself (`PermissionTraits`), and a test compares the two.
"""

from dataclasses import dataclass
from typing import Final, Literal

READ: Final = "Read"
"""Its rules are about files that are read, by whatever tool."""
EDIT: Final = "Edit"
"""Its rules are about files that are changed, by whatever tool."""
BASH: Final = "Bash"
"""Its rules are about commands, also of other tools that run them."""

WEB_FETCH: Final = "WebFetch"
"""Its rules are about hosts."""

ContentKind = Literal["path", "command", "host", "agent", "skill", "key", "text"]


@dataclass(frozen=True, slots=True)
class RuleFamily:
    """What stands in the parentheses of a tool's rules."""

    kind: ContentKind
    covered_by: str | None = None
    """The tool whose rules apply to it beside its own."""


_FAMILIES: Final = {
    READ: RuleFamily("path"),
    EDIT: RuleFamily("path"),
    "Write": RuleFamily("path", EDIT),
    "NotebookEdit": RuleFamily("path", EDIT),
    "Grep": RuleFamily("path", READ),
    "Glob": RuleFamily("path", READ),
    "LSP": RuleFamily("path", READ),
    BASH: RuleFamily("command"),
    "PowerShell": RuleFamily("command"),
    WEB_FETCH: RuleFamily("host"),
    "WebSearch": RuleFamily("text"),
    "Agent": RuleFamily("agent"),
    "Task": RuleFamily("agent"),
    "Skill": RuleFamily("skill"),
    "SlashCommand": RuleFamily("skill"),
    "Config": RuleFamily("key"),
}

COVERED_BY: Final = {name: family.covered_by for name, family in _FAMILIES.items() if family.covered_by is not None}
"""Tools whose rules apply to a tool beside its own."""


def find_content_kind(tool: str) -> ContentKind | None:
    """What the content of a rule about it is; None for a tool of a plug-in or an MCP server."""
    family = _FAMILIES.get(tool)
    return family.kind if family is not None else None

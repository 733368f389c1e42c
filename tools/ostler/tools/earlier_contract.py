"""The contract of an earlier release: what its plug-ins say in members of their own is put into the traits.

It works for one release, and the daemon's log says what to write instead.
"""

from dataclasses import replace
from typing import Any, Final

from ostler.tools.tool import AnyTool, Tool

_PERMISSION_MEMBERS: Final = {
    "path": "path",
    "list_paths": "paths",
    "path_rules": "rule_family",
    "server": "server",
    "permission_matcher": "text",
    "subject": "subject",
    "denied_code": "denied_code",
}
"""Members of an earlier `Tool`, and where in `permissions` the same is said now."""
_SHELL_MEMBERS: Final = {
    "is_shell": "is_shell",
    "runs_commands": "runs_commands",
    "waits_at_gate": "waits_at_gate",
    "only_waits": "only_waits",
    "writes_files": "writes_files",
    "bound_to": "bound_to",
    "stopped": "stopped",
}
EARLIER_MEMBERS: Final = {
    **{member: f"permissions.{trait}" for member, trait in _PERMISSION_MEMBERS.items()},
    **{member: f"shell.{trait}" for member, trait in _SHELL_MEMBERS.items()},
}


def list_earlier_members(tool: AnyTool) -> list[str]:
    """The members of the earlier contract that a tool has."""
    return [member for member in EARLIER_MEMBERS if hasattr(type(tool), member) and not hasattr(Tool, member)]


def adopt_earlier_members(tool: AnyTool) -> None:
    """Puts what a tool says in members of the earlier contract into its traits."""
    found = list_earlier_members(tool)
    for traits, members in (("permissions", _PERMISSION_MEMBERS), ("shell", _SHELL_MEMBERS)):
        said: dict[str, Any] = {members[member]: getattr(tool, member) for member in found if member in members}
        if said:
            # An instance's own value: the class is the plug-in's.
            setattr(tool, traits, replace(getattr(tool, traits), **said))

"""The events at which hooks run, and what an answer can do at each."""

from collections.abc import Mapping
from typing import Any, Final

TOOL_EVENTS: Final = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
DECIDING_EVENTS: Final = frozenset({"PreToolUse", "PermissionRequest"})
"""A no is a decision about the call."""
BLOCKING_EVENTS: Final = frozenset(
    {
        "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "TaskCreated", "TaskCompleted", "WorktreeCreate",
        "ConfigChange",
    }
)  # fmt: skip
"""A no keeps the thing from happening."""
FEEDBACK_EVENTS: Final = frozenset({"PostToolUse", "PostToolUseFailure"})
"""It has happened: a no is told to the model."""
CONTEXT_EVENTS: Final = frozenset({"UserPromptSubmit", "SessionStart", "SubagentStart"})
"""Plain words that a hook prints are for the model."""

# What a matcher is compared with. Where there is nothing to compare with, it selects nothing and every hook runs.
_MATCHED_FIELDS: Final[dict[str, str | None]] = {
    "SessionStart": "source",
    "UserPromptSubmit": None,
    "PreToolUse": "tool_name",
    "PermissionRequest": "tool_name",
    "PostToolUse": "tool_name",
    "PostToolUseFailure": "tool_name",
    "Notification": "notification_type",
    "Stop": None,
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "TaskCreated": None,
    "TaskCompleted": None,
    "WorktreeCreate": None,
    "WorktreeRemove": None,
    "ConfigChange": "source",
    "FileChanged": "file_name",
    "SessionEnd": "reason",
}
EVENTS: Final = tuple(_MATCHED_FIELDS)


def takes_matcher(event: str) -> bool:
    return _MATCHED_FIELDS[event] is not None


def find_matched_value(event: str, payload: Mapping[str, Any]) -> str | None:
    """What a hook's matcher is compared with; None where this event has no such thing."""
    field = _MATCHED_FIELDS[event]
    return None if field is None else str(payload.get(field, ""))

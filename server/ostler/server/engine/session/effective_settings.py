"""What the settings files mean for one session."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ostler.protocol.session import Mode
from ostler.server.settings import (
    McpEntry,
    Origin,
    RuleSet,
    Settings,
    Source,
    acting_servers,
    effective_rules,
    rules_of,
)

FLAG_RULES: Final = "flag_rules"
"""Where a session notes which of its rules it was started with; what is added or remembered later is its own."""
_OF_SESSIONS: Final[tuple[Source, Source]] = ("flag", "session")
Lists = Mapping[str, Sequence[str]]


def mode_in_force(settings: Settings, wanted: Mode, *, allow_bypass: bool) -> Mode:
    """The session's, unless policy says another, or bypass is not allowed any more."""
    mode = settings.frozen_mode or wanted
    forbidden = mode == "bypassPermissions" and (not allow_bypass or settings.bypass_disabled)
    return "default" if forbidden else mode


def rule_set(settings: Settings, trusted: bool, options: Mapping[str, Any], aliases: Mapping[str, str]) -> RuleSet:
    """The rules that count in a session, its own among them."""
    given: Lists = options.get("rules") or {}
    flags: Lists = options.get(FLAG_RULES) or {}
    started_with = {name: [text for text in texts if text in flags.get(name, ())] for name, texts in given.items()}
    later = {name: [text for text in texts if text not in flags.get(name, ())] for name, texts in given.items()}
    expires = options.get("rule_expires") or {}
    flag, session = (Origin(source, None, settings.folder, settings.folder, settings.home) for source in _OF_SESSIONS)
    own = (*rules_of(started_with, flag, expires), *rules_of(later, session, expires))
    return effective_rules(settings, trusted, own, aliases=aliases)


def servers_of_session(settings: Settings, trusted: bool, options: Mapping[str, Any]) -> Mapping[str, McpEntry]:
    """The MCP servers that a session has, by name."""
    given: Mapping[str, Mapping[str, Any]] = options.get("mcp_servers") or {}
    own = (McpEntry(name, entry, "session", "") for name, entry in given.items())
    return acting_servers(settings, trusted, own)

"""What the settings files mean for one session."""

from collections.abc import Mapping, Sequence
from typing import Any

from ostler.protocol.session import Mode
from ostler.server.settings import Origin, RuleSet, Settings, effective, rules_of


def mode_in_force(settings: Settings, wanted: Mode, *, allow_bypass: bool) -> Mode:
    """The session's, unless policy says another, or bypass is not allowed any more."""
    mode = settings.frozen_mode or wanted
    forbidden = mode == "bypassPermissions" and (not allow_bypass or settings.bypass_disabled)
    return "default" if forbidden else mode


def rule_set(settings: Settings, trusted: bool, options: Mapping[str, Any], aliases: Mapping[str, str]) -> RuleSet:
    """The rules that count in a session, its own among them."""
    given: Mapping[str, Sequence[str]] = options.get("rules") or {}
    origin = Origin("session", None, settings.folder, settings.folder, settings.home)
    own = rules_of(given, origin, options.get("rule_expires") or {})
    return effective(settings, trusted, own, aliases=aliases)

"""Settings files: what agents may do, who says so, and what counts of it."""

from ostler.server.settings.candidates import POLICY, Candidate, SettingsPlaces, candidates, signature
from ostler.server.settings.effect import acting_hooks, acting_servers, default_mode, effective
from ostler.server.settings.entries import HOOK_EVENTS
from ostler.server.settings.load import check_policy, is_stale, load_settings
from ostler.server.settings.rule_lists import Origin, check_lists, rules_of
from ostler.server.settings.rule_set import RuleSet
from ostler.server.settings.shapes import (
    BadPolicy,
    Behavior,
    HookEntry,
    McpEntry,
    Problem,
    ProjectActs,
    Settings,
    Signature,
    Source,
    SourcedRule,
)
from ostler.server.settings.writing import CannotWrite, Destination, add_rule, destination, remove_rule

__all__ = [
    "HOOK_EVENTS",
    "POLICY",
    "BadPolicy",
    "Behavior",
    "Candidate",
    "CannotWrite",
    "Destination",
    "HookEntry",
    "McpEntry",
    "Origin",
    "Problem",
    "ProjectActs",
    "RuleSet",
    "Settings",
    "SettingsPlaces",
    "Signature",
    "Source",
    "SourcedRule",
    "acting_hooks",
    "acting_servers",
    "add_rule",
    "candidates",
    "check_lists",
    "check_policy",
    "default_mode",
    "destination",
    "effective",
    "is_stale",
    "load_settings",
    "remove_rule",
    "rules_of",
    "signature",
]

"""Settings files: what agents may do, which file says so, and what of it is in effect."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.server.settings.effective import (
        resolve_agents,
        resolve_default_mode,
        resolve_hooks,
        resolve_rules,
        resolve_servers,
        resolve_skills,
    )
    from ostler.server.settings.load import check_policy, is_stale, load_settings
    from ostler.server.settings.locations import POLICY, Candidate, SettingsPlaces, compute_signature, list_candidates
    from ostler.server.settings.rule_lists import Origin, check_lists, parse_rules
    from ostler.server.settings.rule_set import RuleSet
    from ostler.server.settings.trust import format_allow_rule
    from ostler.server.settings.types import (
        NEED_TRUST,
        BadPolicy,
        Behavior,
        HookEntry,
        McpEntry,
        PolicyLimits,
        Problem,
        ProjectEffects,
        Settings,
        Signature,
        SkillEntry,
        Source,
        SourcedRule,
    )
    from ostler.server.settings.write import (
        CannotWrite,
        Destination,
        add_rule,
        check_addition,
        remove_rule,
        resolve_destination,
    )

__all__ = [
    "NEED_TRUST",
    "POLICY",
    "BadPolicy",
    "Behavior",
    "Candidate",
    "CannotWrite",
    "Destination",
    "HookEntry",
    "McpEntry",
    "Origin",
    "PolicyLimits",
    "Problem",
    "ProjectEffects",
    "RuleSet",
    "Settings",
    "SettingsPlaces",
    "Signature",
    "SkillEntry",
    "Source",
    "SourcedRule",
    "add_rule",
    "check_addition",
    "check_lists",
    "check_policy",
    "compute_signature",
    "format_allow_rule",
    "is_stale",
    "list_candidates",
    "load_settings",
    "parse_rules",
    "remove_rule",
    "resolve_agents",
    "resolve_default_mode",
    "resolve_destination",
    "resolve_hooks",
    "resolve_rules",
    "resolve_servers",
    "resolve_skills",
]

__getattr__ = export_lazily(
    __name__,
    {
        "NEED_TRUST": "types",
        "format_allow_rule": "trust",
        "BadPolicy": "types",
        "PolicyLimits": "types",
        "Behavior": "types",
        "Candidate": "locations",
        "CannotWrite": "write",
        "Destination": "write",
        "HookEntry": "types",
        "McpEntry": "types",
        "Origin": "rule_lists",
        "POLICY": "locations",
        "Problem": "types",
        "ProjectEffects": "types",
        "RuleSet": "rule_set",
        "Settings": "types",
        "SettingsPlaces": "locations",
        "Signature": "types",
        "SkillEntry": "types",
        "Source": "types",
        "SourcedRule": "types",
        "resolve_agents": "effective",
        "resolve_hooks": "effective",
        "resolve_servers": "effective",
        "resolve_skills": "effective",
        "add_rule": "write",
        "check_addition": "write",
        "list_candidates": "locations",
        "check_lists": "rule_lists",
        "check_policy": "load",
        "resolve_default_mode": "effective",
        "resolve_destination": "write",
        "resolve_rules": "effective",
        "is_stale": "load",
        "load_settings": "load",
        "remove_rule": "write",
        "parse_rules": "rule_lists",
        "compute_signature": "locations",
    },
)

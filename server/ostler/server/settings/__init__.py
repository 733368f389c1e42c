"""Settings files: what agents may do, who says so, and what counts of it."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.settings.effect import acting_hooks, acting_servers, default_mode, effective
    from ostler.server.settings.load import check_policy, is_stale, load_settings
    from ostler.server.settings.rule_lists import Origin, check_lists, rules_of
    from ostler.server.settings.rule_set import RuleSet
    from ostler.server.settings.settings_files import POLICY, Candidate, SettingsPlaces, candidates, signature
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
    from ostler.server.settings.trust import NEED_TRUST, allowing_line
    from ostler.server.settings.writing import (
        CannotWrite,
        Destination,
        add_rule,
        check_addition,
        destination,
        remove_rule,
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
    "allowing_line",
    "candidates",
    "check_addition",
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

__getattr__ = lazily(
    __name__,
    {
        "NEED_TRUST": "trust",
        "allowing_line": "trust",
        "BadPolicy": "shapes",
        "Behavior": "shapes",
        "Candidate": "settings_files",
        "CannotWrite": "writing",
        "Destination": "writing",
        "HookEntry": "shapes",
        "McpEntry": "shapes",
        "Origin": "rule_lists",
        "POLICY": "settings_files",
        "Problem": "shapes",
        "ProjectActs": "shapes",
        "RuleSet": "rule_set",
        "Settings": "shapes",
        "SettingsPlaces": "settings_files",
        "Signature": "shapes",
        "Source": "shapes",
        "SourcedRule": "shapes",
        "acting_hooks": "effect",
        "acting_servers": "effect",
        "add_rule": "writing",
        "check_addition": "writing",
        "candidates": "settings_files",
        "check_lists": "rule_lists",
        "check_policy": "load",
        "default_mode": "effect",
        "destination": "writing",
        "effective": "effect",
        "is_stale": "load",
        "load_settings": "load",
        "remove_rule": "writing",
        "rules_of": "rule_lists",
        "signature": "settings_files",
    },
)

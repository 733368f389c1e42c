"""Settings files: what agents may do, who says so, and what counts of it."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.settings.effective import acting_hooks, acting_servers, default_mode, effective_rules
    from ostler.server.settings.load import check_policy, is_stale, load_settings
    from ostler.server.settings.locations import POLICY, Candidate, SettingsPlaces, candidates, signature
    from ostler.server.settings.rule_lists import Origin, check_lists, rules_of
    from ostler.server.settings.rule_set import RuleSet
    from ostler.server.settings.trust import NEED_TRUST, allowing_line
    from ostler.server.settings.types import (
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
    from ostler.server.settings.write import (
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
    "effective_rules",
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
        "BadPolicy": "types",
        "Behavior": "types",
        "Candidate": "locations",
        "CannotWrite": "write",
        "Destination": "write",
        "HookEntry": "types",
        "McpEntry": "types",
        "Origin": "rule_lists",
        "POLICY": "locations",
        "Problem": "types",
        "ProjectActs": "types",
        "RuleSet": "rule_set",
        "Settings": "types",
        "SettingsPlaces": "locations",
        "Signature": "types",
        "Source": "types",
        "SourcedRule": "types",
        "acting_hooks": "effective",
        "acting_servers": "effective",
        "add_rule": "write",
        "check_addition": "write",
        "candidates": "locations",
        "check_lists": "rule_lists",
        "check_policy": "load",
        "default_mode": "effective",
        "destination": "write",
        "effective_rules": "effective",
        "is_stale": "load",
        "load_settings": "load",
        "remove_rule": "write",
        "rules_of": "rule_lists",
        "signature": "locations",
    },
)

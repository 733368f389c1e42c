"""Command safety: what a shell command consists of, what it may do, and which rules cover it."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.tools.commands.rules.content import RuleIndex, index_allow_rules, index_forbid_rules
    from ostler.tools.commands.rules.match import (
        UncoveredCommand,
        find_forbidding_rule,
        find_helping_rule,
        find_uncovered,
        has_literal_targets,
        list_absolute_targets,
        may_be_forbidden,
        rule_allows,
        rule_matches,
        sets_dangerous_variable,
    )
    from ostler.tools.commands.rules.suggest import (
        SIMPLE_FILE_COMMANDS,
        has_only_simple_file_commands,
        is_simple_file_command,
        suggest_rules,
    )
    from ostler.tools.commands.safety.destructive import is_destructive
    from ostler.tools.commands.safety.file_access import (
        FileAccess,
        FileEffects,
        Mention,
        ShownRepository,
        find_file_accesses,
        find_file_effects,
        find_unnamed_accesses,
        walk_tree,
    )
    from ostler.tools.commands.safety.file_targets import FileAction
    from ostler.tools.commands.safety.git_config import (
        GIT_GUARD_ENVIRONMENT,
        UNSET_FOR_READ_ONLY,
        find_git_config_problem,
    )
    from ostler.tools.commands.safety.read_only import (
        ReadOnlyVerdict,
        explain_not_read_only,
        is_read_only,
        needs_git_guard,
        part_is_read_only,
    )
    from ostler.tools.commands.safety.wrappers import is_fully_resolved, list_programs, may_run_others, unwrap
    from ostler.tools.commands.syntax.parsed import ParsedCommand, Redirection, SimpleCommand
    from ostler.tools.commands.syntax.parser import MAX_BYTES, parse_command
    from ostler.tools.commands.syntax.words import Word

__all__ = [
    "GIT_GUARD_ENVIRONMENT",
    "MAX_BYTES",
    "SIMPLE_FILE_COMMANDS",
    "UNSET_FOR_READ_ONLY",
    "FileAccess",
    "FileAction",
    "FileEffects",
    "Mention",
    "ParsedCommand",
    "ReadOnlyVerdict",
    "Redirection",
    "RuleIndex",
    "ShownRepository",
    "SimpleCommand",
    "UncoveredCommand",
    "Word",
    "explain_not_read_only",
    "find_file_accesses",
    "find_file_effects",
    "find_forbidding_rule",
    "find_git_config_problem",
    "find_helping_rule",
    "find_uncovered",
    "find_unnamed_accesses",
    "has_literal_targets",
    "has_only_simple_file_commands",
    "index_allow_rules",
    "index_forbid_rules",
    "is_destructive",
    "is_fully_resolved",
    "is_read_only",
    "is_simple_file_command",
    "list_absolute_targets",
    "list_programs",
    "may_be_forbidden",
    "may_run_others",
    "needs_git_guard",
    "parse_command",
    "part_is_read_only",
    "rule_allows",
    "rule_matches",
    "sets_dangerous_variable",
    "suggest_rules",
    "unwrap",
    "walk_tree",
]

__getattr__ = export_lazily(
    __name__,
    {
        "RuleIndex": "rules.content",
        "GIT_GUARD_ENVIRONMENT": "safety.git_config",
        "MAX_BYTES": "syntax.parser",
        "SimpleCommand": "syntax.parsed",
        "ReadOnlyVerdict": "safety.read_only",
        "ParsedCommand": "syntax.parsed",
        "Redirection": "syntax.parsed",
        "SIMPLE_FILE_COMMANDS": "rules.suggest",
        "FileAccess": "safety.file_access",
        "FileAction": "safety.file_targets",
        "FileEffects": "safety.file_access",
        "Mention": "safety.file_access",
        "ShownRepository": "safety.file_access",
        "walk_tree": "safety.file_access",
        "find_file_effects": "safety.file_access",
        "UNSET_FOR_READ_ONLY": "safety.git_config",
        "UncoveredCommand": "rules.match",
        "Word": "syntax.words",
        "is_fully_resolved": "safety.wrappers",
        "index_allow_rules": "rules.content",
        "find_helping_rule": "rules.match",
        "index_forbid_rules": "rules.content",
        "find_git_config_problem": "safety.git_config",
        "is_destructive": "safety.destructive",
        "is_read_only": "safety.read_only",
        "is_simple_file_command": "rules.suggest",
        "find_uncovered": "rules.match",
        "find_forbidding_rule": "rules.match",
        "may_run_others": "safety.wrappers",
        "list_absolute_targets": "rules.match",
        "has_literal_targets": "rules.match",
        "needs_git_guard": "safety.read_only",
        "has_only_simple_file_commands": "rules.suggest",
        "part_is_read_only": "safety.read_only",
        "list_programs": "safety.wrappers",
        "parse_command": "syntax.parser",
        "rule_allows": "rules.match",
        "rule_matches": "rules.match",
        "sets_dangerous_variable": "rules.match",
        "suggest_rules": "rules.suggest",
        "find_file_accesses": "safety.file_access",
        "find_unnamed_accesses": "safety.file_access",
        "may_be_forbidden": "rules.match",
        "unwrap": "safety.wrappers",
        "explain_not_read_only": "safety.read_only",
    },
)

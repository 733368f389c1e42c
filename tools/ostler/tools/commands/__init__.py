"""Command safety: what a shell command consists of, what it may do, and which rules cover it."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.tools.commands.rules.content import Contents, allowing_contents, forbidding_contents
    from ostler.tools.commands.rules.match import (
        Uncovered,
        first_help,
        judge_allow,
        judge_match,
        named_absolutely,
        names_its_files,
        rule_allows,
        rule_matches,
        sets_dangerous_variable,
        undecided,
    )
    from ostler.tools.commands.rules.suggest import (
        SIMPLE_FILE_COMMANDS,
        is_simple_file_command,
        only_simple_file_commands,
        suggested_rules,
    )
    from ostler.tools.commands.safety.destructive import is_destructive
    from ostler.tools.commands.safety.file_access import Touched, touched, touched_unnamed
    from ostler.tools.commands.safety.git_config import GIT_GUARD_ENVIRONMENT, UNSET_FOR_READ_ONLY, git_config_problem
    from ostler.tools.commands.safety.read_only import (
        ReadOnly,
        is_read_only,
        needs_git_guard,
        part_is_read_only,
        why_not_read_only,
    )
    from ostler.tools.commands.safety.wrappers import all_resolved, may_run_others, programs_in, unwrapped
    from ostler.tools.commands.syntax.parsed import Part, Reading, Redirection
    from ostler.tools.commands.syntax.parser import MAX_BYTES, read_command
    from ostler.tools.commands.syntax.words import Word

__all__ = [
    "GIT_GUARD_ENVIRONMENT",
    "MAX_BYTES",
    "SIMPLE_FILE_COMMANDS",
    "UNSET_FOR_READ_ONLY",
    "Contents",
    "Part",
    "ReadOnly",
    "Reading",
    "Redirection",
    "Touched",
    "Uncovered",
    "Word",
    "all_resolved",
    "allowing_contents",
    "first_help",
    "forbidding_contents",
    "git_config_problem",
    "is_destructive",
    "is_read_only",
    "is_simple_file_command",
    "judge_allow",
    "judge_match",
    "may_run_others",
    "named_absolutely",
    "names_its_files",
    "needs_git_guard",
    "only_simple_file_commands",
    "part_is_read_only",
    "programs_in",
    "read_command",
    "rule_allows",
    "rule_matches",
    "sets_dangerous_variable",
    "suggested_rules",
    "touched",
    "touched_unnamed",
    "undecided",
    "unwrapped",
    "why_not_read_only",
]

__getattr__ = lazily(
    __name__,
    {
        "Contents": "rules.content",
        "GIT_GUARD_ENVIRONMENT": "safety.git_config",
        "MAX_BYTES": "syntax.parser",
        "Part": "syntax.parsed",
        "ReadOnly": "safety.read_only",
        "Reading": "syntax.parsed",
        "Redirection": "syntax.parsed",
        "SIMPLE_FILE_COMMANDS": "rules.suggest",
        "Touched": "safety.file_access",
        "UNSET_FOR_READ_ONLY": "safety.git_config",
        "Uncovered": "rules.match",
        "Word": "syntax.words",
        "all_resolved": "safety.wrappers",
        "allowing_contents": "rules.content",
        "first_help": "rules.match",
        "forbidding_contents": "rules.content",
        "git_config_problem": "safety.git_config",
        "is_destructive": "safety.destructive",
        "is_read_only": "safety.read_only",
        "is_simple_file_command": "rules.suggest",
        "judge_allow": "rules.match",
        "judge_match": "rules.match",
        "may_run_others": "safety.wrappers",
        "named_absolutely": "rules.match",
        "names_its_files": "rules.match",
        "needs_git_guard": "safety.read_only",
        "only_simple_file_commands": "rules.suggest",
        "part_is_read_only": "safety.read_only",
        "programs_in": "safety.wrappers",
        "read_command": "syntax.parser",
        "rule_allows": "rules.match",
        "rule_matches": "rules.match",
        "sets_dangerous_variable": "rules.match",
        "suggested_rules": "rules.suggest",
        "touched": "safety.file_access",
        "touched_unnamed": "safety.file_access",
        "undecided": "rules.match",
        "unwrapped": "safety.wrappers",
        "why_not_read_only": "safety.read_only",
    },
)

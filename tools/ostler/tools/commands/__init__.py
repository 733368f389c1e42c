"""Command safety: what a shell command consists of, what it may do, and which rules cover it."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.tools.commands.contents import Contents, allowing_contents, forbidding_contents
    from ostler.tools.commands.destructive import is_destructive
    from ostler.tools.commands.git_config import GIT_GUARD_ENVIRONMENT, UNSET_FOR_READ_ONLY, git_config_problem
    from ostler.tools.commands.naming import named_absolutely, names_its_files
    from ostler.tools.commands.read import MAX_BYTES, read_command
    from ostler.tools.commands.read_only import (
        ReadOnly,
        is_read_only,
        needs_git_guard,
        part_is_read_only,
        why_not_read_only,
    )
    from ostler.tools.commands.reading import Part, Reading, Redirection
    from ostler.tools.commands.remember import (
        SIMPLE_FILE_COMMANDS,
        is_simple_file_command,
        only_simple_file_commands,
        suggested_rules,
    )
    from ostler.tools.commands.rules import (
        Uncovered,
        first_help,
        judge_allow,
        judge_match,
        rule_allows,
        rule_matches,
        sets_dangerous_variable,
        undecided,
    )
    from ostler.tools.commands.touching import Touched, touched, touched_unnamed
    from ostler.tools.commands.words import Word
    from ostler.tools.commands.wrappers import all_resolved, may_run_others, programs_in, unwrapped

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
        "Contents": "contents",
        "GIT_GUARD_ENVIRONMENT": "git_config",
        "MAX_BYTES": "read",
        "Part": "reading",
        "ReadOnly": "read_only",
        "Reading": "reading",
        "Redirection": "reading",
        "SIMPLE_FILE_COMMANDS": "remember",
        "Touched": "touching",
        "UNSET_FOR_READ_ONLY": "git_config",
        "Uncovered": "rules",
        "Word": "words",
        "all_resolved": "wrappers",
        "allowing_contents": "contents",
        "first_help": "rules",
        "forbidding_contents": "contents",
        "git_config_problem": "git_config",
        "is_destructive": "destructive",
        "is_read_only": "read_only",
        "is_simple_file_command": "remember",
        "judge_allow": "rules",
        "judge_match": "rules",
        "may_run_others": "wrappers",
        "named_absolutely": "naming",
        "names_its_files": "naming",
        "needs_git_guard": "read_only",
        "only_simple_file_commands": "remember",
        "part_is_read_only": "read_only",
        "programs_in": "wrappers",
        "read_command": "read",
        "rule_allows": "rules",
        "rule_matches": "rules",
        "sets_dangerous_variable": "rules",
        "suggested_rules": "remember",
        "touched": "touching",
        "touched_unnamed": "touching",
        "undecided": "rules",
        "unwrapped": "wrappers",
        "why_not_read_only": "read_only",
    },
)

"""Permission rules: their syntax, and which paths, hosts and names their contents match."""

from ostler.tools.permissions.case_sensitivity import is_case_insensitive
from ostler.tools.permissions.gitignore import BadPattern
from ostler.tools.permissions.path_pattern import (
    PathPattern,
    build_exact_pattern,
    compile_path,
    matches_both,
    matches_either,
)
from ostler.tools.permissions.real_paths import RealPathCache
from ostler.tools.permissions.rule_content import build_content, forbids_text, is_whole, matches_text, may_be_path
from ostler.tools.permissions.rule_families import BASH, COVERED_BY, EDIT, READ, WEB_FETCH, find_content_kind
from ostler.tools.permissions.rule_syntax import BadRule, Rule, format_rule, parse_rule

__all__ = [
    "BASH",
    "COVERED_BY",
    "EDIT",
    "READ",
    "WEB_FETCH",
    "BadPattern",
    "BadRule",
    "PathPattern",
    "RealPathCache",
    "Rule",
    "build_content",
    "build_exact_pattern",
    "compile_path",
    "find_content_kind",
    "forbids_text",
    "format_rule",
    "is_case_insensitive",
    "is_whole",
    "matches_both",
    "matches_either",
    "matches_text",
    "may_be_path",
    "parse_rule",
]

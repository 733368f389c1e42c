"""Permission rules: how they are written, and which paths, hosts and names their contents speak of."""

from ostler.tools.permissions.case_sensitivity import case_folds
from ostler.tools.permissions.gitignore import BadPattern
from ostler.tools.permissions.path_pattern import PathPattern, compile_path, exact_path, matches_both, matches_either
from ostler.tools.permissions.real_paths import RealPaths
from ostler.tools.permissions.rule_content import PATH_TOOLS, is_whole, matches_text
from ostler.tools.permissions.rule_syntax import BadRule, Rule, parse_rule, rule_text

__all__ = [
    "PATH_TOOLS",
    "BadPattern",
    "BadRule",
    "PathPattern",
    "RealPaths",
    "Rule",
    "case_folds",
    "compile_path",
    "exact_path",
    "is_whole",
    "matches_both",
    "matches_either",
    "matches_text",
    "parse_rule",
    "rule_text",
]

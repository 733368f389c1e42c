"""Tells code that plainly runs nothing: an awk program that prints, a sed script that replaces, a mere `print`."""

import re
from collections.abc import Callable
from typing import Final

_AWK_PATTERN: Final = re.compile(r"\s*/(?:[^/\\\n]|\\.)*/")
_AWK_RUNS: Final = re.compile(r"system|getline|\||@")
_SED_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*)"
_SED_COMMAND: Final = (
    r"(?:[pdqQDgGhHxnNPl=]"
    r"|s(?P<mark>[/|#,:@!~%+_;])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gpiIM0-9]*"
    r"|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/)"
)
_SED_STEP: Final = re.compile(
    rf"[ \t]*(?:{_SED_ADDRESS}(?:,[ \t]*[+~]?{_SED_ADDRESS})?)?[ \t]*!?[ \t]*{_SED_COMMAND}[ \t]*"
)
_SED_TEXT: Final = re.compile(rf"[ \t]*{_SED_ADDRESS}?[ \t]*[aic](?:\\\n?|[ \t])[^\n\\]*")
_SED_BETWEEN: Final = re.compile(r"[;\n]+|\Z")
_PRINTED: Final = r"""(?:[\w., +*/%\[\]-]|'[^'\\(`]*'|"[^"\\(`]*")*"""
_PYTHON: Final = re.compile(rf"\s*(?:import [\w., ]+[;\n]\s*)*(?:print\({_PRINTED}\)[;\n]?\s*)*")
_REQUIRED: Final = r"""(?:require\(['"][\w./@-]+['"]\))?"""
_NODE: Final = re.compile(rf"\s*(?:console\.log\({_REQUIRED}{_PRINTED}\)|{_REQUIRED}{_PRINTED});?\s*")
_PERL_TEXT: Final = r"(?:[^/$@(){}`\\]|\\[dswDSWbnt./])*"
_PERL: Final = re.compile(
    rf"\s*(?:s/{_PERL_TEXT}/{_PERL_TEXT}/[gim]*;?\s*|print(?: if /{_PERL_TEXT}/)?;?\s*)+|[A-Z]\w*(?:::\w+)*"
)
"""Replacements and prints; or a module's name."""
_SQL_RUNS: Final = re.compile(
    r"\\|^\s*\.|system|shell|program|source|pager|edit|load|tee|prompt|@", re.MULTILINE | re.IGNORECASE
)
_RUBY: Final = re.compile(r"\s*(?:puts|p|print) [\w:]*\s*")


def runs_nothing(language: str, code: str) -> bool:
    """Whether it can be seen that the code only computes and prints. What is not known to, may run anything."""
    check = _CHECKS.get(language)
    return check is not None and check(code)


def _check_awk(code: str) -> bool:
    # A program may begin with a pattern, whose bars and backslashes mean no command.
    begin = _AWK_PATTERN.match(code)
    return _AWK_RUNS.search(code[begin.end() if begin else 0 :].replace("||", "")) is None


def _check_sed(code: str) -> bool:
    if _SED_TEXT.fullmatch(code):
        return True
    place = 0
    while place < len(code):
        step = _SED_STEP.match(code, place)
        between = _SED_BETWEEN.match(code, step.end()) if step else None
        if between is None:
            return False
        place = between.end()
    return True


def _check_by(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda code: len(code) < 1_000 and pattern.fullmatch(code) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "awk": _check_awk,
    "sed": _check_sed,
    "python": _check_by(_PYTHON),
    "node": _check_by(_NODE),
    "perl": _check_by(_PERL),
    "ruby": _check_by(_RUBY),
    "sql": lambda code: _SQL_RUNS.search(code) is None,
}

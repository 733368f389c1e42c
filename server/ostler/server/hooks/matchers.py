"""Matchers: all, names, or a regular expression in bounded time."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ostler.protocol.patterns import compile_later

Matcher = Callable[[str], bool]

_NAMES: Final = compile_later(r"[\w\- ,|]+", re.ASCII)
_SERVER: Final = compile_later(r"mcp__(?:(?!__).)+")
_MAX_CHARS: Final = 1000
_MAX_COMPILED_BYTES: Final = 1024 * 1024
_MAX_BACKTRACKS: Final = 10_000


class BadMatcher(ValueError):
    """A matcher that is no regular expression that we can run."""


def is_for_all(matcher: str | None) -> bool:
    return matcher is None or matcher.strip() in {"", "*"}


@lru_cache(maxsize=1024)
def compile_matcher(matcher: str) -> Matcher:
    """`Edit|Write` and `Edit, Write` are names; `mcp__server` is all of its tools; the rest is a regular expression."""
    if is_for_all(matcher):
        return lambda name: True
    if _NAMES.fullmatch(matcher):
        return _build_name_matcher(frozenset(name.strip() for name in re.split(r"[|,]", matcher)) - {""})
    return _build_pattern_matcher(matcher)


def _build_name_matcher(names: frozenset[str]) -> Matcher:
    servers = tuple(f"{name}__" for name in names if _SERVER.fullmatch(name))
    return lambda name: name in names or name.startswith(servers)


def _build_pattern_matcher(text: str) -> Matcher:
    """Python's own engine can take for ever, and knows another dialect than the one that these files are written in."""
    # Imported here: most sessions have no hooks.
    import jsonschema_rs  # noqa: PLC0415

    if len(text) > _MAX_CHARS:
        raise BadMatcher(f"the matcher is longer than {_MAX_CHARS} characters")
    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS, size_limit=_MAX_COMPILED_BYTES)
    try:
        # Found anywhere in the name, as the format has it: a hook that runs too often is better than one that does not.
        found = jsonschema_rs.validator_for({"pattern": text}, pattern_options=limits, offline=True)
    except ValueError:
        raise BadMatcher(f"the matcher {text!r} is no regular expression that can be run here") from None

    def matches(name: str) -> bool:
        try:
            found.validate(name)
        except jsonschema_rs.ValidationError as error:
            # Where it takes too long to tell, the hook runs, and sees by itself what it is asked about.
            return isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded)
        return True

    return matches

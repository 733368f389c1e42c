"""Compiles lists of rules as they are written into rules that know where they come from."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ostler.protocol import times
from ostler.server.settings.types import Behavior, Source, SourcedRule
from ostler.tools.permissions import BadPattern, BadRule, Rule, compile_path, find_content_kind, may_be_path, parse_rule
from ostler.tools.spelling import suggest_spelling

BEHAVIORS: Final[tuple[Behavior, ...]] = ("deny", "ask", "allow")

_TOP_FOLDERS: Final = frozenset({"etc", "home", "Users", "usr", "var", "root", "opt", "mnt", "proc", "tmp", "Volumes"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rules come from, and the places that their paths start from."""

    source: Source
    file: str | None
    root: str
    cwd: str
    home: str
    real: Callable[[str], str] = os.path.realpath


def compile_rule(rule: Rule, behavior: Behavior, origin: Origin, expires_at: str | None = None) -> SourcedRule:
    """The rule with its path pattern compiled."""
    pattern = None
    if rule.content is not None and may_be_path(rule.tool):
        # A tool that we do not know may take a path; where its content cannot be one, it is compared as text.
        with contextlib.nullcontext() if find_content_kind(rule.tool) == "path" else contextlib.suppress(BadPattern):
            pattern = compile_path(
                rule.content,
                settings_root=origin.root,
                cwd=origin.cwd,
                home=origin.home,
                through_links=behavior != "allow",
                also_below=_find_extra_base(behavior, origin),
                real=origin.real,
            )
    return SourcedRule(rule, behavior, origin.source, origin.file, origin.root, expires_at, pattern)


def _find_extra_base(behavior: Behavior, origin: Origin) -> str | None:
    """What a project forbids below its root must not depend on the folder that a session starts in."""
    return origin.root if behavior != "allow" and origin.source in {"project", "local"} else None


def replace_bad_rule(text: str, error: BadRule, behavior: Behavior, origin: Origin) -> SourcedRule | None:
    """The replacement of a rule that cannot be read: where it was to forbid, all calls of its tool are asked about."""
    if behavior == "allow" or error.tool is None:
        return None
    return compile_rule(Rule(error.tool, None, text.strip()), "ask", origin)


def parse_rules(
    lists: Mapping[str, Sequence[str]], origin: Origin, expires: Mapping[str, str] | None = None
) -> tuple[SourcedRule, ...]:
    """The rules of a session or of a flag, which were checked when they were given."""
    found: list[SourcedRule] = []
    for behavior in BEHAVIORS:
        for text in lists.get(behavior) or ():
            try:
                rule = compile_rule(parse_rule(text), behavior, origin, (expires or {}).get(text.strip()))
            except BadRule as error:
                # Stored by a daemon that read rules in another way.
                instead = replace_bad_rule(text, error, behavior, origin)
                found += [instead] if instead else []
                continue
            found.append(rule)
    return tuple(found)


def check_tool_name(rule: Rule, known: Collection[str] | None) -> str | None:
    """What is wrong with the name of its tool; tools of MCP servers come and go."""
    if known is None or rule.tool in known or rule.tool.startswith("mcp__"):
        return None
    return f"There is no tool {rule.tool!r}{suggest_spelling(rule.tool, known)}"


def check_rooted_path(rule: Rule, root: str) -> str | None:
    """`/etc/passwd` starts from the folder of the settings, which surprises people."""
    if find_content_kind(rule.tool) != "path" or rule.content is None or rule.content.startswith("//"):
        return None
    first = rule.content.removeprefix("/").split("/")[0]
    if not rule.content.startswith("/") or first not in _TOP_FOLDERS or os.path.lexists(os.path.join(root, first)):
        return None
    return f"This starts from {root}; did you mean {rule.tool}(/{rule.content})?"


def parse_expiry(text: object) -> str | None:
    """An expiry in the one format whose texts can be compared; None where it is no time or has no zone."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        return times.format_time(found) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def check_lists(lists: Mapping[str, Iterable[object]], known: Collection[str] | None) -> list[str]:
    """What is wrong with rules that a client gives, in words, each with its text."""
    problems: list[str] = []
    for behavior in BEHAVIORS:
        for text in lists.get(behavior) or ():
            try:
                wrong = check_tool_name(parse_rule(str(text)), known)
            except BadRule as error:
                wrong = error.message
            problems += [f"{text!r}: {wrong}"] if wrong else []
    return problems

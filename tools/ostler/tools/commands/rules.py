"""`Bash(content)` rules: what they allow, and what they catch."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal

from ostler.tools.commands.plain import read_plain
from ostler.tools.commands.reading import Part, Reading
from ostler.tools.commands.table import data
from ostler.tools.commands.wrappers import all_resolved, is_undecided, past_harmless, unwrapped

_SOCKETS: Final = ("/dev/tcp/", "/dev/udp/")
_BETWEEN: Final = "\0"
"""Stands between words where a pattern is matched: no word holds it."""

Answer = Literal["yes", "no", "maybe"]
Why = Literal["rule", "redirection"]


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A part that no allow rule covers; `redirection`: a rule covers the command, but not the file that it writes."""

    part: Part
    why: Why


@dataclass(frozen=True, slots=True)
class _Rule:
    words: tuple[str, ...]
    form: Literal["exact", "prefix", "pattern"]


def rule_allows(content: str, part: Part) -> bool:
    """Whether an allow rule covers one simple command. Files that it writes are judged elsewhere."""
    inner = past_harmless(part)
    if inner is None or not inner.tokens or "function" in part.inside:
        return False
    words = inner.literal_words
    if words is None or not _assignments_are_harmless(part) or _opens_socket(part):
        return False
    return any(_allows(_rule(content), candidate) for candidate in (words, part.literal_words) if candidate)


def rule_matches(content: str, part: Part) -> bool:
    """Whether a deny or ask rule catches one simple command, or anything that runs inside it."""
    return any(_caught(content, inner) == "yes" for inner in unwrapped(part))


def judge_allow(reading: Reading, contents: Sequence[str], read_only: Callable[[Part], bool]) -> list[Uncovered]:
    """The parts that neither are read-only nor covered by one of the rules; empty: the command is allowed.

    What is not fully understood, or defines a function, is covered by nothing.
    """
    if reading.problem is not None or any("function" in part.inside for part in reading.parts):
        return [Uncovered(part, "rule") for part in reading.parts] or [Uncovered(Part(reading.command, ()), "rule")]
    whole = reading.command.strip() in {content.strip() for content in contents}
    named = _first_words(each for part in reading.parts for each in (part, past_harmless(part)) if each is not None)
    contents = [content for content in contents if _may_concern(_rule(content), named)]
    found = [_uncovered(part, contents, read_only, whole=whole) for part in reading.parts]
    return [uncovered for uncovered in found if uncovered is not None]


def judge_match(reading: Reading, contents: Sequence[str]) -> str | None:
    """The first deny or ask rule that catches any part."""
    inner = [found for part in reading.parts for found in unwrapped(part)]
    named = _first_words(inner)
    for content in contents:
        if _may_concern(_bare_rule(_rule(content)), named) and any(_caught(content, part) == "yes" for part in inner):
            return content
    # A rule that was written as a whole line catches that line, whatever stands in it.
    return next((content for content in contents if content.strip() == reading.command.strip()), None)


def undecided(reading: Reading, contents: Sequence[str]) -> bool:
    """Whether one of these deny or ask rules may catch it, which only the run decides: then a person is asked."""
    if not contents:
        return False
    if not all_resolved(reading):
        return True
    inner = [found for part in reading.parts for found in unwrapped(part)]
    named = _first_words(inner)
    concerned = [content for content in contents if _may_concern(_bare_rule(_rule(content)), named)]
    return any(_caught(content, part) == "maybe" for content in concerned for part in inner)


def _first_words(parts: Iterable[Part]) -> frozenset[str | None]:
    """The programs that are run; None among them: one is not known."""
    return frozenset(part.words[0] for part in parts if part.tokens)


def _may_concern(rule: _Rule, named: frozenset[str | None]) -> bool:
    """By its first word alone: of a thousand rules most speak of other programs."""
    return not rule.words or "*" in rule.words[0] or rule.words[0] in named or None in named


def sets_dangerous_variable(part: Part) -> bool:
    """Whether it assigns a variable that decides what runs."""
    declared = [word.partition("=")[0] for word in part.literal_words or () if "=" in word]
    names = [name for name, _ in part.assignments]
    if part.tokens and part.tokens[0].literal in {"export", "declare", "typeset", "readonly", "local"}:
        names += declared
    return any(_is_dangerous(name) for name in names)


def _uncovered(
    part: Part, contents: Sequence[str], read_only: Callable[[Part], bool], *, whole: bool
) -> Uncovered | None:
    if not part.tokens:
        harmless = _assignments_are_harmless(part) and not _opens_socket(part)
        covered = whole or harmless
    else:
        covered = whole or read_only(part) or any(rule_allows(content, part) for content in contents)
    if not covered:
        return Uncovered(part, "rule")
    if any(found.writes for found in part.redirections):
        return Uncovered(part, "redirection")
    return None


def _assignments_are_harmless(part: Part) -> bool:
    return not sets_dangerous_variable(part) and all(value is not None for _, value in part.assignments)


def _opens_socket(part: Part) -> bool:
    """A redirection to `/dev/tcp`, to a name that only the run decides, or of text that does."""
    return any(
        (found.target.kind in {"unknown", "glob"} and not found.operator.startswith("<<"))
        or found.target.text.startswith(_SOCKETS)
        for found in part.redirections
        if not found.copies
    )


@cache
def _dangerous() -> tuple[frozenset[str], tuple[str, ...]]:
    names: list[str] = data("variables.toml")["dangerous"]
    return (
        frozenset(name for name in names if not name.endswith("*")),
        tuple(name[:-1] for name in names if name.endswith("*")),
    )


def _is_dangerous(name: str) -> bool:
    exact, beginnings = _dangerous()
    return name.upper() in exact or name.upper().startswith(beginnings)


@lru_cache(maxsize=8192)
def _rule(content: str) -> _Rule:
    text = content.strip()
    prefix = text.removesuffix(":*") if text.endswith(":*") else text[:-1].rstrip() if text.endswith(" *") else None
    if text == "*":
        prefix = ""
    if prefix is not None and "*" not in prefix:
        return _Rule(_rule_words(prefix), "prefix")
    if prefix is not None:
        return _Rule((*_rule_words(prefix), "*"), "pattern")
    return _Rule(_rule_words(text), "pattern" if "*" in text else "exact")


def _rule_words(text: str) -> tuple[str, ...]:
    """A rule's words without their quotes; where it is no plain command, as they stand."""
    if not text:
        return ()
    commands = read_plain(text)
    if commands is None or len(commands) != 1 or commands[0].redirections:
        return tuple(text.split())
    return tuple(word.text for word in commands[0].words)


def _allows(rule: _Rule, words: tuple[str, ...]) -> bool:
    match rule.form:
        case "exact":
            return words == rule.words
        case "prefix":
            return words[: len(rule.words)] == rule.words
        case "pattern":
            return _pattern(rule.words, spanning=False).fullmatch(_BETWEEN.join(words)) is not None


@lru_cache(maxsize=8192)
def _pattern(words: tuple[str, ...], *, spanning: bool) -> re.Pattern[str]:
    """A star within a word stays in it where something is allowed, and goes over words where something is caught."""
    within = "(?s:.*)" if spanning else f"[^{_BETWEEN}]*"
    pieces = [within.join(re.escape(piece) for piece in word.split("*")) for word in words]
    joined = _BETWEEN.join("(?s:.+)" if word == "*" else piece for word, piece in zip(words, pieces, strict=True))
    if words and words[-1] == "*" and len(words) > 1:
        joined = joined.removesuffix(f"{_BETWEEN}(?s:.+)") + f"(?:{_BETWEEN}(?s:.*))?"
    return re.compile(joined)


def _caught(content: str, part: Part) -> Answer:
    rule = _bare_rule(_rule(content))
    if not part.tokens or (part.tokens[0].kind == "unknown" and not is_undecided(part)):
        return "no"
    words = part.words
    known = words.index(None) if None in words else len(words)
    if rule.form == "prefix":
        return _begins(rule.words, words)
    if known == len(words):
        literal = tuple(word for word in words if word is not None)
        if rule.form == "exact":
            return "yes" if literal == rule.words else "no"
        return "yes" if _pattern(rule.words, spanning=True).fullmatch(_BETWEEN.join(literal)) else "no"
    if rule.form == "exact":
        return "maybe" if words[:known] == rule.words[:known] else "no"
    return _may_match(rule.words, [word for word in words[:known] if word is not None])


def _begins(rule: tuple[str, ...], words: tuple[str | None, ...]) -> Answer:
    for place, wanted in enumerate(rule):
        if place >= len(words):
            return "no"
        if words[place] is None:
            return "maybe"
        if words[place] != wanted:
            return "no"
    return "yes"


def _may_match(rule: tuple[str, ...], known: list[str]) -> Answer:
    """Whether a pattern may match what begins with these words."""
    for place, wanted in enumerate(rule):
        if place >= len(known) or "*" in wanted:
            return "maybe"
        if known[place] != wanted:
            return "no"
    return "maybe"


@lru_cache(maxsize=8192)
def _bare_rule(rule: _Rule) -> _Rule:
    if not rule.words or "*" in rule.words[0]:
        return rule
    return _Rule((posixpath.basename(rule.words[0]) or rule.words[0], *rule.words[1:]), rule.form)

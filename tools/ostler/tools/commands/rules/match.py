"""Matches `Bash(content)` rules with commands: what allow rules cover, and what deny and ask rules catch.

Also the literal targets of a command's redirections: the files it writes that are known before it runs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, cast

from ostler.tools.commands.rules.content import (
    RuleIndex,
    RuleWords,
    index_allow_rules,
    index_forbid_rules,
    parse_rule_words,
    strip_program_path,
)
from ostler.tools.commands.rules.hidden_runs import find_hidden_runs
from ostler.tools.commands.rules.same_work import list_same_work
from ostler.tools.commands.rules.wildcards import compile_wildcards
from ostler.tools.commands.safety.program_table import load_toml
from ostler.tools.commands.safety.transparent_wrappers import strip_wrappers
from ostler.tools.commands.safety.wrappers import (
    is_fully_resolved,
    is_undecided,
    list_programs,
    unwrap,
    unwrap_all,
)
from ostler.tools.commands.syntax.parsed import ParsedCommand, Redirection, SimpleCommand

_SOCKETS: Final = ("/dev/tcp/", "/dev/udp/")
_DECLARING: Final = frozenset({"export", "declare", "typeset", "readonly", "local"})
MatchResult = Literal["yes", "no", "maybe"]
UncoveredReason = Literal["rule", "redirection"]


@dataclass(frozen=True, slots=True)
class UncoveredCommand:
    """A part that no allow rule covers; `redirection`: a rule covers the command, but not the file that it writes."""

    part: SimpleCommand
    why: UncoveredReason


def rule_allows(content: str, part: SimpleCommand) -> bool:
    """Whether an allow rule covers one simple command. Files that it writes are checked elsewhere."""
    rule = parse_rule_words(content)
    return any(_allows(rule, candidate) for candidate in _list_candidates(part))


def _list_candidates(part: SimpleCommand) -> tuple[tuple[str, ...], ...]:
    """The words that an allow rule may cover, without harmless wrappers and with them; empty where no rule may."""
    inner = strip_wrappers(part)
    if inner is None or not inner.tokens or "function" in part.inside:
        return ()
    words, own = inner.literal_words, part.literal_words
    if words is None or not _assignments_are_harmless(part) or _opens_socket(part):
        return ()
    return (words,) if not own or own is words else (words, own)


def rule_matches(content: str, part: SimpleCommand) -> bool:
    """Whether a deny or ask rule catches one simple command, or anything that runs inside it."""
    rule = strip_program_path(parse_rule_words(content))
    return any(_match_rule(rule, inner) == "yes" for inner in unwrap(part))


def find_uncovered(
    parsed: ParsedCommand, contents: Sequence[str] | RuleIndex, read_only: Callable[[SimpleCommand], bool]
) -> list[UncoveredCommand]:
    """The parts that neither are read-only nor covered by one of the rules; empty: the command is allowed.

    What is not fully understood, or defines a function, is covered by nothing.
    """
    if parsed.problem is not None or any("function" in part.inside for part in parsed.parts):
        return [UncoveredCommand(part, "rule") for part in parsed.parts] or [
            UncoveredCommand(SimpleCommand(parsed.command, ()), "rule")
        ]
    known = contents if isinstance(contents, RuleIndex) else index_allow_rules(contents)
    whole = known.find_line(parsed.command) is not None
    found = [_check_coverage(part, known, read_only, whole=whole) for part in parsed.parts]
    return [uncovered for uncovered in found if uncovered is not None]


def find_helping_rule(parsed: ParsedCommand, contents: RuleIndex) -> str | None:
    """The first allow rule that covers the whole line, or any part of it."""
    line = contents.find_line(parsed.command)
    candidates = [words for part in parsed.parts for words in _list_candidates(part)]
    named: frozenset[str | None] = frozenset(words[0] for words in candidates)
    found = (
        content
        for content, rule in contents.find_candidates(named)
        if any(_allows(rule, words) for words in candidates)
    )
    part = next(found, None)
    both = [content for content in (line, part) if content is not None]
    return min(both, key=contents.texts.index, default=None)


def find_forbidding_rule(parsed: ParsedCommand, contents: Sequence[str] | RuleIndex) -> str | None:
    """The first deny or ask rule that catches any part."""
    known = contents if isinstance(contents, RuleIndex) else index_forbid_rules(contents)
    inner = unwrap_all(parsed)
    # No rule is sure to match a program that is not known, but those for every program.
    for content, rule in known.find_candidates(list_programs(parsed) - {None}):
        if any(_match_rule(rule, part) == "yes" for part in inner):
            return content
    # A rule that is a whole line catches that line, whatever is in it.
    return known.find_line(parsed.command)


def may_be_forbidden(parsed: ParsedCommand, contents: Sequence[str] | RuleIndex) -> bool:
    """Whether one of these deny or ask rules may catch it, known only at run time: then a person is asked."""
    return find_possible_rule(parsed, contents) is not None


def find_possible_rule(parsed: ParsedCommand, contents: Sequence[str] | RuleIndex) -> str | None:
    """The first deny or ask rule that may catch it, known only at run time."""
    known = contents if isinstance(contents, RuleIndex) else index_forbid_rules(contents)
    if not known.texts:
        return None
    hidden = find_hidden_runs(parsed)
    if hidden.reason is not None:
        return known.texts[0]
    inner = unwrap_all(parsed)
    same = [tuple(program.split()) for program in list_same_work(inner, hidden.names)]
    named = hidden.names | list_programs(parsed) | {words[0] for words in same}
    names = named - {None} if not hidden.has_globs else named.union(known.list_names()) - {None}
    for content, rule in known.find_candidates(names):
        if (
            hidden.may_run(rule.words)
            or any(_match_rule(rule, part) == "maybe" or _skips_options(rule, part) for part in inner)
            or (rule.form != "exact" and any(rule.words[: len(words)] == words for words in same))
        ):
            return content
    return None


def _skips_options(rule: RuleWords, part: SimpleCommand) -> bool:
    """Whether a command has a prefix rule's words in their order, with options between: `docker -H x run`."""
    words = part.words
    if rule.form == "exact" or len(rule.words) < 2 or len(words) <= len(rule.words) or words[0] != rule.words[0]:
        return False
    place = 1
    for wanted in rule.words[1:]:
        if "*" in wanted:
            return place > 1
        if place < len(words) and words[place] == wanted:
            place += 1
            continue
        here = words[place] if place < len(words) else None
        if here is None or not here.startswith("-"):
            return False
        place = next((at + 1 for at in range(place, len(words)) if words[at] == wanted), 0)
        if not place:
            return False
    return True


def may_match_when_run(parsed: ParsedCommand, contents: Sequence[str] | RuleIndex) -> bool:
    """Whether words that are known only at run time may make one of these rules match."""
    known = contents if isinstance(contents, RuleIndex) else index_forbid_rules(contents)
    if not known.texts:
        return False
    if not is_fully_resolved(parsed):
        return True
    inner = unwrap_all(parsed)
    named = list_programs(parsed) - {None}
    return any(_match_rule(rule, part) == "maybe" for _, rule in known.find_candidates(named) for part in inner)


def sets_dangerous_variable(part: SimpleCommand) -> bool:
    """Whether it assigns a variable that decides what runs."""
    names = [name for name, _ in part.assignments]
    if part.words and part.words[0] in _DECLARING:
        names += [word.partition("=")[0] for word in part.literal_words or () if "=" in word]
    return any(_is_dangerous(name) for name in names)


def _check_coverage(
    part: SimpleCommand, contents: RuleIndex, read_only: Callable[[SimpleCommand], bool], *, whole: bool
) -> UncoveredCommand | None:
    if not part.tokens:
        harmless = _assignments_are_harmless(part) and not _opens_socket(part)
        covered = whole or harmless
    else:
        # Whether it only reads is checked last: that may need the disk.
        covered = whole or _is_allowed(part, contents) or read_only(part)
    if not covered:
        return UncoveredCommand(part, "rule")
    if any(found.writes for found in part.redirections):
        return UncoveredCommand(part, "redirection")
    return None


def _is_allowed(part: SimpleCommand, contents: RuleIndex) -> bool:
    candidates = _list_candidates(part)
    named: frozenset[str | None] = frozenset(words[0] for words in candidates)
    return bool(candidates) and any(
        _allows(rule, words) for _, rule in contents.find_candidates(named) for words in candidates
    )


def _assignments_are_harmless(part: SimpleCommand) -> bool:
    return not sets_dangerous_variable(part) and all(value is not None for _, value in part.assignments)


def _opens_socket(part: SimpleCommand) -> bool:
    """Whether a redirection goes to `/dev/tcp`, or to a name that is known only at run time."""
    return any(
        (found.target.kind in {"unknown", "glob"} and not found.operator.startswith("<<"))
        or found.target.text.startswith(_SOCKETS)
        for found in part.redirections
        if not found.copies
    )


@cache
def _load_dangerous_names() -> tuple[frozenset[str], tuple[str, ...]]:
    names: list[str] = load_toml("variables.toml")["dangerous"]
    return (
        frozenset(name for name in names if not name.endswith("*")),
        tuple(name[:-1] for name in names if name.endswith("*")),
    )


def _is_dangerous(name: str) -> bool:
    exact, beginnings = _load_dangerous_names()
    return name.upper() in exact or name.upper().startswith(beginnings)


def _allows(rule: RuleWords, words: tuple[str, ...]) -> bool:
    match rule.form:
        case "exact":
            return words == rule.words
        case "prefix":
            return words[: len(rule.words)] == rule.words
        case "pattern":
            return compile_wildcards(rule.words, spanning=False).matches(words)


def _match_rule(rule: RuleWords, part: SimpleCommand) -> MatchResult:
    if not part.tokens or (part.tokens[0].kind == "unknown" and not is_undecided(part)):
        return "no"
    words = part.words
    if rule.form == "prefix":
        return _match_prefix(rule.words, words)
    known = words.index(None) if None in words else len(words)
    if known == len(words):
        literal = cast("tuple[str, ...]", words)
        fits = (
            literal == rule.words
            if rule.form == "exact"
            else compile_wildcards(rule.words, spanning=True).matches(literal)
        )
        return "yes" if fits else "no"
    if rule.form == "exact":
        return "maybe" if words[:known] == rule.words[:known] else "no"
    return _match_known_words(rule.words, [word for word in words[:known] if word is not None])


def _match_prefix(rule: tuple[str, ...], words: tuple[str | None, ...]) -> MatchResult:
    for place, wanted in enumerate(rule):
        if place >= len(words):
            return "no"
        if words[place] is None:
            return "maybe"
        if words[place] != wanted:
            return "no"
    return "yes"


def _match_known_words(rule: tuple[str, ...], known: list[str]) -> MatchResult:
    """Whether a pattern may match a command that begins with these words."""
    for place, wanted in enumerate(rule):
        if place >= len(known) or "*" in wanted:
            return "maybe"
        if known[place] != wanted:
            return "no"
    return "maybe"


def has_literal_targets(parsed: ParsedCommand) -> bool:
    """Whether each file that a redirection writes is known beforehand: neither an expansion nor a folder hides it."""
    return all(_is_absolute(found) or _is_relative(found) for found in _list_writes(parsed))


def list_absolute_targets(parsed: ParsedCommand) -> frozenset[str]:
    """The files, written by redirections, that are the same wherever the command runs; `~` is not expanded."""
    if any(map(sets_dangerous_variable, parsed.parts)):
        # With another HOME, `~` is another folder.
        return frozenset()
    return frozenset(found.target.text for found in _list_writes(parsed) if _is_absolute(found))


def _list_writes(parsed: ParsedCommand) -> Iterator[Redirection]:
    return (found for part in parsed.parts for found in part.redirections if found.writes)


def _is_absolute(found: Redirection) -> bool:
    return found.target.kind == "home" or (found.target.kind == "literal" and found.target.text.startswith("/"))


def _is_relative(found: Redirection) -> bool:
    return found.target.kind == "literal" and bool(found.target.text) and found.folders is not None

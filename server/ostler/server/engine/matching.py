"""Which rules speak of a call: by the places it touches, the command it runs, or a text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ostler.server.settings import RuleSet, SourcedRule
from ostler.tools import commands
from ostler.tools.command_check import only_reads_inside
from ostler.tools.context import Surroundings
from ostler.tools.rules import matches_text
from ostler.tools.subject import OfCommand, OfPlaces, OfText, Place, Subject
from ostler.tools.tool import AnyTool

Forbidding = Literal["deny", "ask"]


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that speaks of a call; `unsure` where only the run would tell, so that a person has to look."""

    rule: SourcedRule
    unsure: bool = False


def needs_subject(rules: RuleSet, tool: AnyTool) -> bool:
    """Whether any rule of the tool's looks at more than its name; finding out what a call touches costs time."""
    names = (tool.name, "Read", "Edit") if tool.is_shell else (tool.name,)
    found = [*rules.allows(tool.name), *(rule for name in names for rule in (*rules.denies(name), *rules.asks(name)))]
    return any(rule.rule.content is not None for rule in found)


def forbidding(rules: RuleSet, behavior: Forbidding, tool: AnyTool, subject: Subject) -> Found | None:
    """The first rule that forbids the call, or asks about it."""
    own = _rules(rules, behavior, tool.name)
    match subject:
        case OfText(text):
            return _first(own, lambda rule: matches_text(tool.name, rule.rule.content, text))
        case OfPlaces(places):
            return _first(own, lambda rule: any(_speaks_of(rule, place) for place in places))
        case OfCommand():
            return _of_command(own, subject) or _of_files(rules, behavior, subject.places)


def _rules(rules: RuleSet, behavior: Forbidding, tool: str) -> tuple[SourcedRule, ...]:
    return rules.denies(tool) if behavior == "deny" else rules.asks(tool)


def _first(rules: Iterable[SourcedRule], speaks: Callable[[SourcedRule], bool]) -> Found | None:
    return next((Found(rule) for rule in rules if speaks(rule)), None)


def _speaks_of(rule: SourcedRule, place: Place) -> bool:
    return rule.rule.content is None or rule.speaks_of_path(place.written, place.real)


def _of_command(own: Sequence[SourcedRule], subject: OfCommand) -> Found | None:
    whole = next((rule for rule in own if rule.rule.content is None), None)
    if whole is not None:
        return Found(whole)
    by_content = {rule.rule.content or "": rule for rule in reversed(own)}
    caught = commands.judge_match(subject.reading, list(by_content))
    if caught is not None:
        return Found(by_content[caught])
    if own and commands.undecided(subject.reading, list(by_content)):
        return Found(own[0], unsure=True)
    return None


def _of_files(rules: RuleSet, behavior: Forbidding, places: Sequence[Place]) -> Found | None:
    """Rules about files bind the commands that visibly touch them."""
    for place in places:
        reading = [rule for rule in _rules(rules, behavior, "Read") if rule.pattern is not None]
        writing = [rule for rule in _rules(rules, behavior, "Edit") if rule.pattern is not None]
        found = _first((*reading, *(writing if place.writes else ())), lambda rule: _speaks_of(rule, place))  # noqa: B023
        if found is not None:
            return found
        if place.deep and reading:
            # What lies below is not listed here, and something of it may be what the rule is about.
            return Found(reading[0], unsure=True)
    return None


def allowing(
    rules: RuleSet, tool: AnyTool, subject: Subject, surroundings: Surroundings, may_write: Callable[[Place], bool]
) -> SourcedRule | None:
    """The rule that allows the call, where all that it does is allowed.

    `may_write` tells of a file that a command writes by a redirection, and that no rule of Edit's allows.
    """
    own = rules.allows(tool.name)
    match subject:
        case OfText(text):
            return next((rule for rule in own if matches_text(tool.name, rule.rule.content, text)), None)
        case OfPlaces(places):
            return next((rule for rule in own if all(_speaks_of(rule, place) for place in places)), None)
        case OfCommand():
            return _command_allowed(rules, own, subject, surroundings, may_write)


def _command_allowed(
    rules: RuleSet,
    own: Sequence[SourcedRule],
    subject: OfCommand,
    surroundings: Surroundings,
    may_write: Callable[[Place], bool],
) -> SourcedRule | None:
    whole = next((rule for rule in own if rule.rule.content is None), None)
    if whole is not None or not own:
        return whole
    contents = [rule.rule.content or "" for rule in own]
    uncovered = commands.judge_allow(subject.reading, contents, lambda part: only_reads_inside(part, surroundings))
    if any(each.why == "rule" for each in uncovered):
        return None
    if uncovered and not all(_may_be_written(rules, place, may_write) for place in subject.places if place.writes):
        return None
    return next((rule for rule in own if _helps(rule, subject)), None)


def _may_be_written(rules: RuleSet, place: Place, may_write: Callable[[Place], bool]) -> bool:
    return may_write(place) or any(_speaks_of(rule, place) for rule in rules.allows("Edit"))


def _helps(rule: SourcedRule, subject: OfCommand) -> bool:
    content = rule.rule.content or ""
    if content.strip() == subject.reading.command.strip():
        return True
    return any(commands.rule_allows(content, part) for part in subject.reading.parts)


def may_read(rules: RuleSet) -> Callable[[str], bool] | None:
    """Which files a search may show: what a rule forbids, or wants to be asked about, is left out."""
    binding = [rule for rule in (*rules.denies("Read"), *rules.asks("Read")) if rule.pattern is not None]
    if not binding:
        return None
    return lambda path: not any(rule.speaks_of_path(path, path) for rule in binding)

"""Which rules speak of a call: by the places it touches, the command it runs, or a text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ostler.server.settings import Behavior, RuleSet, SourcedRule
from ostler.server.settings.rule_set import CommandRules
from ostler.tools import commands
from ostler.tools.context import Surroundings
from ostler.tools.permissions import matches_text
from ostler.tools.permissions.subject import OfCommand, OfPlaces, OfServer, OfText, Place, Subject
from ostler.tools.shell.bash_policy import reads_inside, writes_as_it_says
from ostler.tools.tool import AnyTool

Forbidding = Literal["deny", "ask"]


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that speaks of a call; `unsure` where only the run would tell, so that a person has to look."""

    rule: SourcedRule
    unsure: bool = False


def needs_subject(rules: RuleSet, tool: AnyTool) -> bool:
    """Whether any rule of the tool's looks at more than its name; finding out what a call touches costs time."""
    if tool.runs_commands and not tool.is_shell:
        return True  # whose rules they are depends on the subject
    names = (tool.name, "Read", "Edit") if tool.is_shell else (tool.name,)
    found = (rules.allows(tool.name), *(kind(name) for name in names for kind in (rules.denies, rules.asks)))
    return any(rule.rule.content is not None for each in found for rule in each)


def forbidding(rules: RuleSet, behavior: Forbidding, tool: AnyTool, subject: Subject) -> Found | None:
    """The first rule that forbids the call, or asks about it."""
    match subject:
        case OfText(text):
            own = _rules(rules, behavior, tool.name)
            return _first(own, lambda rule: matches_text(tool.name, rule.rule.content, text))
        case OfServer():
            return _first(_about(rules, behavior, tool, subject), lambda _: True)
        case OfPlaces(places):
            binding = _binding(rules, behavior, tool, subject)
            return _first(binding, lambda rule: any(_speaks_of(rule, place) for place in places))
        case OfCommand():
            for name in _names(tool, subject):
                if found := _of_command(rules.commands(behavior, name), subject):
                    return found
            return _of_files(rules, behavior, subject)


def _rules(rules: RuleSet, behavior: Behavior, tool: str) -> tuple[SourcedRule, ...]:
    match behavior:
        case "allow":
            return rules.allows(tool)
        case "ask":
            return rules.asks(tool)
        case "deny":
            return rules.denies(tool)


def _binding(rules: RuleSet, behavior: Behavior, tool: AnyTool, subject: OfPlaces) -> Sequence[SourcedRule]:
    own = _rules(rules, behavior, tool.name)
    if subject.like is None:
        return own
    # Its own rules with a content are about commands.
    return [*(rule for rule in own if rule.rule.content is None), *_rules(rules, behavior, subject.like)]


def _about(rules: RuleSet, behavior: Behavior, tool: AnyTool, subject: OfServer) -> Sequence[SourcedRule]:
    """Rules about the whole tool, and about the whole server."""
    every = (*_rules(rules, behavior, tool.name), *_rules(rules, behavior, subject.rule))
    return [rule for rule in every if rule.rule.content is None]


def _names(tool: AnyTool, subject: OfCommand) -> tuple[str, ...]:
    """Whose rules bind a command."""
    return (tool.name,) if subject.like is None else (tool.name, subject.like)


def _first(rules: Iterable[SourcedRule], speaks: Callable[[SourcedRule], bool]) -> Found | None:
    return next((Found(rule) for rule in rules if speaks(rule)), None)


def _speaks_of(rule: SourcedRule, place: Place) -> bool:
    return rule.rule.content is None or rule.speaks_of_path(place.written, place.real)


def _of_command(own: CommandRules, subject: OfCommand) -> Found | None:
    if own.whole is not None:
        return Found(own.whole)
    caught = commands.judge_match(subject.reading, own.contents)
    if caught is not None:
        return Found(own.by_content[caught])
    if own.rules and commands.undecided(subject.reading, own.contents):
        return Found(own.rules[0], unsure=True)
    return None


def _of_files(rules: RuleSet, behavior: Forbidding, subject: OfCommand) -> Found | None:
    """Rules about files bind the commands that visibly touch them; one that is an edit, those about all files, too."""
    if not subject.places:
        return None
    reading = [rule for rule in _rules(rules, behavior, "Read") if rule.pattern is not None]
    writing = [rule for rule in _rules(rules, behavior, "Edit") if rule.pattern is not None or subject.edits]
    for place in subject.places:
        for rule in (*reading, *writing) if place.writes else reading:
            if _speaks_of(rule, place):
                return Found(rule)
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
    match subject:
        case OfText(text):
            own = rules.allows(tool.name)
            return next((rule for rule in own if matches_text(tool.name, rule.rule.content, text)), None)
        case OfServer():
            return next(iter(_about(rules, "allow", tool, subject)), None)
        case OfPlaces(places):
            binding = _binding(rules, "allow", tool, subject)
            return next((rule for rule in binding if all(_speaks_of(rule, place) for place in places)), None)
        case OfCommand():
            for name in _names(tool, subject):
                of_commands = rules.commands("allow", name)
                if found := _command_allowed(rules, of_commands, subject, surroundings, may_write):
                    return found
            return _edit_allowed(rules, subject.places) if subject.edits else None


def _edit_allowed(rules: RuleSet, places: Sequence[Place]) -> SourcedRule | None:
    """For a command that is nothing but an edit: the rule of Edit's that allows it on every file."""
    return next((rule for rule in rules.allows("Edit") if all(_speaks_of(rule, place) for place in places)), None)


def _command_allowed(
    rules: RuleSet,
    own: CommandRules,
    subject: OfCommand,
    surroundings: Surroundings,
    may_write: Callable[[Place], bool],
) -> SourcedRule | None:
    if own.whole is not None:
        return own.whole
    helping = commands.first_help(subject.reading, own.contents)
    if helping is None:
        # Without a rule that does anything for it, what else would let it pass is no matter here.
        return None
    uncovered = commands.judge_allow(subject.reading, own.contents, reads_inside(surroundings))
    if any(each.why == "rule" for each in uncovered):
        return None
    if not uncovered:
        return own.by_content[helping]
    if not commands.names_its_files(subject.reading):
        return None
    written = [place for place in subject.places if place.writes]
    if all(_may_be_written(rules, place, may_write) for place in written):
        return own.by_content[helping]
    # Whoever allowed the line in just these words has read which files it writes. A project allows nothing outside.
    line = own.contents.as_line(subject.reading.command)
    rule = own.by_content[line] if line is not None else None
    if rule is None or not writes_as_it_says(subject.reading, written, surroundings, outside=rule.source != "project"):
        return None
    return rule


def _may_be_written(rules: RuleSet, place: Place, may_write: Callable[[Place], bool]) -> bool:
    return may_write(place) or any(_speaks_of(rule, place) for rule in rules.allows("Edit"))


def may_read(rules: RuleSet) -> Callable[[str], bool] | None:
    """Which files a search may show: what a rule forbids, or wants to be asked about, is left out."""
    binding = [rule for rule in (*rules.denies("Read"), *rules.asks("Read")) if rule.pattern is not None]
    if not binding:
        return None
    return lambda path: not any(rule.speaks_of_path(path, path) for rule in binding)

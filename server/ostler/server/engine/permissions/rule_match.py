"""Matches rules with a call: by the files it touches, the command it runs, its MCP server, or a text."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from ostler.server.engine.permissions.file_match import (
    ForbiddingBehavior,
    covers_all_below,
    find_named_file,
    look_for_files,
)
from ostler.server.settings import Behavior, RuleSet, SourcedRule
from ostler.server.settings.rule_set import CommandRules
from ostler.tools import commands
from ostler.tools.call_subject import list_rule_families
from ostler.tools.context import SessionView
from ostler.tools.permissions import EDIT, READ, WEB_FETCH, forbids_text, matches_text
from ostler.tools.permissions.subject import (
    AccessedPath,
    CommandSubject,
    PathSubject,
    ServerSubject,
    Subject,
    TextSubject,
)
from ostler.tools.shell.bash_policy import build_read_check, find_work_in_main_checkout, names_all_writes
from ostler.tools.tool import AnyTool


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule that matches a call; `unsure` where only running it would tell, so that a person has to be asked."""

    rule: SourcedRule
    unsure: bool = False
    why: str | None = None
    """What cannot be seen, where that is known."""


def needs_subject(rules: RuleSet, tool: AnyTool) -> bool:
    """Whether any rule for the tool has more than its name; to find out what a call touches takes time."""
    if tool.shell.runs_commands and not tool.shell.is_shell:
        return True  # which tool's rules bind it depends on the subject
    if tool.permissions.server is not None:
        return True  # the rules about a whole server bind it, too
    names = (tool.name, READ, EDIT) if tool.shell.is_shell else (tool.name, *list_rule_families(tool))
    found = (
        rules.find_allow_rules(tool.name),
        *(kind(name) for name in names for kind in (rules.find_deny_rules, rules.find_ask_rules)),
    )
    return any(rule.rule.content is not None for each in found for rule in each)


def is_spoken_of(rules: RuleSet, tool: AnyTool, subject: Subject) -> bool:
    """Whether one of these rules, which ask, certainly speaks of a call."""
    found = find_forbidding_rule(rules, "ask", tool, subject)
    return found is not None and not found.unsure


def find_forbidding_rule(
    rules: RuleSet, behavior: ForbiddingBehavior, tool: AnyTool, subject: Subject
) -> RuleMatch | None:
    """The first rule that denies the call, or asks about it."""
    found = _match_subject(rules, behavior, tool, subject)
    return found if found is not None else _match_paths(rules, behavior, tool, subject)


def _match_paths(rules: RuleSet, behavior: ForbiddingBehavior, tool: AnyTool, subject: Subject) -> RuleMatch | None:
    """The rules about files bind every tool that is given a path, unless it says otherwise."""
    places = subject.paths if not isinstance(subject, CommandSubject) else ()
    if not places:
        return None
    names = (tool.name, *list_rule_families(tool))
    families = (rule for name in names for rule in _list_rules(rules, behavior, name))
    binding = [rule for rule in families if rule.pattern is not None]
    return _find_first(binding, lambda rule: any(_matches_place(rule, place) for place in places))


def _match_subject(rules: RuleSet, behavior: ForbiddingBehavior, tool: AnyTool, subject: Subject) -> RuleMatch | None:
    match subject:
        case TextSubject(text=text):
            own = _list_rules(rules, behavior, tool.name)
            return _find_first(own, lambda rule: forbids_text(tool.name, rule.rule.content, text))
        case ServerSubject():
            return _find_first(_list_whole_rules(rules, behavior, tool, subject), lambda _: True)
        case PathSubject(places):
            binding = _list_binding(rules, behavior, tool, subject)
            return _find_first(binding, lambda rule: any(_matches_place(rule, place) for place in places))
        case CommandSubject():
            return _match_command_line(rules, behavior, tool, subject)


def find_unseen_rule(rules: RuleSet, behavior: ForbiddingBehavior, subject: CommandSubject) -> RuleMatch | None:
    """The first rule about files that the command may access without naming them. Blocks: looks at the disk."""
    rule = look_for_files(rules, behavior, subject)
    return RuleMatch(rule, unsure=True) if rule is not None else None


def _match_command_line(
    rules: RuleSet, behavior: ForbiddingBehavior, tool: AnyTool, subject: CommandSubject
) -> RuleMatch | None:
    """A rule that certainly forbids it, else one that may."""
    own = [_match_command(rules.find_command_rules(behavior, name), subject) for name in _list_owners(tool, subject)]
    found = [match for match in own if match is not None]
    if all(match.unsure for match in found) and (rule := find_named_file(rules, behavior, subject)):
        return RuleMatch(rule)
    return next((match for match in found if not match.unsure), next(iter(found), None))


def _list_rules(rules: RuleSet, behavior: Behavior, tool: str) -> tuple[SourcedRule, ...]:
    match behavior:
        case "allow":
            return rules.find_allow_rules(tool)
        case "ask":
            return rules.find_ask_rules(tool)
        case "deny":
            return rules.find_deny_rules(tool)


def _list_binding(rules: RuleSet, behavior: Behavior, tool: AnyTool, subject: PathSubject) -> Sequence[SourcedRule]:
    own = _list_rules(rules, behavior, tool.name)
    if subject.like_tool is None:
        return own
    # The tool's own rules with a content are about commands.
    return [*(rule for rule in own if rule.rule.content is None), *_list_rules(rules, behavior, subject.like_tool)]


def _list_whole_rules(
    rules: RuleSet, behavior: Behavior, tool: AnyTool, subject: ServerSubject
) -> Sequence[SourcedRule]:
    """The rules about the whole tool, and about the whole MCP server."""
    names = dict.fromkeys((tool.name, subject.rule, *tool.rule_names))
    return [rule for name in names for rule in _list_rules(rules, behavior, name) if rule.rule.content is None]


def _list_owners(tool: AnyTool, subject: CommandSubject) -> tuple[str, ...]:
    """The tools whose rules bind a command."""
    return (tool.name,) if subject.like_tool is None else (tool.name, subject.like_tool)


def _find_first(rules: Iterable[SourcedRule], matches: Callable[[SourcedRule], bool]) -> RuleMatch | None:
    return next((RuleMatch(rule) for rule in rules if matches(rule)), None)


def _matches_place(rule: SourcedRule, place: AccessedPath) -> bool:
    if rule.pattern is None:
        # A content that cannot be a path forbids all, and allows nothing.
        return rule.rule.content is None or rule.behavior != "allow"
    if rule.matches_path(place.written, place.real):
        return True
    return rule.behavior != "allow" and covers_all_below(rule, place)


def _match_command(own: CommandRules, subject: CommandSubject) -> RuleMatch | None:
    if own.whole is not None:
        return RuleMatch(own.whole)
    content = commands.find_forbidding_rule(subject.parsed, own.contents)
    if content is not None:
        return RuleMatch(own.by_content[content])
    possible = commands.find_possible_rule(subject.parsed, own.contents)
    if possible is None:
        return None
    return RuleMatch(own.by_content[possible], unsure=True, why=commands.explain_hidden_runs(subject.parsed))


def find_allow_rule(
    rules: RuleSet, tool: AnyTool, subject: Subject, view: SessionView, may_write: Callable[[AccessedPath], bool]
) -> SourcedRule | None:
    """The rule that allows the call, where all that it does is allowed.

    `may_write` says whether a command may write a file by a redirection where no rule of Edit's allows that.
    """
    match subject:
        case TextSubject(text=text):
            own = rules.find_allow_rules(tool.name)
            return next((rule for rule in own if matches_text(tool.name, rule.rule.content, text)), None)
        case ServerSubject():
            return next(iter(_list_whole_rules(rules, "allow", tool, subject)), None)
        case PathSubject(places):
            binding = _list_binding(rules, "allow", tool, subject)
            return next((rule for rule in binding if all(_matches_place(rule, place) for place in places)), None)
        case CommandSubject():
            for name in _list_owners(tool, subject):
                command_rules = rules.find_command_rules("allow", name)
                if rule := _find_command_rule(rules, command_rules, subject, view, may_write):
                    return (
                        rule
                        if find_work_in_main_checkout(subject, view) is None
                        else _find_line(command_rules, subject)
                    )
            return _find_edit_rule(rules, subject.paths) if subject.edits else None


def _find_line(own: CommandRules, subject: CommandSubject) -> SourcedRule | None:
    """The rule for exactly this line."""
    line = own.contents.find_line(subject.parsed.command)
    return own.by_content[line] if line is not None else None


def _find_edit_rule(rules: RuleSet, places: Sequence[AccessedPath]) -> SourcedRule | None:
    """For a command that only edits files: the rule of Edit's that allows it for every file."""
    return next(
        (rule for rule in rules.find_allow_rules(EDIT) if all(_matches_place(rule, place) for place in places)), None
    )


def _find_command_rule(
    rules: RuleSet,
    own: CommandRules,
    subject: CommandSubject,
    view: SessionView,
    may_write: Callable[[AccessedPath], bool],
) -> SourcedRule | None:
    if own.whole is not None:
        return own.whole
    content = commands.find_helping_rule(subject.parsed, own.contents)
    if content is None:
        # No rule allows any part of it; what else may allow it is not decided here.
        return None
    uncovered = commands.find_uncovered(subject.parsed, own.contents, build_read_check(view))
    if any(each.why == "rule" for each in uncovered):
        return None
    if not uncovered:
        return own.by_content[content]
    if not commands.has_literal_targets(subject.parsed):
        return None
    written = [place for place in subject.paths if place.writes]
    if all(_may_be_written(rules, place, may_write) for place in written):
        return own.by_content[content]
    # A rule for exactly this line allows the files that it writes, since they are in it; a project's only inside.
    rule = _find_line(own, subject)
    if rule is None or not names_all_writes(subject.parsed, written, view, outside=rule.source != "project"):
        return None
    return rule


def _may_be_written(rules: RuleSet, place: AccessedPath, may_write: Callable[[AccessedPath], bool]) -> bool:
    return may_write(place) or any(_matches_place(rule, place) for rule in rules.find_allow_rules(EDIT))


def list_opened_addresses(rules: RuleSet) -> frozenset[IPv4Address | IPv6Address]:
    """The addresses that allow rules name as such: fetching may reach them, public or not."""
    found: set[IPv4Address | IPv6Address] = set()
    for each in rules.find_allow_rules(WEB_FETCH):
        with contextlib.suppress(ValueError):  # most are names
            found.add(ip_address((each.rule.content or "").removeprefix("domain:").strip("[]")))
    return frozenset(found)


def make_read_filter(rules: RuleSet) -> Callable[[str], bool] | None:
    """A filter of the files that a search may show: not those of a deny or ask rule. None where there is no rule."""
    binding = [rule for rule in (*rules.find_deny_rules(READ), *rules.find_ask_rules(READ)) if rule.pattern is not None]
    if not binding:
        return None
    return lambda path: not any(rule.matches_path(path, path) for rule in binding)

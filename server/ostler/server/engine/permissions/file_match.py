"""Matches rules about files with a command: with the files that it names, and by a look at the disk with the others.

What a command certainly reads or writes is denied. Where it goes through a folder, shows what git has stored or names
files only at run time, a rule counts where there is a file that it is about.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ostler.server.settings import RuleSet, SourcedRule
from ostler.tools import commands
from ostler.tools.fs import paths
from ostler.tools.permissions import EDIT, READ
from ostler.tools.permissions.repository_files import TooMuchToList, list_repository_files
from ostler.tools.permissions.subject import AccessedPath, CommandSubject

ForbiddingBehavior = Literal["deny", "ask"]
_MAX_ENTRIES: Final = 10_000
"""Of the disk, for one decision: with more, a person is asked."""
_ANY_NAME: Final = "\N{REPLACEMENT CHARACTER}"
_EVERYWHERE: Final = AccessedPath("/", "/", deep=True)


def find_file_rules(
    rules: RuleSet, behavior: ForbiddingBehavior, subject: CommandSubject
) -> tuple[list[SourcedRule], list[SourcedRule]]:
    """The rules about reading, and those about writing; for what only edits, those about all files as well."""
    find = rules.find_deny_rules if behavior == "deny" else rules.find_ask_rules
    reading = [rule for rule in find(READ) if rule.pattern is not None]
    writing = [rule for rule in find(EDIT) if rule.pattern is not None or subject.edits]
    return reading, writing


def find_named_file(rules: RuleSet, behavior: ForbiddingBehavior, subject: CommandSubject) -> SourcedRule | None:
    """The rule about a file that the command certainly reads or writes."""
    reading, writing = find_file_rules(rules, behavior, subject)
    if not reading and not writing:
        return None
    both = [*reading, *writing]
    for place in subject.paths:
        for rule in both if place.writes else reading:
            if rule.matches_path(place.written, place.real) or covers_all_below(rule, place):
                return rule
    return None


def covers_all_below(rule: SourcedRule, place: AccessedPath) -> bool:
    """Whether it goes through a folder in which everything matches, whatever its name is, as with `secrets/**`."""
    if not place.deep or place.lists:
        return False
    return rule.matches_path(f"{place.written}/{_ANY_NAME}", f"{place.real}/{_ANY_NAME}")


def needs_look(rules: RuleSet, behavior: ForbiddingBehavior, subject: CommandSubject) -> bool:
    """Whether only the disk tells if a rule about files speaks of it."""
    reading, writing = find_file_rules(rules, behavior, subject)
    if not reading and not writing:
        return False
    return (
        subject.unknown_reads
        or subject.unknown_writes
        or bool(subject.repositories)
        or any(mention.may_exist or mention.in_text for mention in subject.mentions)
        or any(place.deep and (place.writes or not place.lists) for place in subject.paths)
    )


def look_for_files(rules: RuleSet, behavior: ForbiddingBehavior, subject: CommandSubject) -> SourcedRule | None:
    """The rule about a file that the command may read or write. Blocks: looks at the disk, and asks git."""
    reading, writing = find_file_rules(rules, behavior, subject)
    look = _Look()
    for rule in reading:
        if any(look.finds_below(rule, place) for place in _list_deep_reads(subject)):
            return rule
    for rule in (*writing, *reading):
        if any(look.finds_below(rule, place) for place in subject.paths if place.deep and place.writes):
            return rule
    if subject.unknown_writes and writing:
        # A file that it makes need not be there yet.
        return writing[0]
    return _find_mentioned(reading, writing, subject) or _find_shown(reading, subject)


def _list_deep_reads(subject: CommandSubject) -> Iterator[AccessedPath]:
    yield from (place for place in subject.paths if place.deep and not place.lists and not place.writes)
    if subject.unknown_reads or subject.unknown_writes:
        yield _EVERYWHERE


@dataclass(slots=True)
class _Look:
    """A bounded search for files that rules are about."""

    entries: int = field(default_factory=lambda: _MAX_ENTRIES)

    def finds_below(self, rule: SourcedRule, place: AccessedPath) -> bool:
        """Whether a file below a place matches; yes, too, where there is more to look at than there is time for."""
        pattern = rule.pattern
        if pattern is None:
            return True
        for base in pattern.bases:
            for top in dict.fromkeys((place.real, place.written)):
                start = _find_common(base or "/", top)
                if start is not None and self._finds_from(rule, start):
                    return True
        return False

    def _finds_from(self, rule: SourcedRule, start: str) -> bool:
        if not os.path.lexists(start):
            return False
        if rule.matches_path(start, start):
            return True
        for relative, _ in commands.walk_tree(start):
            self.entries -= 1
            path = os.path.join(start, relative)
            if self.entries < 0 or rule.matches_path(path, path):
                return True
        return False


def _find_common(base: str, top: str) -> str | None:
    """The deeper one of two folders, of which one is inside the other."""
    if paths.is_inside(base, top):
        return base
    return top if paths.is_inside(top, base) else None


def _find_mentioned(
    reading: Sequence[SourcedRule], writing: Sequence[SourcedRule], subject: CommandSubject
) -> SourcedRule | None:
    """The rule about a path that stands in the words of a program that may do anything with it."""
    for mention in subject.mentions:
        exists = os.path.lexists(mention.path)
        if not exists and not mention.in_text:
            continue
        place = AccessedPath(paths.normalize_path(mention.path), paths.resolve_path(mention.path), deep=True)
        for rule in (*(reading if exists else ()), *(writing if mention.in_text else ())):
            if rule.matches_path(place.written, place.real) or covers_all_below(rule, place):
                return rule
    return None


def _find_shown(reading: Sequence[SourcedRule], subject: CommandSubject) -> SourcedRule | None:
    patterns = [rule.pattern for rule in reading if rule.pattern is not None]
    for shown in subject.repositories if patterns else ():
        try:
            files = list_repository_files(shown.folder, patterns)
        except TooMuchToList:
            return reading[0]
        limits = [paths.resolve_path(path) for path in shown.paths]
        for path in files:
            if limits and not paths.is_inside_any(paths.resolve_path(path), limits, real=str):
                continue
            for rule in reading:
                if rule.matches_path(path, path):
                    return rule
    return None

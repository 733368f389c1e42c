"""Says which files a command line reads, writes, creates, moves, links and deletes, by a look at the disk.

One function, which guards, roots, rules, the mode acceptEdits and the classifier all ask. What counts is the effect and
not the operand: a destination that is a folder gets the base name of each source, a folder that is moved or copied is
everything below it, and what an earlier part of the line moves or links leads on to where it came from.
"""

import itertools
import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.commands.safety.file_effects import list_effects
from ostler.tools.commands.safety.file_targets import Effect, FileAction, FileTarget, Transfer, UnknownEffect
from ostler.tools.commands.syntax.globs import GlobLimits, NotExpandable, expand_glob, strip_glob_quotes
from ostler.tools.commands.syntax.parsed import Folders, ParsedCommand
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_MAX_BELOW: Final = 10_000
"""Entries below folders that are looked at for one command: more would hold up the call."""
_MAX_ALIASES: Final = 100
_GLOB_BEGINS: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FileAccess:
    """One path, absolute but not resolved."""

    path: str
    action: FileAction
    deep: bool = False
    """Everything below it as well."""

    @property
    def writes(self) -> bool:
        return self.action != "read"


@dataclass(frozen=True, slots=True)
class FileEffects:
    """What a command does to files, as far as its words and the disk tell."""

    accesses: tuple[FileAccess, ...]
    unknown: str | None = None
    """Why it may do more than that; None: that is all."""
    unknown_reads: bool = False
    """It reads files of which only the run tells the names."""
    unknown_writes: bool = False
    """The same for files that it changes."""
    unchecked: str | None = None
    """What holds more files than were looked at."""


def find_file_effects(parsed: ParsedCommand, folder: str) -> FileEffects:
    """What a command does to files, run in a folder; what runs inside wrappers included. Blocks: looks at the disk."""
    resolver = _EffectResolver(folder)
    if parsed.problem is not None:
        resolver.add_unknown(UnknownEffect(f"it is not fully understood: {parsed.problem}"))
    for part in parsed.parts:
        if any(value is None for _, value in part.assignments) or "loop" in part.inside:
            resolver.add_unknown(UnknownEffect("variables in it are known only when it runs"))
        for effect in list_effects(part):
            resolver.add(effect)
    return resolver.build_result()


def find_file_accesses(parsed: ParsedCommand, folder: str) -> tuple[FileAccess, ...]:
    """The files alone."""
    return find_file_effects(parsed, folder).accesses


def find_unnamed_accesses(parsed: ParsedCommand, folder: str) -> FileEffects | None:
    """The same without access to the disk; None where a file is named, or much has to be looked at."""
    resolver = _EffectResolver(folder)
    for part in parsed.parts:
        for effect in list_effects(part):
            if isinstance(effect, Transfer) or (
                isinstance(effect, FileTarget)
                and (_names_path(effect.word) or effect.follows or effect.action != "read")
            ):
                return None
            resolver.add(effect)
    return resolver.build_result()


def _names_path(word: Word | None) -> bool:
    return word is not None and word.kind != "unknown" and word.text not in {"", "-"}


@dataclass(slots=True)
class _EffectResolver:
    """Collects the effects of one command, in the order of its parts."""

    start: str
    found: dict[FileAccess, None] = field(default_factory=dict)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    """Names that the line itself makes, and what they lead to."""
    unknown: str | None = None
    unknown_reads: bool = False
    unknown_writes: bool = False
    unchecked: str | None = None
    budget: int = field(default_factory=lambda: _MAX_BELOW)
    globs: GlobLimits = field(default_factory=GlobLimits)

    def build_result(self) -> FileEffects:
        return FileEffects(tuple(self.found), self.unknown, self.unknown_reads, self.unknown_writes, self.unchecked)

    def add(self, effect: Effect) -> None:
        match effect:
            case FileTarget():
                self._add_target(effect)
            case Transfer():
                self._add_transfer(effect)
            case UnknownEffect():
                self.add_unknown(effect)

    def add_unknown(self, effect: UnknownEffect) -> None:
        self.unknown = self.unknown or effect.reason
        self.unknown_reads |= effect.reads
        self.unknown_writes |= effect.writes

    def _add_target(self, target: FileTarget) -> None:
        for path in self._list_paths(target.word, target.folders, target.action):
            if target.deep and target.action != "read":
                self._add_below(path, path, target.action)
            else:
                self._add_path(path, target.action, deep=target.deep)
                if target.deep and target.follows:
                    self._add_links(path)
        if target.word is not None and target.word.kind == "glob":
            for place in _list_glob_folders(target.word, self._list_folders(target.folders)):
                self._add_path(place, "read", deep=True)

    def _add_path(self, path: str, action: FileAction, *, deep: bool = False) -> None:
        self.found[FileAccess(path, action, deep)] = None
        for alias, source in self._list_sources(path):
            self.found[FileAccess(source + path[len(alias) :], action, deep)] = None

    def _list_sources(self, path: str) -> Iterator[tuple[str, str]]:
        """What the line itself moved, copied or linked to this name, or to a folder above it."""
        plain = posixpath.normpath(path)
        return ((alias, source) for alias, source in self.aliases if plain == alias or plain.startswith(f"{alias}/"))

    def _add_transfer(self, transfer: Transfer) -> None:
        destinations = list(self._list_paths(transfer.destination, transfer.folders, "write"))
        sources = [
            (word, path) for word in transfer.sources for path in self._list_paths(word, transfer.folders, "read")
        ]
        for destination in destinations:
            folder = self._is_folder(destination, transfer, several=len(sources) > 1)
            if not sources:
                self._add_path(destination, "write")
            for word, source in sources:
                self._add_one_transfer(transfer, word, source, destination, folder=folder)

    def _is_folder(self, destination: str, transfer: Transfer, *, several: bool) -> bool:
        if transfer.destination_is == "name":
            return False
        given = transfer.destination_is == "folder" or several or destination.endswith("/")
        # Any of the aliases may be a folder by then, and so may one that the line makes before.
        made = any(each.path.rstrip("/") == destination.rstrip("/") for each in self.found if each.action == "create")
        return (
            given
            or made
            or os.path.isdir(destination)
            or any(
                os.path.isdir(source + destination[len(alias) :]) for alias, source in self._list_sources(destination)
            )
        )

    def _add_one_transfer(self, transfer: Transfer, word: Word, source: str, destination: str, *, folder: bool) -> None:
        contents = transfer.copies_inside and word.text.endswith("/")
        name = word.text.lstrip("/") if transfer.keeps_path else posixpath.basename(source.rstrip("/"))
        inside = folder or transfer.copies_inside
        targets = [destination]
        if inside and not contents:
            # `..` and `.` have no base name of their own.
            named = name if name not in {"", ".", ".."} else ""
            targets = [posixpath.join(destination, named)]
        if transfer.copies_inside and not folder:
            targets.append(destination)
        for target in targets:
            if transfer.action == "link":
                self._add_link(source, word, target)
            else:
                self._add_moved(source, target, transfer)

    def _add_link(self, source: str, word: Word, target: str) -> None:
        """A link is read through later: making one is to read what it leads to, with all below."""
        relative = posixpath.join(posixpath.dirname(target), word.text) if word.kind == "literal" else source
        self._add_path(target, "link")
        for place in dict.fromkeys((source, relative)):
            self._add_path(place, "read", deep=os.path.isdir(place))
            self._add_alias(target, place)

    def _add_moved(self, source: str, target: str, transfer: Transfer) -> None:
        moves = transfer.action == "move"
        if transfer.deep:
            self._add_below(source, source, "move" if moves else "read")
            self._add_below(source, target, "create")
        else:
            self._add_path(source, "move" if moves else "read")
            self._add_path(target, "create")
        self._add_alias(target, source)

    def _add_alias(self, alias: str, source: str) -> None:
        plain = posixpath.normpath(source)
        # What was itself moved before leads on to where it came from.
        earlier = [origin + plain[len(moved) :] for moved, origin in self._list_sources(source)]
        self.aliases += [(posixpath.normpath(alias), each) for each in (plain, *earlier)]
        if len(self.aliases) > _MAX_ALIASES:
            self.add_unknown(UnknownEffect("it moves more than can be followed", reads=True, writes=True))
            self.aliases = self.aliases[:_MAX_ALIASES]

    def _add_below(self, tree: str, target: str, action: FileAction) -> None:
        """The same as happens to a path happens to all below it; `target` is where that lies."""
        below = self._list_below(tree) if os.path.isdir(tree) and not os.path.islink(tree.rstrip("/")) else []
        # What an earlier part of the line moved there lies below it as well.
        earlier = [
            found
            for alias, source in self.aliases
            if alias == posixpath.normpath(tree)
            for found in (self._list_below(source) or ())
        ]
        self._add_path(target, action, deep=below is None)
        for relative in (*(below or ()), *earlier):
            self._add_path(posixpath.join(target, relative), action)

    def _list_below(self, tree: str) -> list[str] | None:
        """All below a folder, relative to it, links not followed; None where there is too much."""
        below = list(itertools.islice(_walk(tree), self.budget + 1))
        if len(below) > self.budget:
            self.unchecked = self.unchecked or tree
            self.add_unknown(UnknownEffect(f"{tree} holds too many files to look at", reads=True, writes=True))
            return None
        self.budget -= len(below)
        return [name for name, _ in below]

    def _add_links(self, tree: str) -> None:
        """What is read through the links below a folder."""
        waiting, seen = [tree], set[str]()
        while waiting:
            here = waiting.pop()
            for relative, is_link in _walk(here):
                self.budget -= 1
                if self.budget < 0:
                    self.unchecked = self.unchecked or tree
                    return
                path = posixpath.join(here, relative)
                if is_link and (real := os.path.realpath(path)) not in seen:
                    seen.add(real)
                    self._add_path(path, "read", deep=True)
                    waiting += [real] if os.path.isdir(real) else []

    def _list_paths(self, word: Word | None, folders: Folders, action: FileAction) -> Iterator[str]:
        """The paths that a word may mean. A folder that is not known is taken for where the command starts."""
        if word is None:
            yield from self._list_folders(folders)
            return
        if word.kind == "unknown":
            reads = action == "read"
            self.add_unknown(UnknownEffect(f"{word.source or 'a name'} is known only when it runs", reads, not reads))
        if not _names_path(word):
            return
        if word.kind == "home":
            yield os.path.expanduser(word.text)
            return
        if folders is None and not word.text.startswith("/"):
            self.add_unknown(
                UnknownEffect("the folder that it runs in is not known", action == "read", action != "read")
            )
        for place in self._list_folders(folders):
            path = posixpath.join(place, word.text)
            if word.kind == "glob":
                yield from self._list_matches(word, place)
            else:
                yield path

    def _list_matches(self, word: Word, place: str) -> Iterator[str]:
        """What a pattern finds; where that is not known exactly, all that it may find."""
        try:
            names = expand_glob(word, place, self.globs, wide=True)
        except NotExpandable as error:
            self.unchecked = self.unchecked or word.source
            self.add_unknown(UnknownEffect(str(error), reads=True, writes=True))
            return
        yield from (posixpath.join(place, name) for name in names or [strip_glob_quotes(word)])

    def _list_folders(self, folders: Folders) -> list[str]:
        return [self.start] if folders is None else [resolve_folder(self.start, folder) for folder in folders]


def _list_glob_folders(word: Word, folders: list[str]) -> Iterator[str]:
    """The folders that a pattern searches: which names it finds there is known only when it runs."""
    fixed = posixpath.dirname(_GLOB_BEGINS.split(word.text, maxsplit=1)[0])
    for place in folders:
        yield posixpath.join(place, fixed) if fixed else place


def _walk(tree: str) -> Iterator[tuple[str, bool]]:
    """Everything below a folder, relative to it, and whether it is a link. What cannot be read is left out."""
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        try:
            with os.scandir(os.path.join(tree, inner)) as entries:
                for entry in entries:
                    relative = posixpath.join(inner, entry.name)
                    is_link = entry.is_symlink()
                    yield relative, is_link
                    if not is_link and entry.is_dir(follow_symlinks=False):
                        waiting.append(relative)
        except OSError:
            continue

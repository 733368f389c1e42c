"""Says which files a command line reads, writes, creates, moves, links and deletes, by a look at the disk.

One function, which guards, roots, rules, the mode acceptEdits and the classifier all ask. What counts is the effect and
not the operand: a destination that is a folder gets the base name of each source, a folder that is moved or copied is
everything below it, and what an earlier part of the line moves or links leads on to where it came from.
"""

import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.commands.effects.file_effects import RUNS_LINES, list_effects
from ostler.tools.commands.effects.file_targets import (
    Effect,
    FileAccess,
    FileAction,
    FileEffects,
    FileTarget,
    Mention,
    MentionedText,
    RepositoryRead,
    ShownRepository,
    Transfer,
    UnknownEffect,
)
from ostler.tools.commands.safety.wrappers import SHELLS
from ostler.tools.commands.syntax.globs import GlobLimits, NotExpandable, expand_glob, strip_glob_quotes
from ostler.tools.commands.syntax.parsed import Folders, ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_MAX_BELOW: Final = 10_000
"""Entries below folders that are looked at for one command: more would hold up the call."""
_PLAIN_OPTION: Final = re.compile(r"--[A-Za-z][\w-]*(?:=([\w.][\w./-]*))?", re.ASCII)
_PLAIN_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)
"""What most words are: they need not be searched for names."""
_MAX_ALIASES: Final = 100
_MAX_LED: Final = 2_000
"""Paths that are looked for below what the line itself moved: of `cp a1 b; cp a2 b; …` each part would look for all."""
_MAX_ROUNDS: Final = 5
_MAX_DEPTH: Final = 64
_MAX_MENTIONS: Final = 500
_MAX_NAME: Final = 4_096
"""No path is longer."""
_GLOB_BEGINS: Final = re.compile(r"[*?\[]")
_NAMES_IN_TEXT: Final = re.compile(r"[^\s'\"`()\[\]{}<>=,;:@|&!$]+")
_KNOWN_FOLDERS: Final = re.compile(r"\$\{?(PWD|HOME)\b\}?")
_WHOLE_TREE: Final = frozenset({".", "./", "", "*", ":/"})


def find_file_effects(parsed: ParsedCommand, folder: str) -> FileEffects:
    """What a command does to files, run in a folder; what runs inside wrappers included. Blocks: looks at the disk."""
    resolver = _build_resolver(parsed, folder)
    effects = [effect for part in parsed.parts for effect in list_effects(part)]
    resolver.add_all(effects, in_order=all(map(_runs_in_order, parsed.parts)))
    return resolver.build_result()


def _build_resolver(parsed: ParsedCommand, folder: str) -> "_EffectResolver":
    resolver = _EffectResolver(folder)
    if parsed.problem is not None:
        resolver.add_unknown(UnknownEffect(f"it is not fully understood: {parsed.problem}", reads=True, writes=True))
    for part in parsed.parts:
        if any(value is None for _, value in part.assignments) or "loop" in part.inside:
            resolver.add_unknown(UnknownEffect("variables in it are known only when it runs"))
    return resolver


def _runs_in_order(part: SimpleCommand) -> bool:
    """Whether what stands first in it also runs first."""
    shell = part.tokens and any(token.literal in SHELLS or token.literal in RUNS_LINES for token in part.tokens)
    return not shell and not part.inside & {"loop", "function", "background"}


def find_file_accesses(parsed: ParsedCommand, folder: str) -> tuple[FileAccess, ...]:
    """The files alone."""
    return find_file_effects(parsed, folder).accesses


def find_unnamed_accesses(parsed: ParsedCommand, folder: str) -> FileEffects | None:
    """The same without access to the disk; None where a file is named, or much has to be looked at."""
    resolver = _build_resolver(parsed, folder)
    for part in parsed.parts:
        for effect in list_effects(part):
            match effect:
                case Transfer() | RepositoryRead():
                    return None
                case FileTarget() if _names_path(effect.word) or effect.follows or effect.action != "read":
                    return None
                case _:
                    resolver.add(effect)
    return resolver.build_result()


def _names_path(word: Word | None) -> bool:
    return word is not None and word.kind != "unknown" and word.text not in {"", "-"}


@dataclass(frozen=True, slots=True)
class _NamedPath:
    """A path, and how the program is given it."""

    path: str
    written: str


@dataclass(slots=True)
class _EffectResolver:
    """Collects the effects of one command, in the order of its parts."""

    start: str
    found: dict[FileAccess, None] = field(default_factory=dict)
    aliases: dict[str, dict[str, None]] = field(default_factory=dict)
    """Names that the line itself makes, folded, and what they lead to."""
    alias_count: int = 0
    led_count: int = 0
    spelled: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Each path as folders above it, folded, and what comes below them: most are looked at several times."""
    repositories: dict[ShownRepository, None] = field(default_factory=dict)
    mentions: dict[Mention, None] = field(default_factory=dict)
    unknown: str | None = None
    unknown_reads: bool = False
    unknown_writes: bool = False
    unchecked: str | None = None
    entries_left: int = field(default_factory=lambda: _MAX_BELOW)
    globs: GlobLimits = field(default_factory=GlobLimits)
    changed: set[str] = field(default_factory=set)
    """Paths that the line itself changes, folded."""
    made: dict[str, dict[str, None]] = field(default_factory=dict)
    """Those that exist afterwards, relative to each folder above them."""
    made_count: int = 0
    trees: dict[str, list[tuple[str, bool]] | None] = field(default_factory=dict)
    searched_texts: set[MentionedText] = field(default_factory=set)
    resolved_folders: dict[Folders, list[str]] = field(default_factory=dict)

    def build_result(self) -> FileEffects:
        return FileEffects(
            tuple(self.found),
            self.unknown,
            self.unknown_reads,
            self.unknown_writes,
            self.unchecked,
            tuple(self.repositories),
            tuple(self.mentions),
        )

    def add_all(self, effects: Sequence[Effect], *, in_order: bool) -> None:
        for effect in effects:
            self.add(effect)
        if in_order:
            return
        # What stands later may run earlier: all once more, until nothing new leads anywhere.
        for _ in range(_MAX_ROUNDS):
            known = self.alias_count
            if not known:
                return
            for effect in dict.fromkeys(effects):
                self.add(effect)
            if self.alias_count == known:
                return
        self.add_unknown(UnknownEffect("it moves more than can be followed", reads=True, writes=True))

    def add(self, effect: Effect) -> None:
        match effect:
            case FileTarget():
                self._add_target(effect)
            case Transfer():
                self._add_transfer(effect)
            case RepositoryRead():
                self._add_repository(effect)
            case MentionedText():
                self._add_mentions(effect)
            case UnknownEffect():
                self.add_unknown(effect)

    def add_unknown(self, effect: UnknownEffect) -> None:
        self.unknown = self.unknown or effect.reason
        self.unknown_reads |= effect.reads
        self.unknown_writes |= effect.writes

    def _add_target(self, target: FileTarget) -> None:
        for named in self._list_paths(target.word, target.folders, target.action, from_top=target.from_top):
            path = named.path
            if target.tracked:
                self._add_path(path, target.action, deep=True)
                if named.written not in _WHOLE_TREE:
                    self._add_below(path, path, target.action, skips_git=True)
            elif target.deep and target.action != "read":
                self._add_below(path, path, target.action)
            else:
                self._add_path(path, target.action, deep=target.deep, lists=target.lists)
                if target.deep and target.follows:
                    self._add_links(path)
        if target.word is not None and target.word.kind == "glob":
            for place in _list_glob_folders(target.word, self._list_folders(target.folders)):
                self._add_path(place, "read", deep=True, lists=not self.changed)

    def _add_path(self, path: str, action: FileAction, *, deep: bool = False, lists: bool = False) -> None:
        for each in (path, *self._list_sources(path)):
            self.found[FileAccess(each, action, deep, lists)] = None
        if action != "read":
            self.changed.add(_fold(posixpath.normpath(path)))
        if action in {"write", "create", "link"} and self.made_count < _MAX_BELOW:
            plain = posixpath.normpath(path)
            self.made_count += 1
            for above in _list_above(posixpath.dirname(plain)):
                self.made.setdefault(_fold(above), {})[plain[len(above.rstrip("/")) + 1 :]] = None

    def _list_sources(self, path: str) -> list[str]:
        """The same path below what the line itself moved, copied or linked to this name, or to a folder above it."""
        if not self.aliases:
            return []
        if path not in self.spelled:
            self.spelled[path] = list(_list_spellings(path))
        aliases = self.aliases
        found = {source + rest: None for above, rest in self.spelled[path] for source in aliases.get(above, ())}
        self.led_count += len(found)
        if self.led_count > _MAX_LED:
            self._stop_following(path)
            return []
        return list(found)

    def _stop_following(self, path: str) -> None:
        """What it moved may be anywhere by now: not known, and not looked at for guarded names."""
        self.add_unknown(UnknownEffect("it moves more than can be followed", reads=True, writes=True))
        self.unchecked = self.unchecked or path

    def _add_transfer(self, transfer: Transfer) -> None:
        destinations = list(self._list_paths(transfer.destination, transfer.folders, "write"))
        sources = [source for word in transfer.sources for source in self._list_paths(word, transfer.folders, "read")]
        for destination in destinations:
            if not sources:
                self._add_path(destination.path, "write")
            for folder in self._may_be_folder(destination.path, transfer):
                for source in sources:
                    self._add_one_transfer(transfer, source, destination.path, folder=folder)

    def _may_be_folder(self, destination: str, transfer: Transfer) -> tuple[bool, ...]:
        """Whether the destination is a folder that gets base names; both where only the run tells.

        A slash behind it says nothing: `mv tmpl new/` makes `new` of a folder where there is none.
        """
        if transfer.destination_is == "name":
            return (False,)
        if transfer.destination_is == "folder":
            return (True,)
        is_folder = os.path.isdir(destination)
        if transfer.destination_is == "unknown" or self.unknown is not None or self._is_changed(destination):
            return (True, False)
        return (is_folder,)

    def _is_changed(self, path: str) -> bool:
        """Whether the line changes it before, or something above it."""
        here = _fold(posixpath.normpath(path))
        while here not in self.changed:
            if here in {"/", ""}:
                return False
            here = posixpath.dirname(here)
        return True

    def _add_one_transfer(self, transfer: Transfer, source: _NamedPath, destination: str, *, folder: bool) -> None:
        contents = transfer.copies_inside and source.written.endswith("/")
        name = posixpath.basename(source.path.rstrip("/"))
        if transfer.keeps_path:
            name = source.written.lstrip("/").rpartition("/./")[2]
        targets = [destination]
        if (folder or transfer.copies_inside) and not contents:
            # `..` and `.` have no base name of their own.
            named = name if name not in {"", ".", ".."} else ""
            targets = [posixpath.join(destination, named) if named else destination]
            if transfer.copies_inside and not folder:
                targets.append(destination)
        for target in targets:
            for ending in transfer.backups:
                self._add_path(target.rstrip("/") + ending, "create")
            if transfer.action == "link":
                self._add_link(source, target, deep=transfer.deep)
            else:
                self._add_moved(source.path, target, transfer)

    def _add_link(self, source: _NamedPath, target: str, *, deep: bool) -> None:
        """A link is read through later: making one is to read what it leads to, with all below."""
        relative = posixpath.join(posixpath.dirname(target), source.written)
        if deep:
            self._add_below(source.path, target, "link")
        else:
            self._add_path(target, "link")
        for place in dict.fromkeys((source.path, relative)):
            self._add_path(place, "read", deep=os.path.isdir(place))
            self._add_alias(target, place)

    def _add_moved(self, source: str, target: str, transfer: Transfer) -> None:
        moves = transfer.action == "move"
        if transfer.deep:
            self._add_below(source, source, "move" if moves else "read", follows=transfer.follows)
            self._add_below(source, target, "create", follows=transfer.follows)
        else:
            self._add_path(source, "move" if moves else "read")
            self._add_path(target, "create")
        self._add_alias(target, source)
        self._add_moved_link(source, target)

    def _add_moved_link(self, source: str, target: str) -> None:
        """A relative link leads elsewhere from its new place."""
        try:
            leads = os.readlink(source.rstrip("/"))
        except (OSError, ValueError):
            return
        self._add_alias(target, posixpath.join(posixpath.dirname(target.rstrip("/")), leads))

    def _add_alias(self, alias: str, source: str) -> None:
        plain = posixpath.normpath(source)
        # What was itself moved before leads on to where it came from.
        earlier = [posixpath.normpath(each) for each in self._list_sources(source)]
        known = self.aliases.setdefault(_fold(posixpath.normpath(alias)), {})
        for each in (plain, *earlier):
            if each in known:
                continue
            if self.alias_count >= _MAX_ALIASES:
                self._stop_following(source)
                return
            known[each] = None
            self.alias_count += 1

    def _add_below(
        self, tree: str, target: str, action: FileAction, *, follows: bool = False, skips_git: bool = False
    ) -> None:
        """The same as happens to a path happens to all below it; `target` is where that lies."""
        places = [tree, *self._list_sources(tree)]
        complete = True
        below = list[str]()
        for place in places:
            if not os.path.isdir(place) or (os.path.islink(place) and not follows):
                continue
            entries = self._list_below(place)
            complete = complete and entries is not None
            for relative, is_link in entries or ():
                if skips_git and (relative == ".git" or relative.startswith(".git/")):
                    continue
                below.append(relative)
                if is_link and action == "create":
                    self._add_moved_link(posixpath.join(place, relative), posixpath.join(target, relative))
            if follows and action == "read":
                self._add_links(place)
        # What the line itself made there lies below it as well.
        below += self.made.get(_fold(posixpath.normpath(tree)), ())
        self._add_path(target, action, deep=not complete)
        for relative in dict.fromkeys(below):
            self._add_path(posixpath.join(target, relative), action)

    def _list_below(self, tree: str) -> list[tuple[str, bool]] | None:
        """All below a folder, relative to it, links not followed, and which are links; None where there is too much."""
        if tree not in self.trees:
            below = list(itertools.islice(walk_tree(tree), max(0, self.entries_left) + 1))
            if len(below) > max(0, self.entries_left):
                self.unchecked = self.unchecked or tree
                self.add_unknown(UnknownEffect(f"{tree} holds too many files to look at", reads=True, writes=True))
                self.trees[tree] = None
            else:
                self.entries_left -= len(below)
                self.trees[tree] = below
        return self.trees[tree]

    def _add_links(self, tree: str) -> None:
        """What is read through the links below a folder."""
        waiting, seen = [tree], set[str]()
        while waiting:
            here = waiting.pop()
            for relative, is_link in walk_tree(here):
                self.entries_left -= 1
                if self.entries_left < 0:
                    self.unchecked = self.unchecked or tree
                    self.add_unknown(UnknownEffect(f"{tree} holds too many files to look at", reads=True))
                    return
                path = posixpath.join(here, relative)
                if is_link and (real := os.path.realpath(path)) not in seen:
                    seen.add(real)
                    self._add_path(path, "read", deep=True)
                    waiting += [real] if os.path.isdir(real) else []

    def _add_repository(self, shown: RepositoryRead) -> None:
        for folder in self._list_folders(shown.folders):
            plain = [word for word in shown.words if word.kind == "literal" and not set(word.text) & set(":*?[\\")]
            paths = [posixpath.normpath(posixpath.join(folder, word.text)) for word in plain]
            existing = [path for path in paths if os.path.lexists(path)]
            limited = len(plain) == len(shown.words) if shown.only_paths else bool(existing)
            listed = paths if shown.only_paths else existing
            self.repositories[ShownRepository(folder, tuple(listed) if limited else ())] = None

    def _add_mentions(self, mentioned: MentionedText) -> None:
        """The words in a text that may be paths: in whole, in pieces, and after an option's letter."""
        if len(self.mentions) >= _MAX_MENTIONS or mentioned in self.searched_texts:
            return
        self.searched_texts.add(mentioned)
        names = _split_names(mentioned.text)
        is_code = _is_code(mentioned.text)
        for folder in self._list_folders(mentioned.folders):
            for name in names:
                # What begins with a dash is an option; what is attached to it is among the names.
                if name and name[0] != "-" and len(name) <= _MAX_NAME and "\0" not in name:
                    place = posixpath.join(folder, os.path.expanduser(name) if name[0] == "~" else name)
                    may_exist = bool(self.changed) or os.path.lexists(place)
                    self.mentions[Mention(place, is_code and name != mentioned.text, may_exist)] = None
        if len(self.mentions) >= _MAX_MENTIONS:
            self.add_unknown(UnknownEffect("it has more words than can be looked up", reads=True, writes=True))

    def _list_paths(
        self, word: Word | None, folders: Folders, action: FileAction, *, from_top: bool = False
    ) -> Iterator[_NamedPath]:
        """The paths that a word may mean. A folder that is not known is taken for where the command starts."""
        if word is None:
            yield from (_NamedPath(folder, "") for folder in self._list_folders(folders))
            return
        if word.kind == "unknown":
            reads = action == "read"
            self.add_unknown(UnknownEffect(f"{word.source or 'a name'} is known only when it runs", reads, not reads))
        if not _names_path(word):
            return
        if word.kind == "home":
            path = os.path.expanduser(word.text)
            yield _NamedPath(path, path)
            return
        if folders is None and not word.text.startswith("/"):
            self.add_unknown(
                UnknownEffect("the folder that it runs in is not known", action == "read", action != "read")
            )
        places = self._list_folders(folders)
        for place in [_find_top(place) for place in places] if from_top else places:
            if word.kind == "glob":
                yield from self._list_matches(word, place)
            else:
                yield _NamedPath(posixpath.join(place, word.text), word.text)

    def _list_matches(self, word: Word, place: str) -> Iterator[_NamedPath]:
        """What a pattern finds now; where that is not known exactly, all that it may find."""
        if self.changed:
            self.add_unknown(UnknownEffect(f"the line changes what {word.source} stands for", reads=True, writes=True))
        try:
            names = expand_glob(word, place, self.globs, wide=True)
        except NotExpandable as error:
            self.unchecked = self.unchecked or word.source
            self.add_unknown(UnknownEffect(str(error), reads=True, writes=True))
            return
        yield from (_NamedPath(posixpath.join(place, name), name) for name in names or [strip_glob_quotes(word)])

    def _list_folders(self, folders: Folders) -> list[str]:
        found = self.resolved_folders.get(folders)
        if found is None:
            given = ("",) if folders is None else folders
            found = self.resolved_folders[folders] = [resolve_folder(self.start, folder) for folder in given]
        return found


def _list_glob_folders(word: Word, folders: list[str]) -> Iterator[str]:
    """The folders that a pattern searches: which names it finds there is known only when it runs."""
    fixed = posixpath.dirname(_GLOB_BEGINS.split(word.text, maxsplit=1)[0])
    for place in folders:
        yield posixpath.join(place, fixed) if fixed else place


def _find_top(folder: str) -> str:
    """The top of the repository that a folder is in; the folder itself where there is none."""
    here = folder
    while not os.path.lexists(posixpath.join(here, ".git")):
        if here in {"/", ""}:
            return folder
        here = posixpath.dirname(here)
    return here


def _fold(path: str) -> str:
    """Some file systems take names as equal that differ in case."""
    return path.lower()


def _list_spellings(path: str) -> Iterator[tuple[str, str]]:
    # Through a link, `..` leads to where the link points: so by the names as they stand, too.
    for spelling in dict.fromkeys((posixpath.normpath(path), _strip_dots(path))):
        for above in _list_above(spelling):
            yield _fold(above), spelling[len(above) :]


def _list_above(path: str) -> Iterator[str]:
    """A path, and each folder above it but the root; of a very deep one the upper ones alone."""
    names = path.split("/")[1 : _MAX_DEPTH + 1]
    return ("/" + "/".join(names[:length]) for length in range(len(names), 0, -1))


def _split_names(text: str) -> dict[str, None]:
    """The text, and the pieces of it that may be paths."""
    if (option := _PLAIN_OPTION.fullmatch(text)) is not None:
        return dict.fromkeys([option[1]] if option[1] else [])
    if _PLAIN_NAME.fullmatch(text) is not None:
        return {text: None}
    known = _KNOWN_FOLDERS.sub(lambda found: "." if found[1] == "PWD" else "~", text)
    pieces = [found.group() for found in itertools.islice(_NAMES_IN_TEXT.finditer(known), _MAX_MENTIONS)]
    return dict.fromkeys([text, *pieces, *(piece[2:] for piece in pieces if piece[:1] in "-/")])


def _is_code(text: str) -> bool:
    return not set(text).isdisjoint(" \t\n();")


def _strip_dots(path: str) -> str:
    """Without `.` and doubled slashes, but with `..`."""
    return "/" + "/".join(name for name in path.split("/") if name not in {"", "."})


def walk_tree(tree: str) -> Iterator[tuple[str, bool]]:
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

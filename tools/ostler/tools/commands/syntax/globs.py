"""Expands the patterns of a command over the names on the disk, exactly as bash does, or not at all.

Known are `*`, `?` and brackets with plain ASCII letters, digits and their ranges. What else bash may take for a part
of a pattern (`[[:alpha:]]`, braces, odd members of brackets) is not expanded: a mistake would let a name pass.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands.syntax.words import Word, read_word

MAX_WORDS: Final = 1_000
"""Words that the patterns of one command may become."""
_MAX_ENTRIES: Final = 10_000
"""Names that are looked at for one command: more would hold up the call."""
_MAX_PATTERNS: Final = 100
_MAX_LENGTH: Final = 1_000
_MAX_DEPTH: Final = 64
_ESCAPABLE: Final = '$`"\\\n'
_BRACKETS: Final = re.compile(r"\[[!^]?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_])+\]")
_ODD: Final = frozenset("[]{}$`")
_QUOTED: Final = "\0"
"""Stands before a quoted character; no command holds this byte."""
_ANY_NAME: Final = re.compile(r".*", re.DOTALL)


class NotExpandable(Exception):
    """A pattern that bash may expand in another way, or that finds too much."""


@dataclass(slots=True)
class GlobLimits:
    """What the patterns of one command may still find, and look at."""

    words: int = MAX_WORDS
    entries: int = _MAX_ENTRIES
    patterns: int = _MAX_PATTERNS

    def count_pattern(self, source: str) -> None:
        self.patterns -= 1
        if self.patterns < 0:
            raise NotExpandable(f"it has more than {_MAX_PATTERNS} patterns")
        if len(source) > _MAX_LENGTH or source.count("/") > _MAX_DEPTH:
            raise NotExpandable(f"{source[:20]}… is longer than a pattern may be")

    def count_entry(self, source: str) -> None:
        self.entries -= 1
        if self.entries < 0:
            raise NotExpandable(f"{source} looks at more than {_MAX_ENTRIES} names")

    def count_words(self, source: str, found: int) -> None:
        self.words -= found
        if self.words < 0:
            raise NotExpandable(f"{source} finds more than {MAX_WORDS} names")


@dataclass(frozen=True, slots=True)
class _Component:
    """One name of a path."""

    literal: str | None
    matcher: re.Pattern[str] | None = None
    hidden: bool = False
    """It finds names that begin with a dot."""


def strip_glob_quotes(word: Word) -> str:
    """What bash makes of a pattern that finds nothing: the word itself, without its quotes."""
    return _mark_quoted(word.source).replace(_QUOTED, "")


def expand_glob(word: Word, folder: str, limits: GlobLimits, *, wide: bool = False) -> list[str]:
    """The names that a pattern finds from a folder, relative as it is, in the order of their bytes. Blocks.

    Raises NotExpandable. `wide`: where a pattern is not known exactly, all names that it may find.
    """
    limits.count_pattern(word.source)
    components = _parse_components(word, wide=wide)
    found = sorted(_find(components, folder, word.source, limits), key=os.fsencode)
    limits.count_words(word.source, len(found))
    return found


def _parse_components(word: Word, *, wide: bool) -> list[_Component]:
    marked = _mark_quoted(word.source if read_word(word.source).text == word.text else word.text)
    marked = marked.replace(f"{_QUOTED}/", "/")  # a slash divides names, quoted or not
    begin = "/" if marked.startswith("/") else ""
    names = marked[len(begin) :].split("/")
    if not all(names[:-1]) or (begin and not names[0]):
        if not wide:
            raise NotExpandable(f"{word.source} has an empty name in its path")
        names = [name for name in names if name]
    return [*([_Component("")] if begin else []), *(_parse_component(name, word.source, wide=wide) for name in names)]


def _parse_component(name: str, source: str, *, wide: bool) -> _Component:
    bare = re.sub(f"{_QUOTED}.", "", name, flags=re.DOTALL)
    if not set("*?[") & set(bare) and not _ODD & set(bare):
        return _Component(name.replace(_QUOTED, ""))
    pieces, place = list[str](), 0
    while place < len(name):
        sign = name[place]
        brackets = _BRACKETS.match(name, place)
        if sign == _QUOTED:
            pieces.append(re.escape(name[place + 1]))
            place += 1
        elif sign == "*" and (not wide or name[place + 1 : place + 2] != "*"):
            # The shell of what only reads has no `globstar`: several stars are one there.
            pieces += ["*"] if name[place + 1 : place + 2] != "*" else []
        elif sign == "?":
            pieces.append(".")
        elif brackets is not None and _has_rising_ranges(brackets.group()):
            pieces.append(brackets.group().replace("[!", "[^"))
            place = brackets.end() - 1
        elif sign in _ODD or sign == "*":
            if wide:
                return _Component(None, _ANY_NAME, hidden=True)
            raise NotExpandable(f"{source} is a pattern that only the shell can expand")
        else:
            pieces.append(re.escape(sign))
        place += 1
    return _Component(None, _compile(pieces), hidden=name.removeprefix(_QUOTED).startswith("."))


def _has_rising_ranges(brackets: str) -> bool:
    return all(first <= last for first, last in re.findall(r"([A-Za-z0-9])-([A-Za-z0-9])", brackets))


def _compile(pieces: list[str]) -> re.Pattern[str]:
    """Between two stars the first place that fits will do, so that no name makes the search slow."""
    runs = "".join(piece if piece != "*" else "\0" for piece in pieces).split("\0")
    first, *rest = runs
    middle = "".join(f"(?>.*?{run})" for run in rest[:-1])
    return re.compile(first + (f"{middle}.*{rest[-1]}" if rest else ""), re.DOTALL)


def _find(components: list[_Component], folder: str, source: str, limits: GlobLimits) -> Iterator[str]:
    found = [""]
    seen_glob = False
    for place, component in enumerate(components):
        end = "" if place == len(components) - 1 else "/"
        if component.literal is not None:
            found = [f"{before}{component.literal}" for before in found]
            if seen_glob and not end:
                found = [path for path in found if _exists(os.path.join(folder, path), source, limits)]
        else:
            seen_glob = True
            found = [
                f"{before}{name}" for before in found for name in _list_names(component, before, folder, source, limits)
            ]
        found = [f"{path}{end}" for path in found]
    yield from found


def _exists(path: str, source: str, limits: GlobLimits) -> bool:
    limits.count_entry(source)
    return os.path.isdir(path) if path.endswith("/") else os.path.lexists(path)


def _list_names(component: _Component, before: str, folder: str, source: str, limits: GlobLimits) -> Iterator[str]:
    assert component.matcher is not None
    limits.count_entry(source)
    try:
        with os.scandir(os.path.join(folder, before)) as entries:
            for entry in entries:
                limits.count_entry(source)
                name = entry.name
                if (component.hidden or not name.startswith(".")) and component.matcher.fullmatch(name):
                    yield name
    except OSError:
        # Not a folder, or one that bash could not read either.
        return


def _mark_quoted(source: str) -> str:
    """The word without its quotes, and a mark before each character that was quoted."""
    marked, place, quote = list[str](), 0, ""
    while place < len(source):
        sign = source[place]
        following = source[place + 1 : place + 2]
        if sign == "\\" and quote != "'" and (not quote or (following and following in _ESCAPABLE)):
            marked += [_QUOTED, following] if following != "\n" else []
            place += 1
        elif sign == quote or (not quote and sign in "'\""):
            quote = "" if quote else sign
        else:
            marked += [_QUOTED, sign] if quote else [sign]
        place += 1
    return "".join(marked)

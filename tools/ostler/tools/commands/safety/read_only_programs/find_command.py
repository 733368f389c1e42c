"""Checks find: its tests, and the read-only program that `-exec` runs on what it finds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.tools.commands.safety.program_table import (
    NotReadOnly,
    Program,
    ReadAccess,
    load_programs,
    parse_arguments,
)
from ostler.tools.commands.safety.read_only_programs.listing import Listing
from ostler.tools.commands.syntax.parsed import make_literal_word
from ostler.tools.commands.syntax.words import Word

CheckWords = Callable[[Sequence[Word]], ReadAccess]
"""Checks a command by its words. Raises NotReadOnly."""

_FOUND: Final = make_literal_word("./found")
"""Stands for the name of a file that is known only when it runs."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_./~]")
_PRINT_NAMES: Final = frozenset({"echo", "basename", "dirname"})
"""What does not read the files that it is given."""
_SIMPLE_PATTERN: Final = re.compile(r"[^\[\]\\]+")


@dataclass(frozen=True, slots=True)
class FindCommand:
    """find's arguments, taken apart."""

    roots: tuple[Word | None, ...]
    """None: the folder that it runs in."""
    tests: tuple[tuple[str, Word | None], ...]
    """Tests, operators and actions in their order, each with its value; `-exec` is followed by nothing."""
    inner: tuple[ReadAccess, ...]
    """What the commands read that it runs."""
    follows: bool

    def list_files(self) -> tuple[Word, ...]:
        table = load_programs()["find-words"].long_values
        named = [value for name, value in self.tests if value is not None and table.get(name[1:]) == "file"]
        more = [word for each in self.inner for word in each.files if word is not _FOUND]
        return (*(root for root in self.roots if root is not None), *named, *more)


def check_find(tokens: Sequence[Word], check: CheckWords) -> ReadAccess:
    """What find reads, with the command that it runs. Raises NotReadOnly."""
    found = parse_find(tokens, check)
    folder = None in found.roots or any(each.folder for each in found.inner)
    access = ReadAccess(found.list_files(), deep=True, folder=folder, follows=found.follows)
    return replace(access, listing=describe_listing(found)) if found.inner else access


def parse_find(tokens: Sequence[Word], check: CheckWords) -> FindCommand:
    """find's arguments, where it does nothing but look and run what only reads. Raises NotReadOnly."""
    waiting = list(tokens)[::-1]
    follows = any(token.text in {"-L", "-follow"} for token in tokens)
    while waiting and waiting[-1].text in {"-H", "-L", "-P"}:
        waiting.pop()
    roots: list[Word | None] = []
    while waiting and waiting[-1].text[:1] not in {"-", "(", "!", ","}:
        roots += parse_arguments(Program(operands="files"), [waiting.pop()]).operands
    tests: list[tuple[str, Word | None]] = []
    inner: list[ReadAccess] = []
    while waiting:
        if waiting[-1].literal == "-exec":
            waiting.pop()
            inner.append(_check_exec(waiting, check))
            tests.append(("-exec", None))
        else:
            tests.append(_take_test(waiting))
    return FindCommand(tuple(roots) or (None,), tuple(tests), tuple(inner), follows)


def _take_test(waiting: list[Word]) -> tuple[str, Word | None]:
    table = load_programs()["find-words"]
    word = waiting.pop()
    if word.kind != "literal":
        raise NotReadOnly(f"{word.source} is decided when it runs")
    name = word.text.removeprefix("-")
    if word.text in {"(", ")", "!", ","} or (word.text.startswith("-") and name in table.long):
        return word.text, None
    if not word.text.startswith("-") or name not in table.long_values or not waiting:
        raise NotReadOnly(f"{word.source} is not known to be harmless")
    value = waiting.pop()
    if value.kind != "literal":
        raise NotReadOnly(f"{value.source} is decided when it runs")
    return word.text, value


def _check_exec(waiting: list[Word], check: CheckWords) -> ReadAccess:
    words: list[Word] = []
    while waiting:
        word = waiting.pop()
        if word.literal == ";" or (word.literal == "+" and words and words[-1].literal == "{}"):
            return check_found(words, "{}", check)
        words.append(word)
    raise NotReadOnly("the command behind -exec does not end")


def check_found(words: Sequence[Word], mark: str | None, check: CheckWords) -> ReadAccess:
    """What a command reads besides the files that it gets: in place of a mark, or behind its words where there is none.

    It has to be a program for which any further file is just one more to read. Raises NotReadOnly.
    """
    name = words[0].literal if words else None
    if name is None or name not in load_programs()["found-files"].exact:
        raise NotReadOnly(f"{name} is not known to do nothing but read whatever file it is given")
    if mark is None:
        given = [*words, _FOUND]
    elif any(mark in word.text and word.literal != mark for word in words):
        raise NotReadOnly(f"{mark} is only a part of a word")
    else:
        given = [_FOUND if word.literal == mark else word for word in words]
    access = check(given)
    if access.checksums:
        raise NotReadOnly("what stands in a list that is found is not known")
    if _FOUND in given and name not in _PRINT_NAMES and not any(word is _FOUND for word in access.files):
        raise NotReadOnly("what it finds would be no file but a pattern or a script")
    return access


def describe_listing(found: FindCommand) -> Listing:
    """The files that are found. Raises NotReadOnly where their names may look like options."""
    require_plain_names(found.roots)
    follows = found.follows or any(each.follows for each in found.inner)
    return _narrow(Listing(found.roots, follows=follows), found)


def require_plain_names(roots: Sequence[Word | None]) -> None:
    """What is found below a folder begins with that folder's name. Raises NotReadOnly."""
    for root in roots:
        if root is not None and (root.kind not in {"literal", "home"} or not _PLAIN_NAME.match(root.text)):
            raise NotReadOnly(f"names below {root.source} may look like options")


def _narrow(listing: Listing, found: FindCommand) -> Listing:
    """Less can be wrong where the outermost tests, all of which have to hold, say which files are found."""
    outer = _list_outermost(found.tests)
    names = [name for name, _ in outer]
    if any(name in {"-o", "-or", ","} for name in names):
        return listing
    ends = names.index("-exec") if "-exec" in names else len(names)
    for place, (name, value) in enumerate(outer[:ends]):
        if place and names[place - 1] in {"!", "-not"}:
            continue
        if name == "-type" and value is not None and value.text == "f" and not found.follows:
            listing = replace(listing, links=False)
        elif name in {"-name", "-iname"} and value is not None and _SIMPLE_PATTERN.fullmatch(value.text):
            listing = replace(listing, patterns=listing.patterns or (value.text,))
    return listing


def _list_outermost(tests: Sequence[tuple[str, Word | None]]) -> list[tuple[str, Word | None]]:
    """Those that stand in no parentheses; with an `-exec` inside of some, that is taken to stand before all."""
    depth = 0
    found: list[tuple[str, Word | None]] = []
    for name, value in tests:
        depth += (name == "(") - (name == ")")
        if depth == 0:
            found.append((name, value))
        elif name == "-exec":
            return [(name, value)]
    return found

"""Checks git: its subcommands that only read, and the folder that `-C` lets it run in."""

import os
import posixpath
from collections.abc import Sequence
from typing import Final

from ostler.tools.commands.safety.program_table import (
    NotReadOnly,
    Program,
    ReadAccess,
    find_file_operands,
    load_git_forms,
    parse_arguments,
)
from ostler.tools.commands.syntax.words import Word

_FLAGS: Final = frozenset({"--no-pager", "-P", "--no-optional-locks"})
_SHARED: Final = frozenset({"common", "history"})
"""Entries of the table that are no subcommands."""
_BARE: Final = ("HEAD", "objects", "refs")
_MAX_LEVELS: Final = 64


def check_git(tokens: Sequence[Word]) -> ReadAccess:
    """What git reads. Raises NotReadOnly where it may do more."""
    rest, folder = _take_global_options(tokens)
    name = rest[0].literal if rest else None
    if name is None:
        raise NotReadOnly("git's subcommand is not known")
    both = f"{name} {rest[1].literal}" if len(rest) > 1 else ""
    two = both in load_git_forms()
    form = load_git_forms().get(both if two else name)
    if form is None or name in _SHARED:
        raise NotReadOnly(f"git {name} is not known to be harmless")
    files = _list_files(form, rest[2 if two else 1 :])
    if folder is None:
        return ReadAccess(files, git=True)
    return ReadAccess((folder, *(_place(word, folder) for word in files)), git=True, git_folder=folder)


def _take_global_options(tokens: Sequence[Word]) -> tuple[Sequence[Word], Word | None]:
    """What follows git's own options, and the folder of `-C`."""
    folder: Word | None = None
    place = 0
    while place < len(tokens):
        text = tokens[place].literal
        if text in _FLAGS:
            place += 1
        elif text == "-C" and folder is None and place + 1 < len(tokens):
            folder = tokens[place + 1]
            if not folder.literal or folder.text.startswith("-"):
                raise NotReadOnly(f"{folder.source} is decided when it runs")
            place += 2
        else:
            break
    return tokens[place:], folder


def _list_files(form: Program, arguments: Sequence[Word]) -> tuple[Word, ...]:
    found = parse_arguments(form, arguments)
    if found.has(("list", "l")) and form.local_list and (found.operands or not found.has(("local",))):
        raise NotReadOnly("only the repository's own configuration is listed unasked")
    return (*find_file_operands(form, found), *(_extract_path(operand) for operand in found.operands))


def _extract_path(operand: Word) -> Word:
    """`HEAD:path` and `:!path` name a path too."""
    path = operand.text.rpartition(":")[2] or "."
    return Word(operand.source, path, operand.kind)


def _place(word: Word, folder: Word) -> Word:
    if word.kind == "home":
        return word
    return Word(word.source, posixpath.join(folder.text, word.text), word.kind)


def is_same_repository(first: str, second: str) -> bool:
    """Whether two folders lie in one repository, or both in none. Blocks: looks at the disk."""
    return _find_top(os.path.realpath(first)) == _find_top(os.path.realpath(second))


def _find_top(folder: str) -> str | None:
    """The folder above, or this one, that has the looks of a repository: a broken one counts as well."""
    here = folder
    for _ in range(_MAX_LEVELS):
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        if all(os.path.lexists(os.path.join(here, name)) for name in _BARE):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return folder

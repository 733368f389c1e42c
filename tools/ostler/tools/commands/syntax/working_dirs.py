"""In which folders a part may run: what `cd` makes of them."""

import posixpath
import re
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from ostler.tools.commands.syntax.parsed import Folders

_MOST: Final = 8
MOVES: Final = re.compile(r"\b(?:cd|pushd|popd|eval|source|trap|builtin|command|exec)\b|(?:^|[\s;&|({])\.\s")
"""A text that may hold a change of folder."""
_LOOKED_THROUGH: Final = frozenset({"builtin", "command"})
_LOSES_TRACK: Final = frozenset({"pushd", "popd", "eval", "source", ".", "shopt", "set", "alias"})


def joined(first: Folders, second: Folders) -> Folders:
    """Where either may be."""
    if first is None or second is None:
        return None
    if first == second:
        return first
    both = tuple(dict.fromkeys((*first, *second)))
    return both if len(both) <= _MOST else None


def after(words: Sequence[str | None], folders: Folders, *, assigns: bool) -> tuple[Folders, Folders]:
    """Where the shell is after a simple command that succeeded, and after one that failed."""
    if words and words[0] in _LOOKED_THROUGH:
        words = list(dropwhile(_LOOKED_THROUGH.__contains__, words))
    if not words:
        return folders, folders
    if words[0] is None or words[0] in _LOSES_TRACK:
        return None, None
    if words[0] != "cd":
        return folders, folders
    target = _target(words[1:])
    if target is None or assigns or folders is None:
        return None, folders
    return tuple(dict.fromkeys(_moved(folder, target) for folder in folders)), folders


def _target(arguments: Sequence[str | None]) -> str | None:
    rest = arguments[1:] if arguments and arguments[0] == "--" else arguments
    if len(rest) != 1 or not rest[0] or rest[0].startswith("-"):
        return None
    return rest[0]


def _moved(folder: str, target: str) -> str:
    # The shell goes to a parent by the names, not through the links: so does this.
    return posixpath.normpath(posixpath.join(folder, target)) if folder else posixpath.normpath(target)


def resolved(start: str, folder: str) -> str:
    """The absolute folder that a relative one means where the command starts in a folder."""
    return posixpath.normpath(posixpath.join(start, folder))

"""Tracks the working directories that a simple command may run in, across `cd`."""

import posixpath
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.parsed import Folders

_MAX_FOLDERS: Final = 8
_MAX_LEVELS: Final = 64
"""How far a line may go down: each folder on the way is resolved, and all above it."""
MAY_CHANGE_FOLDER: Final = compile_later(
    r"\b(?:cd|pushd|popd|eval|source|trap|builtin|command|exec)\b|(?:^|[\s;&|({])\.\s"
)
"""Matches source text that may change the folder."""
_PASS_THROUGH: Final = frozenset({"builtin", "command"})
_CHANGES: Final = frozenset({"cd", "pushd"})
_LOSES_TRACK: Final = frozenset({"popd", "eval", "source", ".", "shopt", "set", "alias"})


def merge_folders(first: Folders, second: Folders) -> Folders:
    """The folders of both; None where one is unknown, or there are too many."""
    if first is None or second is None:
        return None
    if first == second:
        return first
    both = tuple(dict.fromkeys((*first, *second)))
    return both if len(both) <= _MAX_FOLDERS else None


def track_folder_change(words: Sequence[str | None], folders: Folders, *, assigns: bool) -> tuple[Folders, Folders]:
    """The folders that the shell may be in after a simple command succeeded, and after it failed."""
    if words and words[0] in _PASS_THROUGH:
        words = list(dropwhile(_PASS_THROUGH.__contains__, words))
    if not words:
        return folders, folders
    if words[0] is None or words[0] in _LOSES_TRACK:
        return None, None
    if words[0] not in _CHANGES:
        return folders, folders
    target = _find_cd_target(words[1:])
    if target is not None and words[0] == "pushd" and target.startswith("+"):
        target = None  # a place in its own list
    return (None if assigns else change_folders(folders, target)), folders


def change_folders(folders: Folders, target: str | None) -> Folders:
    """The folders after a change to another; None for one that is not known, or lies too deep."""
    if folders is None or not target:
        return None
    changed = tuple(dict.fromkeys(_change_folder(folder, target) for folder in folders))
    return None if any(folder.count("/") >= _MAX_LEVELS for folder in changed) else changed


def nest_folders(outer: Folders, inner: Folders) -> Folders:
    """The folders of a command line that runs inside another: its own are relative to those of the other."""
    if outer is None or inner is None:
        return None
    both = tuple(dict.fromkeys(_change_folder(above, below) if below else above for above in outer for below in inner))
    return both if len(both) <= _MAX_FOLDERS else None


def _find_cd_target(arguments: Sequence[str | None]) -> str | None:
    rest = arguments[1:] if arguments and arguments[0] == "--" else arguments
    if len(rest) != 1 or not rest[0] or rest[0].startswith("-"):
        return None
    return rest[0]


def _change_folder(folder: str, target: str) -> str:
    # The shell resolves `..` by the names, not through links: so does this.
    return posixpath.normpath(posixpath.join(folder, target)) if folder else posixpath.normpath(target)


def resolve_folder(start: str, folder: str) -> str:
    """The absolute folder that a relative one means where the command starts in a folder."""
    return posixpath.normpath(posixpath.join(start, folder))

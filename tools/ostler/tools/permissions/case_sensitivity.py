"""Finds out whether a file system ignores the case of names."""

import os
import sys
from functools import lru_cache
from itertools import islice
from typing import Final

_MAX_ENTRIES: Final = 50
_DEFAULT: Final = sys.platform in {"darwin", "win32"}
"""What is usual on this platform, where nothing can be found out."""


@lru_cache(maxsize=512)
def is_case_insensitive(folder: str) -> bool:
    """Found out without writing: by an entry of the folder, else by its own name in the folder above it."""
    while True:
        folds = _probe_entries(folder)
        if folds is None:
            folds = _probe_own_name(folder)
        if folds is not None:
            return folds
        above = os.path.dirname(folder)
        if above == folder:
            return _DEFAULT
        folder = above


def _probe_entries(folder: str) -> bool | None:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
    except (OSError, ValueError):
        return None
    for name in names:
        folds = _probe_name(folder, name)
        if folds is not None:
            return folds
    return None


def _probe_own_name(folder: str) -> bool | None:
    above, name = os.path.split(folder)
    return _probe_name(above, name) if name else None


def _probe_name(folder: str, name: str) -> bool | None:
    """Whether a name and the same in the other case are one file; None where that is unknown.

    Only ASCII letters count: each file system has rules of its own for the others.
    """
    other = name.swapcase()
    if other == name or not name.isascii():
        return None
    try:
        here = os.lstat(os.path.join(folder, name))
    except (OSError, ValueError):
        return None
    try:
        there = os.lstat(os.path.join(folder, other))
    except (OSError, ValueError):
        return False
    # A file with a second name of the other case is a link, and proves nothing.
    if here.st_nlink > 1 and not os.path.isdir(os.path.join(folder, name)):
        return None
    return os.path.samestat(here, there)

"""Whether a file system takes names as equal that differ only in the case of their letters."""

import os
import sys
from functools import lru_cache
from itertools import islice
from typing import Final

_LOOKED_AT: Final = 50
_USUAL: Final = sys.platform in {"darwin", "win32"}
"""Where nothing can be told, what is usual here."""


@lru_cache(maxsize=512)
def case_folds(folder: str) -> bool:
    """Tells without writing: by an entry of the folder, else by its own name in the folder above it."""
    while True:
        told = _by_entries(folder)
        if told is None:
            told = _by_name(folder)
        if told is not None:
            return told
        above = os.path.dirname(folder)
        if above == folder:
            return _USUAL
        folder = above


def _by_entries(folder: str) -> bool | None:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _LOOKED_AT)]
    except (OSError, ValueError):
        return None
    for name in names:
        told = _same(folder, name)
        if told is not None:
            return told
    return None


def _by_name(folder: str) -> bool | None:
    above, name = os.path.split(folder)
    return _same(above, name) if name else None


def _same(folder: str, name: str) -> bool | None:
    """Only ASCII letters tell: each file system has rules of its own for the others."""
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
    # A file with a second name of the other case is a link, and tells nothing.
    if here.st_nlink > 1 and not os.path.isdir(os.path.join(folder, name)):
        return None
    return os.path.samestat(here, there)

"""Output files that are used again.

To make a file takes up to a millisecond on a file system that has just seen many of them go; to give one that is there
another name takes a thirtieth of that. A command needs two.
"""

import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MOST: Final = 32
_SUFFIXES: Final = ("", ".end")
_SET_LEASE: Final[int | None] = getattr(fcntl, "F_SETLEASE", None)


class SpareFiles:
    """Pairs of empty files that nobody has open, in a folder of their own. All of it blocks, for very short."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._names: list[str] | None = []
        """Null when no more are taken."""
        self._empty()

    def take(self, path: str) -> bool:
        """Put a spare pair at a path and beside it, where nothing is; false where there is none."""
        with self._lock:
            name = self._names.pop() if self._names else None
        if name is None:
            return False
        try:
            for suffix in _SUFFIXES:
                os.rename(self._folder / f"{name}{suffix}", f"{path}{suffix}")
        except OSError:
            # Somebody has removed them; whatever is left of the pair is in the way of a new one.
            _unlink([Path(f"{path}{suffix}") for suffix in _SUFFIXES])
            return False
        return True

    def give(self, path: str) -> bool:
        """Keep a pair that has been used; false where it is to be removed instead."""
        if self._names is None or len(self._names) >= MOST:
            return False
        if not all(_emptied(f"{path}{suffix}") for suffix in _SUFFIXES):
            return False
        name = secrets.token_hex(8)
        kept = [self._folder / f"{name}{suffix}" for suffix in _SUFFIXES]
        try:
            for suffix, place in zip(_SUFFIXES, kept, strict=True):
                os.rename(f"{path}{suffix}", place)
        except OSError:
            _unlink(kept)
            return False
        with self._lock:
            if self._names is not None:
                self._names.append(name)
                return True
        _unlink(kept)
        return True

    def close(self) -> None:
        with self._lock:
            self._names = None
        self._empty()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _empty(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            _unlink(list(self._folder.iterdir()))


def _emptied(path: str) -> bool:
    """Whether nobody has the file open any more, so that no word of an old command can come into it."""
    if _SET_LEASE is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # The kernel gives this lease only to the one who is alone with a file.
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)
        os.ftruncate(descriptor, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


_kept: Final[dict[str, SpareFiles]] = {}


def keep_spares(place: Path, folder: Path) -> None:
    """From now on, the files of a place are kept in a folder when they are not needed any more."""
    folder.mkdir(mode=0o700, exist_ok=True)
    _kept[str(place)] = SpareFiles(folder)


def drop_spares(place: Path) -> None:
    if (spares := _kept.pop(str(place), None)) is not None:
        spares.close()


def spares_of(place: str) -> SpareFiles | None:
    return _kept.get(place)

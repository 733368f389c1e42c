"""A pool of empty output files that are used again.

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

MAX_SPARES: Final = 32
_SUFFIXES: Final = ("", ".end")
_SET_LEASE: Final[int | None] = getattr(fcntl, "F_SETLEASE", None)


class OutputFilePool:
    """Pairs of empty files that no process has open, in a folder of their own. All of it blocks, very briefly."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._names: list[str] | None = []
        """Null once the pool is closed."""
        self._remove_files()

    def take(self, path: str) -> bool:
        """Moves a spare pair to a path that is free; false where there is no spare one."""
        with self._lock:
            name = self._names.pop() if self._names else None
        if name is None:
            return False
        try:
            for suffix in _SUFFIXES:
                os.rename(self._folder / f"{name}{suffix}", f"{path}{suffix}")
        except OSError:
            # They have been removed; what is left of the pair would be in the way of a new one.
            _unlink([Path(f"{path}{suffix}") for suffix in _SUFFIXES])
            return False
        return True

    def put_back(self, path: str) -> bool:
        """Keeps a pair that has been used; false where the caller is to remove it instead."""
        if self._names is None or len(self._names) >= MAX_SPARES:
            return False
        if not all(_empty_if_unused(f"{path}{suffix}") for suffix in _SUFFIXES):
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
        self._remove_files()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _remove_files(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            _unlink(list(self._folder.iterdir()))


def _empty_if_unused(path: str) -> bool:
    """Empties a file that no process has open, into which no old command can print; false where one has."""
    if _SET_LEASE is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # The kernel grants this lease only where no other process has the file open.
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


_pools: Final[dict[str, OutputFilePool]] = {}


def keep_spares(place: Path, folder: Path) -> None:
    """From now on, output files of a place are kept in a pool in that folder when they are not needed any more."""
    folder.mkdir(mode=0o700, exist_ok=True)
    _pools[str(place)] = OutputFilePool(folder)


def drop_spares(place: Path) -> None:
    if (spares := _pools.pop(str(place), None)) is not None:
        spares.close()


def find_pool(place: str) -> OutputFilePool | None:
    return _pools.get(place)
